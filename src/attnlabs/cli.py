"""The command `attnlabs`: labs for students, grades for lecturers."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attnbook.shell import Parser, run
from attnlabs import gradescope, leaderboard, nbgrader, plants, probes, release, source
from attnlabs.grading import board, by_hand, folder, grade, report, roster, sandbox, submissions
from attnlabs.grading.row import NO_NOTEBOOK, Row

NO_WALLS = (
    "attnlabs: bubblewrap (bwrap) is not installed or does not work here: students' code runs with "
    "limits, but it can reach the network and read files. Install the package bubblewrap, or grade "
    "on a machine where that does no harm."
)
AS_ROOT = (
    "you are root, bubblewrap (bwrap) is not installed or does not work here, and no other user "
    "may run this Python: students' code would run as root. Install the package bubblewrap, or "
    "grade as another user; --as-root grades all the same"
)


def main(words: list[str] | None = None) -> int | None:
    """Run one command; what is wrong with its arguments is said in one line."""
    return run(parser(), words)


def parser() -> Parser:
    """All commands, as `attnlabs --help` lists them."""
    top = Parser(prog="attnlabs", description=__doc__)
    commands = top.add_subparsers(required=True)
    one = command(commands, "release", run_release, "write the student's copy, without solutions")
    one.add_argument(
        "--to", type=Path, required=True, help="the folder for it, or a new .ipynb file"
    )
    whose = one.add_mutually_exclusive_group()
    whose.add_argument("--student", default="", help="make it for one student: other numbers")
    whose.add_argument("--roster", type=Path, help="a copy for each in this table (CSV)")
    one = command(commands, "grade", run_grade, "grade a folder or zip of submissions")
    one.add_argument("submissions", type=Path, help="a folder, a zip, or one notebook")
    one.add_argument("--out", type=Path, default="grades.csv", help="the table of grades")
    one.add_argument("--roster", type=Path, help="the table (CSV) of those who got copies")
    one.add_argument("--workers", type=count, help="submissions at a time; as many as processors")
    help = "per cent of the points that each day late costs; without it nothing"
    one.add_argument("--late", type=percent, default=0, help=help)
    help = "lab 8: the table of its leaderboard, which has the points of that question"
    one.add_argument("--leaderboard", type=Path, help=help)
    one.add_argument("--as-root", action="store_true", help="even if students' code runs as root")
    one = command(commands, "gradescope", run_gradescope, "write an autograder for Gradescope")
    help = "the zip that is uploaded to Gradescope, or a folder for it"
    one.add_argument("--to", type=Path, default="autograder.zip", help=help)
    one.add_argument("--pip", default="", help="more arguments for pip, as an index without CUDA")
    help = "write a source notebook for nbgrader, with solutions"
    one = command(commands, "nbgrader", run_nbgrader, help)
    one.add_argument(
        "--to", type=Path, required=True, help="the folder source/ of the nbgrader course"
    )
    leaderboard.add(commands)
    plants.add(commands)
    help = "store what the students' checks compare with"
    command(commands, "probes", run_probes, help, str, "number of the lab, or: chapters")
    return top


def command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,
    kind: type = int,
    what: str = "number of the lab",
) -> argparse.ArgumentParser:
    """A command about one lab, which is its first argument."""
    parser = commands.add_parser(name, help=help, description=help)
    parser.add_argument("lab", type=kind, help=what)
    parser.add_argument("--labs", type=Path, default="labs", help="folder with the labs' sources")
    parser.set_defaults(run=run)
    return parser


def count(word: str) -> int:
    """A whole number from 1 on."""
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number from 1 on")
    return int(word)


def percent(word: str) -> int:
    """A whole number from 0 to 100."""
    if not word.isdecimal() or int(word) > 100:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of per cent from 0 to 100")
    return int(word)


def run_release(options: argparse.Namespace) -> None:
    lab = source.find(options.lab, options.labs)
    people = roster.read(options.roster) if options.roster else None
    a_file = options.to.suffix == ".ipynb"
    if a_file and people is not None:
        raise ValueError(f"{options.to} is no folder; the copies for a class need one")
    (options.to.parent if a_file else options.to).mkdir(parents=True, exist_ok=True)
    if people is None:
        print(release.write(lab, options.to, options.student))
        return
    for student in tqdm(people, unit="copy"):
        release.write(lab, options.to, student)
    print(f"{len(people)} copies in {options.to}")


def run_grade(options: argparse.Namespace) -> None:
    lab = source.find(options.lab, options.labs)
    out, place = options.out, options.out.with_suffix("")
    if out.suffix != ".csv" or out.is_dir():
        raise ValueError(f"--out {out}: the name of a table is needed, such as grades.csv")
    where = options.submissions.resolve()
    if place.resolve() in (where, *where.parents):
        raise ValueError(f"{options.submissions} lies in {place}/, where tables go: another --out?")
    files = submissions.collect(
        options.submissions, leave_out=[out, out.with_suffix(".html"), place]
    )
    if not files:
        raise ValueError(f"{options.submissions}: there are no files in it")
    people = roster.read(options.roster) if options.roster else None
    program = walls(options.as_root)
    folder.claim(place, lab)
    grader = grade.Grader(lab, folder.seed_of(place), program)
    rows = grade.grade(grader, files, place, options.workers)
    absent = roster.compare(rows, files, people)
    if options.leaderboard:
        board.credit(lab, rows, options.leaderboard)
    by_hand.days_late(files, rows, options.late)
    others = report.write(lab, files, rows, out, absent)
    print(
        f"{len(rows)} rows in {out}; the class on one page in {out.with_suffix('.html')}; ", end=""
    )
    print(f"feedback and other tables in {place}/")
    tell(rows, place, [str(file) for file, _, points, *_ in others if points], absent)


def walls(as_root: bool) -> str | None:
    """What keeps hostile answers in, if this machine has it; ValueError where nothing would."""
    program = sandbox.walls()
    if program is None:
        if os.getuid() == 0 and not sandbox.open_to_all() and not as_root:
            raise ValueError(AS_ROOT)
        print(NO_WALLS, file=sys.stderr)
    return program


def tell(rows: Sequence[Row], place: Path, strange: Sequence[str], absent: roster.Absent) -> None:
    """What a lecturer should look at after a grading."""
    look = sum(row.status in ("review", "incomplete", "error") for row in rows)
    if look:
        print(f"{look} of them to look at: see the columns status, reason and review")
    none = sum(row.status in NO_NOTEBOOK for row in rows)
    if none:
        print(f"{none} files could not be read as a notebook: see the column reason")
    waiting = sum(board.waits(row) for row in rows)
    if waiting:
        print(f"{waiting} wait for the leaderboard: see --leaderboard")
    to_read = sum(row.is_open for row in rows if not board.waits(row) or row.answers)
    if to_read:
        print(f"{to_read} have written answers to read: see {place}/written.csv")
    if strange:
        where = f"{place}/written.csv or by-hand.csv"
        print(f"points in {where} belong to no file here: {', '.join(sorted(set(strange)))}")
    if any(row.late and not row.percent for row in rows):
        print("some files are late, which costs nothing: see --late and the column late")
    if absent.nothing:
        print(f"{len(absent.nothing)} on the list handed in nothing: {', '.join(absent.nothing)}")
    if absent.unreadable:
        names = ", ".join(absent.unreadable)
        print(f"{len(absent.unreadable)} on the list handed in nothing that can be read: {names}")


def run_gradescope(options: argparse.Namespace) -> None:
    lab, to = source.find(options.lab, options.labs), options.to
    if to.is_dir():
        to /= "autograder.zip"
    elif to.suffix != ".zip":
        to = to.with_name(f"{to.name}.zip")  # Gradescope takes nothing else
    to.parent.mkdir(parents=True, exist_ok=True)
    print(gradescope.write(lab, to, options.pip))


def run_nbgrader(options: argparse.Namespace) -> None:
    print(nbgrader.write(source.find(options.lab, options.labs), options.to))


def run_probes(options: argparse.Namespace) -> None:
    if options.lab == "chapters":
        exercises = source.module(options.labs / "chapters.py").QUESTIONS
        print(probes.store(probes.FOLDER / "chapters.probes.gz", "chapters", exercises, {}))
    elif options.lab.isdigit():
        lab = source.find(int(options.lab), options.labs)
        path = probes.FOLDER / f"lab{lab.number:02}.probes.gz"
        print(probes.store(path, lab.number, lab.compared, lab.choices))
    else:
        raise ValueError(f"{options.lab!r} is neither the number of a lab nor: chapters")
