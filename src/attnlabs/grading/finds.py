"""The points of lab 13's contest, taken from the table of `attnlabs finds` into the marks.

A team's line is the one of who handed in the notebook, as in the contest; where there is none, the
one of the team whose copy the notebook is.
"""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlabs.grading import made
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.grading.teams import Teams, key
from attnlabs.grading.written import Line, lines
from attnlabs.lab13.rules import POINTS
from attnlabs.source import Asked, Lab

WAITS = "its points come with the contest."
NEEDED = ["team", "points", *POINTS, "found by", "has found", "reason"]
PAIR = ["plant", "share", "strength", "parts", "reason"]  # what a team is told of each find


@dataclass
class Table:
    """The points of the contest by team, and below them a team's finds."""

    path: Path
    lines: dict[str, Line] = field(default_factory=dict)
    finds: dict[str, list[list[str]]] = field(default_factory=lambda: defaultdict(list))
    garden: Path | None = None  # the folder of the plants, where the names of teams are

    @property
    def teams(self) -> Teams:
        """Who goes by which name."""
        return Teams(self.garden or self.path.with_suffix(""))


def question(lab: Lab) -> Asked | None:
    """The question of a lab whose points the contest has."""
    return next((asked for asked in lab.asked if asked.name in lab.contests), None)


def waits(row: Row) -> bool:
    """Does a question of it wait for the contest?"""
    return any(answer.text == WAITS for answer in row.questions.values())


def note(place: Path, path: Path, found: Sequence[Submission], garden: Path) -> None:
    """Store of which findings and plants the table beside this folder is made."""
    plants = os.path.relpath(garden, place)
    made.note(place, path, found, plants=plants, digest=digest(garden))


def digest(garden: Path) -> str:
    """A hash of all that is known of the plants in a folder; "" if they are not there."""
    path = garden / "secrets.json"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def read(path: Path, worth: int) -> Table:
    """The table's lines by team; a ValueError if it is no table of points, or an old one."""
    found, place = Table(path), path.with_suffix("")
    noted = made.of(place)
    if noted:
        found.garden = Path(os.path.relpath(place / noted["plants"]))
    teams = found.teams
    for number, line in lines(path, NEEDED):
        points, team = line["points"].strip().replace(",", "."), key(teams.of(line["team"]))
        if not re.fullmatch(r"\d+(\.\d*)?", points) or float(points) > worth:
            words = f"{line['points']!r} is not a number of points from 0 to {worth}"
            raise ValueError(f"{path}, line {number}: {words}")
        if team in found.lines:
            words = f"the team {teams.of(line['team'])} is there already"
            raise ValueError(f"{path}, line {number}: {words}; run `attnlabs finds` once more")
        found.lines[team] = line | {"points": points}
    if found.garden and digest(found.garden) not in ("", noted["digest"]):
        table = f"{found.garden}.csv"
        raise ValueError(f"{path} is older than {table}: run `attnlabs finds` once more")
    pairs = place / "pairs.csv"
    for _, line in lines(pairs, ["team", *PAIR]) if pairs.exists() else ():
        found.finds[key(teams.of(line["team"]))].append([line[name] for name in PAIR])
    return found


def credit(
    asked: Asked, table: Table, found: Sequence[Submission], rows: Sequence[Row]
) -> tuple[list[tuple[Row, str]], list[str]]:
    """Give each team its points of the contest.

    Returns the rows that wait for a decision, since the table lacks their team, with the team's
    name; and the table's teams of which no notebook is here.
    """
    absent, left, teams = list[tuple[Row, str]](), dict(table.lines), table.teams
    for row, team in zip(rows, teams.handed_in(found, "notebook"), strict=True):
        names = [key(teams.of(name)) for name in (team, row.student) if name]
        own = next((name for name in names if name in table.lines), None)
        left.pop(own or "", None)
        if row.questions[asked.name].text != WAITS:
            continue
        if own is not None:
            row.questions[asked.name] = scored(table.lines[own], table.finds.get(own, []))
        else:
            absent.append((row, team))
            words = f"its table has no team {team}"
            row.questions[asked.name] = Answer(None, f"{words}.")
            row.look_at([f"{asked.name}: {words}"])
    return absent, [line["team"] for line in left.values()]


def scored(line: Line, finds: list[list[str]]) -> Answer:
    """A team's points, with what they are for, and a table of what it has said."""
    each = ", ".join(f"{name} {line[name]} of {POINTS[name]:g}" for name in POINTS)
    words = f"{each}. Found by {line['found by']} of the others, found {line['has found']}."
    text = " ".join(filter(None, [words, line["reason"]]))
    return Answer(float(line["points"]), text, table=[PAIR, *finds] if finds else [])
