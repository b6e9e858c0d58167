"""The table of written answers: a person reads them and fills in the points."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attnlabs.grading.resubmissions import Successor
from attnlabs.grading.row import Answer, Row
from attnlabs.source import Asked, Lab

BY_HAND = "graded by hand."
UNREAD = "will be read by a person."
TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # turn a line round: another name is read
COLUMNS = ["file", "question", "points", "of", "answer", "rubric"]
Cell = str | int | float | None
Line = dict[str, str]


def table(head: Sequence[str], lines: Iterable[Sequence[Cell]]) -> str:
    """A CSV. A cell that a spreadsheet would take for a formula is made plain text."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for line in [head, *lines]:
        writer.writerow([safe(cell) for cell in line])
    return text.getvalue()


def safe(cell: Cell) -> str:
    """A cell's text without what a spreadsheet would run, or Python's csv would refuse."""
    if not isinstance(cell, str):
        return "" if cell is None else f"{cell:g}"
    cell = cell.encode("utf-8", "replace").decode().replace("\0", "")
    cell = TURNS.sub("\ufffd", cell)
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def answers(lab: Lab, rows: Iterable[Row], others: Iterable[Sequence[Cell]] = ()) -> str:
    """One line for each written answer; the lecturer fills in the points and runs `grade` again.

    `others` are lines about files that are not here now; they stay.
    """
    lines: list[Sequence[Cell]] = []
    for row in rows:
        for asked in lab.of(row.student).asked:
            if not asked.code and str(asked.number) in row.answers:
                answer = row.questions[asked.name]
                text = row.answers[str(asked.number)].strip()
                text = text if answer.read is None else answer.read
                points = answer.points if answer.text == BY_HAND else None
                if points is not None or not blank(text):
                    lines.append([row.file, asked.name, points, asked.points, text, asked.rubric])
    return table(COLUMNS, [*lines, *others])


def lines(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, Line]]:
    """The lines of a CSV with their numbers, however a spreadsheet saved it.

    A ValueError says what the table lacks, or in which line it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8").lstrip("\ufeff")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8: save it as “CSV UTF-8”") from None
    first = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        reader.fieldnames = names = [name.strip().lower() for name in reader.fieldnames or []]
        missing = [name for name in needed if name not in names]
        if missing:
            has = f"the columns {', '.join(names)}" if names else "no columns"
            raise ValueError(f"{path} has {has}; it needs {', '.join(missing)}")
        for line in reader:
            yield reader.line_num, {name: line[name] or "" for name in names}
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.reader.line_num}: {error}; is a quotation mark left open?"
        ) from error


def filled_in(path: Path) -> dict[tuple[str, str], Line]:
    """The lines of the table of written answers, {(file, question): line}."""
    found = [line for _, line in lines(path, COLUMNS)] if path.exists() else []
    return {(line["file"], line["question"]): line for line in found if line["file"]}


def points_in(line: Line, of: int, path: Path) -> float | None:
    """The points a lecturer has filled in, or None; a ValueError if there is something else."""
    text = line["points"].strip().replace(",", ".")
    if not text:
        return None
    if not re.fullmatch(r"\d+(\.\d*)?", text) or float(text) > of:
        about = f"{path}: {line['file']}, {line['question']}"
        raise ValueError(f"{about}: {text!r} is not a number of points from 0 to {of}")
    return float(text)


def other(text: str, answer: str) -> bool:
    """Are these two answers? Spaces, quotes and accents may suffer in a spreadsheet."""
    return re.sub("[^a-zA-Z0-9]", "", text) != re.sub("[^a-zA-Z0-9]", "", answer)


def blank(text: str) -> bool:
    """Has nobody written anything?"""
    return not re.sub(r"\*Write your answer here.*?\*", "", text).strip()


def take_over(
    lab: Lab, rows: Iterable[Row], path: Path, successor: Successor
) -> list[Sequence[Cell]]:
    """Points that a lecturer has written into the table of written answers. Blank answers get 0.

    Points for a file that is not here go to its `successor`. Returns the table's lines about files
    that are not among the rows and have none.
    """
    given = filled_in(path)
    for (file, question), line in list(given.items()):
        new = successor(file) if line["points"].strip() else None
        there = given.get((safe(new), question)) if new is not None else None
        if new is not None and not (there and there["points"].strip()):
            given[safe(new), question] = given.pop((file, question))
    for row in rows:
        for asked in lab.asked:
            if not asked.code:
                take_one_over(row, asked, given.pop((safe(row.file), asked.name), None), path)
    return [[line[name] for name in COLUMNS] for line in given.values()]


def take_one_over(row: Row, asked: Asked, line: Line | None, path: Path) -> None:
    """What a row says of one written answer, given its line in the table of an earlier run."""
    text = row.answers.get(str(asked.number), "")
    points = points_in(line, asked.points, path) if line else None
    if line and points is not None:
        another = other(line["answer"], text)
        read = line["answer"] if another else row.questions[asked.name].read
        row.questions[asked.name] = Answer(points, BY_HAND, read=read)
        reason = (
            f"{asked.name}: the points are for an earlier answer, as in {path.name}; "
            "without them there, the new answer comes"
        )
        row.look_at([reason] if another else [])
    elif row.status == "error":
        return
    elif blank(text):
        row.questions[asked.name] = Answer(0, row.reason or "not answered.")
    else:
        row.questions[asked.name] = Answer(None, UNREAD)
