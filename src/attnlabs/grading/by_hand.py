"""The table of decisions: points and late days that a person has set, which every run keeps.

`by-hand.csv` has a line for each: the file, the question (or `late`), the points (or days), why.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from attnlabs.grading import written
from attnlabs.grading.resubmissions import Successor
from attnlabs.grading.row import BY_HAND, Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.source import Lab

NEEDED = ["file", "question", "points", "why"]
COLUMNS = [*NEEDED, "of the file"]  # the last one says of which version; it is filled in here
LATE = "late"


def take_over(
    lab: Lab,
    submissions: Sequence[Submission],
    rows: Sequence[Row],
    path: Path,
    successor: Successor,
) -> tuple[list[str], str]:
    """Set what the table says; the files it names that are not here, and the table anew.

    Anew it has the version of each file for the next run, and for a file that is not here its
    `successor`. A ValueError names a line that is no decision.
    """
    lines = [line for _, line in written.lines(path, NEEDED)] if path.exists() else []
    lines = [line for line in lines if any(line[name].strip() for name in NEEDED)]
    by_file = {written.safe(row.file): n for n, row in enumerate(rows)}
    moved(lines, successor)
    strange = []
    for line in lines:
        number = by_file.get(line["file"], by_file.get(line["file"].strip()))
        if number is None:
            strange.append(line["file"])
            continue
        instead = decide(lab, rows[number], line, path)
        version = submissions[number].key[:8]
        if line[COLUMNS[-1]] not in ("", version):
            reason = f"{line['question']}: {BY_HAND} for an earlier file, see {path.name}"
            rows[number].look_at([reason + instead])
        line[COLUMNS[-1]] = line[COLUMNS[-1]] or version
    return strange, written.table(COLUMNS, [[line[n] for n in COLUMNS] for line in lines])


def moved(lines: Sequence[written.Line], successor: Successor) -> None:
    """Let what was decided about a file that is not here hold for its successor."""
    there = {(line["file"].strip(), line["question"].strip()) for line in lines}
    for line in lines:
        line.setdefault(COLUMNS[-1], "")
        new = successor(line["file"].strip())
        if new is not None and (written.safe(new), line["question"].strip()) not in there:
            line["file"] = written.safe(new)
            line[COLUMNS[-1]] = line[COLUMNS[-1]] or "earlier"


def decide(lab: Lab, row: Row, line: written.Line, path: Path) -> str:
    """Set one question's points, or the days that a file is late; what it would be without."""
    name, why = line["question"].strip(), line["why"].strip()
    if name == LATE:
        if not re.fullmatch(r"\d{1,3}", line["points"].strip()):
            raise ValueError(f"{path}: {row.file}, late: {line['points']!r} is no number of days")
        row.late = int(line["points"])
        return ""
    asked = {question.name: question for question in lab.asked}
    asked |= {str(question.number): question for question in lab.asked}
    if name not in asked:
        names = ", ".join([*(question.name for question in lab.asked), LATE])
        raise ValueError(f"{path}: {row.file}: there is no question {name!r}; there are {names}")
    points = written.points_in(line, asked[name].points, path)
    before = row.questions[asked[name].name].points
    if points is not None:
        said = f"{BY_HAND}{f': {why}' if why else ''}."
        row.questions[asked[name].name] = Answer(points, said)
        row.settled(asked[name].name)
    return "" if before is None else f"; without that line it has {before:g}"


def days_late(submissions: Iterable[Submission], rows: Iterable[Row], percent: int) -> None:
    """What the platform says about being late, and what each day costs."""
    for submission, row in zip(submissions, rows, strict=True):
        row.late, row.percent = submission.late, percent
