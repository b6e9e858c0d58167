"""An autograder for Gradescope, in the form its documentation describes.

gradescope-autograders.readthedocs.io/en/latest/specs: a zip with `setup.sh` and `run_autograder` at
its root; the submission lies in /autograder/submission; the result goes to
/autograder/results/results.json.
"""

import json
import os
import zipfile
from importlib import metadata
from pathlib import Path

from attnbook.labs import folder, grade, sandbox, submissions

PACKAGE = Path(__file__).parents[1]
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
PYTHONPATH=/autograder/source/src /autograder/python/bin/python -m attnbook.labs.gradescope
"""
NEEDED = ["numpy", "nbformat", "safetensors", "tqdm"]  # what suits that machine's Python and torch


def write(lab, path, options=""):
    """Write the zip at once. Its seed is drawn now, so all submissions meet the same cases.

    `options` are for pip, such as an index that has torch without CUDA, which is far smaller.
    """
    path = Path(path)
    draft = path.with_name(path.name + ".draft")
    packages = " ".join([f"torch=={public(metadata.version('torch'))}", *NEEDED])
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        program(
            archive,
            "setup.sh",
            SETUP.format(packages=packages, options=f"{options} " * bool(options)),
        )
        program(archive, "run_autograder", RUN)
        archive.writestr("seed", str(folder.drawn_seed()))
        archive.writestr("lab", str(lab.number))
        for file in (lab.path, lab.path.with_suffix(".py")):
            archive.write(file, f"labs/{file.name}")
        for file in [PACKAGE / "__init__.py", *sorted((PACKAGE / "labs").glob("*.py"))]:
            archive.write(file, f"src/attnbook/{file.relative_to(PACKAGE)}")
    os.replace(draft, path)
    return path


def public(version):
    """A version without what was added to it on this machine: 2.13.0 for 2.13.0+cpu."""
    return version.partition("+")[0]


def program(archive, name, text):
    """A file that may be executed."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o100755 << 16
    archive.writestr(entry, text)


def results(lab, row):
    """A row in Gradescope's format. Written answers are left to its readers."""
    tests = []
    for asked in lab.asked:
        question = row["questions"][asked.name]
        if asked.code:
            points = question["points"] or 0
            one = {"number": str(asked.number), "name": asked.name, "score": points}
            one |= {"max_score": asked.points, "output": question["text"], "visibility": "visible"}
            tests.append(one | {"status": "passed" if points == asked.points else "failed"})
    output = row["reason"] or "Written answers are read by a person."
    said = {"output": output, "execution_time": round(row["seconds"]), "tests": tests}
    return said | {"stdout_visibility": "hidden", "extra_data": {"review": row["review"]}}


def main(root=Path("/autograder")):
    """Grade the one submission that Gradescope has put there; there is a result in any case."""
    from attnbook.labs import source

    here = root / "source"
    lab = source.find(int((here / "lab").read_text()), here / "labs")
    found = submissions.collect(root / "submission")
    notebooks = [one for one in found if one.file.endswith(".ipynb")] or found
    one = notebooks[0] if notebooks else submissions.Submission("nothing", b"")
    grader = grade.Grader(lab, int((here / "seed").read_text()), sandbox.walls())
    with sandbox.box() as box:
        row = grader.row(one, box)
    if len(notebooks) > 1:
        row["reason"] += f" {len(notebooks)} notebooks were handed in; graded: {one.file}."
    (root / "results").mkdir(exist_ok=True)
    text = json.dumps(results(lab, row), ensure_ascii=False, indent=1)
    folder.store(root / "results" / "results.json", text)


if __name__ == "__main__":
    main()
