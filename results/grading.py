"""Grade a class that hands in lab 3: how long it takes, and what is left when it is killed.

    python results/grading.py --files 200 --workers 2

The files are made of the tests' corpus, by a seed: most have answers right in some unusual way and
one or two typical mistakes, some stop half way, one in twenty is hostile or no notebook. The class
is graded by the command that lecturers use, once in one go, and once killed (SIGKILL) when half of
the rows are there and started again. The result goes to results/grading/.
"""

import argparse
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat

from attnbook import device
from attnbook.provenance import provenance, write
from attnlabs import release, source

COMMAND = "import sys; from attnbook import cli; sys.exit(cli.main())"
Stored = dict[Path, int]  # a row's file and when it was written
ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "labs" / "corpus"
sys.path.append(str(CORPUS))  # what the tests hand in

import hostile  # noqa: E402
import lab03  # noqa: E402


def submission(lab: source.Lab, chance: random.Random) -> bytes:
    """One notebook: each question right, wrong or left out."""
    notebook = release.student_copy(lab)
    attack = chance.choice(sorted(hostile.TRIES)) if chance.random() < 0.03 else None
    done = chance.randint(2, 6) if chance.random() < 0.3 else 6
    for cell in notebook.cells:
        name = cell.id.replace("-", "_")
        if cell.id == "imports":
            cell.source += "\n" + lab03.BEFORE
        if name not in lab03.RIGHT or list(lab03.RIGHT).index(name) >= done:
            continue
        wrong = [code for other, code, _ in lab03.WRONG if other == name]
        code = chance.choice(wrong if chance.random() < 0.2 else lab03.RIGHT[name])
        cell.source = textwrap.dedent(code)
        if attack and name == "scores":
            cell.source = hostile.DEF + hostile.TRIES[attack]
    return nbformat.writes(notebook).encode()


def hand_in(folder: Path, count: int, seed: int) -> None:
    """A folder of submissions, named as Moodle names them."""
    lab, chance = source.find(3, ROOT / "labs"), random.Random(seed)
    broken = sorted(hostile.broken().items())
    for number in range(count):
        name = f"Student {number}_{1000 + number}_assignsubmission_file_"
        raw = chance.choice(broken)[1] if chance.random() < 0.02 else submission(lab, chance)
        (folder / name).mkdir()
        (folder / name / "lab 3.ipynb").write_bytes(raw)


def grading(folder: Path, out: Path, workers: int) -> subprocess.Popen[bytes]:
    """The command, started."""
    words = [
        str(folder),
        "--out",
        str(out),
        "--workers",
        str(workers),
        "--labs",
        str(ROOT / "labs"),
    ]
    line = [sys.executable, "-c", COMMAND, "labs", "grade", "3", *words]
    return subprocess.Popen(line, start_new_session=True, stdout=subprocess.DEVNULL)


def rows(out: Path) -> list[dict[str, str]]:
    """The table without the column that may differ."""
    with out.open(encoding="utf-8", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def stored(out: Path) -> Stored:
    return {p: p.stat().st_mtime_ns for p in out.with_suffix("").glob("rows/*.json")}


def killed(folder: Path, out: Path, workers: int, at: int) -> tuple[Stored, Stored]:
    """Kill the grading once `at` rows are stored, and start it again; the rows before and after."""
    first = grading(folder, out, workers)
    while len(stored(out)) < at:
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = stored(out)
    grading(folder, out, workers).wait()
    return before, stored(out)


def measure(count: int, workers: int, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder, once, twice = (Path(place, name) for name in ("class", "1.csv", "2.csv"))
        folder.mkdir()
        hand_in(folder, count, seed)
        started = time.monotonic()
        grading(folder, once, workers).wait()
        seconds = time.monotonic() - started
        twice.with_suffix("").mkdir()  # the same hidden numbers, so that tables can be compared
        (twice.with_suffix("") / "seed").write_bytes((once.with_suffix("") / "seed").read_bytes())
        before, after = killed(folder, twice, workers, count // 2)
        return {
            "files": count,
            "workers": workers,
            "seconds": round(seconds),
            "rows": len(rows(once)),
            "status": Counter(row["status"] for row in rows(once)),
            "killed_at": len(before),
            "graded_again": sum(after[path] != when for path, when in before.items()),
            "rows_after": len(rows(twice)),
            "tables_equal": rows(once) == rows(twice),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "grading")
    options = parser.parse_args()
    result = measure(options.files, options.workers, options.seed)
    result |= {"seed": options.seed, "provenance": provenance(device.choose())}
    write(options.out / f"lab3.{options.files}.json", result)
    print(result)


if __name__ == "__main__":
    main()
