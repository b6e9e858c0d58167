"""`attnlabs grade`: the files of a class, from what a platform hands out to tables and pages."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from attnlabs import source
from attnlabs.grading import (
    board,
    by_hand,
    finds,
    folder,
    grade,
    made,
    report,
    roster,
    sandbox,
    submissions,
)
from attnlabs.grading.row import NO_NOTEBOOK, Row
from attnlabs.grading.submissions import Submission
from attnlabs.grading.written import UNREAD
from attnlabs.source import Asked, Lab

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


def run(options: argparse.Namespace) -> None:
    """The whole command."""
    lab = source.find(options.lab, options.labs)
    out, place = options.out, options.out.with_suffix("")
    if out.suffix != ".csv" or out.is_dir():
        raise ValueError(f"--out {out}: the name of a table is needed, such as grades.csv")
    contest = contest_of(lab, options)
    where = options.submissions.resolve()
    if place.resolve() in (where, *where.parents):
        raise ValueError(f"{options.submissions} lies in {place}/, where tables go: another --out?")
    files = submissions.collect(
        options.submissions, leave_out=[out, out.with_suffix(".html"), place]
    )
    if not files:
        raise ValueError(f"{options.submissions}: there are no files in it")
    everything = files
    if lab.contests:
        files = made.of_kind(files, made.NOTEBOOK)
    table = finds.read(options.finds, contest.points) if contest else None
    people = roster.read(options.roster) if options.roster else None
    program = walls(options.as_root)
    folder.claim(place, lab)
    grader = grade.Grader(lab, folder.seed_of(place), program)
    rows = grade.grade(grader, files, place, options.workers)
    absent = roster.compare(rows, files, people)
    if options.leaderboard:
        board.credit(lab, rows, options.leaderboard)
    absent_there, absent_here = (
        finds.credit(contest, table, files, rows) if contest and table else ([], [])
    )
    by_hand.days_late(files, rows, options.late)
    others = report.write(lab, files, rows, out, absent)
    print(
        f"{len(rows)} rows in {out}; the class on one page in {out.with_suffix('.html')}; ", end=""
    )
    print(f"feedback and other tables in {place}/")
    tell(rows, place, [str(file) for file, _, points, *_ in others if points], absent)
    if contest and table:
        still = [team for row, team in absent_there if row.questions[contest.name].points is None]
        who_is_who(table, place, contest, still, absent_here)
        newer(table, everything)


def contest_of(lab: Lab, options: argparse.Namespace) -> Asked | None:
    """The question whose points --finds has; ValueError if the lab has no such question."""
    asked = finds.question(lab) if options.finds else None
    if options.finds and asked is None:
        raise ValueError(f"--finds {options.finds}: lab {lab.number} has no contest")
    return asked


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
    for what, option, waits in (
        ("leaderboard", "--leaderboard", board.waits),
        ("contest", "--finds", finds.waits),
    ):
        if waiting := sum(map(waits, rows)):
            print(f"{waiting} wait for the {what}: see {option}")
    to_read = sum(any(a.text == UNREAD for a in row.questions.values()) for row in rows)
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


def who_is_who(
    table: finds.Table, place: Path, asked: Asked, absent: Sequence[str], left: Sequence[str]
) -> None:
    """Which teams have only a notebook, and which only points of the contest."""
    if absent:
        print(f"{table.path} has no line about {', '.join(absent)}: give them points in", end=" ")
        print(f"{place}/by-hand.csv, question {asked.number}, 0 if they took no part")
    if left:
        print(f"{table.path} has teams of which no notebook is here: {', '.join(left)}")
    if absent and left:
        print(f"if two of these names are one team, write it into {table.teams.path}, column team")


def newer(table: finds.Table, found: Sequence[Submission]) -> None:
    """Which findings and plants came in after the contest was judged, and what takes them."""
    place = table.path.with_suffix("")
    for what, folder_of, kind in (
        ("plants", table.garden, made.PLANT),
        ("findings", place, made.FINDINGS),
    ):
        if folder_of and (late := made.later(folder_of, kind, found)):
            print(f"{what} newer than {folder_of}.csv, not counted: {', '.join(late)}")
            command = f"attnlabs {'plants' if what == 'plants' else 'finds'}"
            words = f"{command} {made.source(folder_of)}"
            words += f" --plants {table.garden}.csv" * (what == "findings")
            print(f"to count them: {words} --out {folder_of}.csv, and this command again")
