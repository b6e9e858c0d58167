"""What each person had at each hand-in: kept from run to run, for the page of the class."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnbook.files import store
from attnlabs.grading.folder import stored
from attnlabs.grading.row import READ, Row
from attnlabs.grading.submissions import Submission, owners
from attnlabs.source import Lab


@dataclass(frozen=True)
class Progress:
    """The hand-ins of one person: points for code at each, and the questions mended in between."""

    who: str
    points: list[float]
    mended: list[str]


def update(
    path: Path, lab: Lab, submissions: Sequence[Submission], rows: Sequence[Row]
) -> list[Progress]:
    """Add the files that are new to the stored history; who handed in more than once.

    Only functions count: written answers are read later, whenever it is.
    """
    kept: dict[str, list[dict[str, Any]]] = stored(path) or {}
    names = {asked.name for asked in lab.asked if asked.code} - lab.contests
    for submission, owner, row in zip(submissions, owners(submissions), rows, strict=True):
        own = kept.setdefault(owner.number or owner.name, [])
        if row.status in READ and submission.key not in [entry["key"] for entry in own]:
            points = {name: answer.points or 0 for name, answer in row.questions.items()}
            points = {name: points[name] for name in points if name in names}
            when = time.strftime("%Y-%m-%d %H:%M")
            entry = {"key": submission.key, "when": when, "file": row.file, "points": points}
            own.append(entry | {"name": owner.name})
    store(path, json.dumps(kept, indent=1))
    return [progress(own) for own in kept.values() if len(own) > 1]


def progress(own: Sequence[dict[str, Any]]) -> Progress:
    """What became of a person's points between the first hand-in and the last."""
    first, last = own[0]["points"], own[-1]["points"]
    mended = [name for name, points in last.items() if points > first.get(name, 0)]
    totals = [round(float(sum(entry["points"].values())), 2) for entry in own]
    return Progress(own[-1]["name"], totals, mended)
