"""An autograder for Gradescope, in the form its documentation describes.

gradescope-autograders.readthedocs.io/en/latest/specs: a zip with `setup.sh` and `run_autograder` at
its root; the submission lies in /autograder/submission; the result goes to
/autograder/results/results.json.
"""

import hashlib
import json
import secrets
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

from attnbook.files import replacing, store
from attnlabs import source
from attnlabs.grading import grade, sandbox, submissions
from attnlabs.grading.row import Row
from attnlabs.lab12.forecasts import aligned
from attnlabs.question import drawn
from attnlabs.source import Lab

SOURCE = Path(__file__).parents[1]
SETUP = """#!/usr/bin/env bash
set -e
apt-get update
apt-get install -y python3 python3-pip python3-venv bubblewrap
python3 -m venv /autograder/python
/autograder/python/bin/pip install {options}{packages}
"""
RUN = """#!/usr/bin/env bash
chmod o= /autograder/source /autograder/results  # students' code runs as another user than root
cd /autograder/source
PYTHONPATH=/autograder/source/src /autograder/python/bin/python -m attnlabs.gradescope
"""
BITS = 128  # of the zip's seed: the 31 that draw a file's numbers can be found from a few of them
# In what version suits that machine's Python and torch
NEEDED = ["numpy", "nbformat", "safetensors", "tqdm", "jaxtyping", "tokenizers"]


def write(lab: Lab, path: Path, options: str = "") -> Path:
    """Write the zip at once. Its seed is drawn now; with a file's content it draws the cases.

    `options` are for pip, such as an index that has torch without CUDA, which is far smaller.
    """
    path = Path(path)
    packages = " ".join([f"torch=={public(metadata.version('torch'))}", *NEEDED])
    setup = SETUP.format(packages=packages, options=f"{options} " if options else "")
    ours = [path for name in ("attnbook", "attnlabs") for path in SOURCE.glob(f"{name}/**/*.py")]
    ours += [*SOURCE.glob("attnbook/data/*.gz"), *SOURCE.glob("attnbook/weights/book-lm/*")]
    with replacing(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        program(archive, "setup.sh", setup)
        program(archive, "run_autograder", RUN)
        archive.writestr("seed", str(secrets.randbits(BITS)))
        archive.writestr("lab", str(lab.number))
        for file in lab.path.parent.glob(f"{lab.path.stem}.*"):
            archive.write(file, f"labs/{file.name}")
        for file in sorted(ours):
            archive.write(file, f"src/{file.relative_to(SOURCE)}")
    return path


def public(version: str) -> str:
    """A version without what was added to it on this machine: 2.13.0 for 2.13.0+cpu."""
    return version.partition("+")[0]


def program(archive: zipfile.ZipFile, name: str, text: str) -> None:
    """A file that may be executed."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o100755 << 16
    archive.writestr(entry, text)


def results(lab: Lab, row: Row) -> dict[str, Any]:
    """A row in Gradescope's format. Written answers are left to its readers."""
    tests: list[dict[str, Any]] = []
    for asked in lab.asked:
        answer = row.questions[asked.name]
        tried = asked.code and asked.name not in lab.contests
        if tried and (answer.points is not None or row.reason):
            points = answer.points or 0
            test = {"number": str(asked.number), "name": asked.name, "score": points}
            said = "\n\n".join([answer.text, *([aligned(answer.table)] if answer.table else [])])
            test |= {"max_score": asked.points, "output": said, "visibility": "visible"}
            tests.append(test | {"status": "passed" if points == asked.points else "failed"})
    return {
        "output": row.reason or "Written answers are read by a person.",
        "execution_time": round(row.seconds),
        "tests": tests,
        "stdout_visibility": "hidden",
        "extra_data": {"review": row.review},
    }


def seed(lab: Lab, known: int, content: bytes) -> int:
    """What draws the numbers that a file is tried on: another file meets others, so what feedback
    says of them is of no use to the next hand-in.

    Where a lot decides what is looked at, it stays: who hands in again would draw a better one.
    """
    of_class = known % (1 << 31)
    if any(case.lot for each in lab.compared.values() for case in drawn(each, of_class)):
        return of_class
    digest = hashlib.sha256(f"{known}/".encode() + content).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def main(root: Path = Path("/autograder")) -> None:
    """Grade the one submission that Gradescope has put there; there is a result in any case."""
    here = root / "source"
    lab = source.find(int((here / "lab").read_text()), here / "labs")
    found = submissions.collect(root / "submission")
    notebooks = [file for file in found if file.file.endswith(".ipynb")] or found
    first = notebooks[0] if notebooks else submissions.Submission("nothing", b"")
    own = seed(lab, int((here / "seed").read_text()), first.content or b"")
    grader = grade.Grader(lab, own, sandbox.walls())
    with sandbox.box() as box:
        row = grader.row(first, box)
    if len(notebooks) > 1:
        row.reason += f" {len(notebooks)} notebooks were handed in; graded: {first.file}."
    (root / "results").mkdir(exist_ok=True)
    text = json.dumps(results(lab, row), ensure_ascii=False, indent=1)
    store(root / "results" / "results.json", text)


if __name__ == "__main__":
    main()
