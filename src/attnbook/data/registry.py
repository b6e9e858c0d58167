"""Files that the book downloads: where from, how large, which hash, whose they are.

A file is looked for in three places, in this order: the folder that the environment variable
`ATTNBOOK_DATA` names, the user's cache, the address it comes from. It is used only if its SHA-256
is the one written here. None of these files is in the package.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class File:
    """One file: `name` is its place below `ATTNBOOK_DATA` and the cache, `size` is in bytes."""

    name: str
    address: str
    size: int
    sha256: str
    licence: str
    cite: str


MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K_FILES = {
    "train.de.gz": (637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    "train.en.gz": (568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    "train.fr.gz": (604242, "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c"),
    "val.de.gz": (24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    "val.en.gz": (21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    "val.fr.gz": (23001, "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9"),
    "test_2016_flickr.de.gz": (
        22890,
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    ),
    "test_2016_flickr.en.gz": (
        21077,
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    ),
    "test_2016_flickr.fr.gz": (
        22310,
        "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    ),
}

FILES = {
    file.name: file
    for file in [
        File(
            name="tinyshakespeare/input.txt",
            address="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            size=1115394,
            sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            licence="public-domain text (William Shakespeare)",
            cite="Andrej Karpathy, char-rnn, 2015, https://github.com/karpathy/char-rnn",
        ),
        File(
            name="fra-eng/fra-eng.zip",
            address="https://raw.githubusercontent.com/genimind/seq2seq/master/fra-eng.zip",
            size=2951390,
            sha256="16c4f7d0df9e7c5e6c54cdb0447f3f4a18a55052ff5e2e0b27dd4a06c0e49d04",
            licence="CC BY 2.0",
            cite="Tatoeba, tatoeba.org, through manythings.org/anki, release of 2017-09-29",
        ),
        *(
            File(
                name="multi30k/" + name,
                address=MULTI30K + name,
                size=size,
                sha256=sha256,
                licence="CC BY-NC-SA (text): for study, not to be passed on",
                cite="Elliott, Frank, Sima'an and Specia, Multi30K: Multilingual English-German "
                "Image Descriptions, 2016, doi:10.18653/v1/W16-3210",
            )
            for name, (size, sha256) in MULTI30K_FILES.items()
        ),
        File(
            name="nanogpt/model.py",
            address="https://raw.githubusercontent.com/karpathy/nanoGPT/3adf61e154c3fe3fca428ad6bc3818b27a3b8291/model.py",
            size=16345,
            sha256="7c01703240dbec5d554527dc666e35b3df8391d0b117fddc07afcf325a21d11c",
            licence="MIT",
            cite="Andrej Karpathy, nanoGPT, 2022, https://github.com/karpathy/nanoGPT",
        ),
        File(
            name="cifar10/cifar-10-python.tar.gz",
            address="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            size=170498071,
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            licence="none stated: for study, not to be passed on",
            cite="Alex Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009, "
            "https://www.cs.toronto.edu/~kriz/cifar.html",
        ),
    ]
}


def cache() -> Path:
    """Per-user download cache."""
    import pooch  # only who downloads needs it

    return Path(pooch.os_cache("attnbook"))


def refuse_other_content(path: Path, file: File) -> None:
    """A `ValueError` with both hashes unless `path` holds the file that is described."""
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != file.sha256:
        raise ValueError(
            f"{path} is not the file that the book knows: its SHA-256 is {found}, expected "
            f"{file.sha256} ({path.stat().st_size:,} bytes, expected {file.size:,}). "
            f"Replace it by {file.address} or remove it."
        )


def fetch(name: str) -> Path:
    """The path of a registered file, downloaded to the cache if it is nowhere yet.

    Errors: `ValueError` for a name that is not registered, for a wrong hash (both hashes are named;
    a download is not kept, a file of yours is left alone) and for an `ATTNBOOK_DATA` that is no
    folder; `FileNotFoundError`, with the address and where to put the file by hand, if it is
    nowhere and cannot be downloaded.
    """
    if name not in FILES:
        raise ValueError(
            f"there is no registered file {name!r}; there are {', '.join(map(repr, FILES))}"
        )
    file, own = FILES[name], os.environ.get("ATTNBOOK_DATA")
    if own and not Path(own).is_dir():
        raise ValueError(f"ATTNBOOK_DATA names {own!r}, which is no folder")
    if own and (Path(own) / name).exists():
        refuse_other_content(Path(own) / name, file)
        return Path(own) / name
    return _download(file)


def _download(file: File) -> Path:
    """The file in the cache; pooch renames its temporary file only if the hash is right."""
    import pooch

    path = cache() / file.name
    pooch.get_logger().setLevel("WARNING")  # the progress bar says enough
    try:
        pooch.retrieve(
            file.address,
            known_hash="sha256:" + file.sha256,
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(progressbar=True, timeout=30),
        )
    except OSError as error:  # no network, refused, broken off, no such address, no room
        raise FileNotFoundError(
            f"{file.name} ({file.size:,} bytes) is needed and could not be downloaded "
            f"({type(error).__name__}). By hand: get {file.address} and put it at {path}, or at "
            f"{file.name} below a folder that the environment variable ATTNBOOK_DATA names."
        ) from error
    return path
