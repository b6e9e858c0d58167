"""The points of lab 13's contest, taken from the table of `attnlabs finds` into the marks.

A team's line is the one of who handed in the notebook, as in the contest; where there is none, the
one of the team whose copy the notebook is.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from attnbook.files import store
from attnlabs.grading import folder, submissions
from attnlabs.grading.plants import teams
from attnlabs.grading.roster import alike
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.grading.written import Line, lines, safe
from attnlabs.lab13.rules import POINTS
from attnlabs.source import Asked, Lab

WAITS = "its points come with the contest."
NEEDED = ["team", "points", *POINTS, "found by", "has found", "reason"]
PLANT, FINDINGS, NOTEBOOK = KINDS = (".safetensors", ".json", ".ipynb")  # what teams hand in
NOTE = "made-from.json"  # in the folder beside the table: which plants it is about


def question(lab: Lab) -> Asked | None:
    """The question of a lab whose points the contest has."""
    return next((asked for asked in lab.asked if asked.name in lab.contests), None)


def of_kind(found: Sequence[Submission], kind: str) -> list[Submission]:
    """What was handed in, without the files of the other kinds that lie in the same folder."""
    there = {submissions.folder(one.file) for one in found if one.file.lower().endswith(kind)}
    others = tuple(other for other in KINDS if other != kind)
    return [
        one
        for one in found
        if submissions.folder(one.file) not in there or not one.file.lower().endswith(others)
    ]


def waits(row: Row) -> bool:
    """Does a question of it wait for the contest?"""
    return any(answer.text == WAITS for answer in row.questions.values())


def note(place: Path, garden: Path) -> None:
    """Store which plants the table beside this folder is about."""
    made = {"plants": os.path.relpath(garden, place), "digest": digest(garden)}
    store(place / NOTE, json.dumps(made))


def digest(garden: Path) -> str:
    """A hash of all that is known of the plants in a folder; "" if they are not there."""
    path = garden / "secrets.json"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def read(path: Path, worth: int) -> dict[str, Line]:
    """The table's lines by team; a ValueError if it is no table of points, or an old one."""
    found: dict[str, Line] = {}
    for number, line in lines(path, NEEDED):
        points, team = line["points"].strip().replace(",", "."), alike(line["team"].strip())
        if not re.fullmatch(r"\d+(\.\d*)?", points) or float(points) > worth:
            words = f"{line['points']!r} is not a number of points from 0 to {worth}"
            raise ValueError(f"{path}, line {number}: {words}")
        if team in found:
            raise ValueError(f"{path}, line {number}: the team {line['team']} is there already")
        found[team] = line | {"points": points}
    made = folder.stored(path.with_suffix("") / NOTE)
    garden = path.with_suffix("") / made["plants"] if made else None
    if made and garden and digest(garden) not in ("", made["digest"]):
        table = f"{os.path.relpath(garden)}.csv"
        raise ValueError(f"{path} is older than {table}: run `attnlabs finds` once more")
    return found


def credit(
    asked: Asked, table: dict[str, Line], found: Sequence[Submission], rows: Sequence[Row]
) -> tuple[list[tuple[Row, str]], list[str]]:
    """Give each team its points of the contest.

    Returns the rows that wait for a decision, since the table lacks their team, with the team's
    name; and the table's teams of which no notebook is here.
    """
    absent, left = list[tuple[Row, str]](), dict(table)
    for row, team in zip(rows, teams(found), strict=True):
        names = [alike(safe(name)) for name in (team, row.student) if name]
        own = next((name for name in names if name in table), None)
        left.pop(own or "", None)
        if row.questions[asked.name].text != WAITS:
            continue
        if own is not None:
            row.questions[asked.name] = scored(table[own])
        else:
            absent.append((row, team))
            words = f"its table has no team {team}"
            row.questions[asked.name] = Answer(None, f"{words}.")
            row.look_at([f"{asked.name}: {words}"])
    return absent, [line["team"] for line in left.values()]


def scored(line: Line) -> Answer:
    """A team's points, with what they are for."""
    each = ", ".join(f"{name} {line[name]} of {POINTS[name]:g}" for name in POINTS)
    words = f"{each}. Found by {line['found by']} of the others, found {line['has found']}."
    return Answer(float(line["points"]), " ".join(filter(None, [words, line["reason"]])))
