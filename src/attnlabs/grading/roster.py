"""A class list: whose copies there are, and whether each was handed in by its owner.

A CSV table with a column `student`, the names that `release` makes copies for, and if you like
`number` and `name` as the learning platform has them in its files' names.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlabs import variants
from attnlabs.grading import written
from attnlabs.grading.row import READ, Row
from attnlabs.grading.submissions import Owner, Submission, groups, named

COLUMNS = ("student", "number", "name")
Files = Mapping[str, Sequence[str]]
Owned = Mapping[str, Sequence[tuple[str, str]]]  # files, and whose they are


@dataclass(frozen=True)
class Absent:
    """Who of a list handed in nothing, and whose files could all not be read."""

    nothing: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def read(path: Path) -> dict[str, Owner]:
    """The people of a list by the names of their copies; a ValueError names a bad line."""
    people: dict[str, Owner] = {}
    for number, line in written.lines(Path(path), ["student"]):
        cells = {column: line.get(column, "").strip() for column in COLUMNS}
        if not any(cells.values()):
            continue
        try:
            student = variants.checked(cells["student"])
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if alike(student) in map(alike, people):
            raise ValueError(f"{path}, line {number}: {student} is there already")
        people[student] = Owner(cells["name"], cells["number"])
    return people


def alike(student: str) -> str:
    """The same for names that some systems take for one file's name."""
    return unicodedata.normalize("NFC", student).casefold()


def compare(
    rows: Sequence[Row],
    submissions: Sequence[Submission],
    people: Mapping[str, Owner] | None = None,
) -> Absent:
    """Add to each row what a lecturer should look at, or may like to know; say who is absent."""
    by_student, by_number = defaultdict(list), defaultdict(list)
    by_code: dict[str, list[tuple[str, str]]] = defaultdict(list)
    by_form: dict[str, list[tuple[str, str]]] = defaultdict(list)
    members = groups(submissions)  # of a group each member has the same file
    whose = [members.get(name, "") for name in named(submissions)]
    for row, submission, group in zip(rows, submissions, whose, strict=True):
        by_student[row.student].append((row.file, group or row.file))
        by_code[row.code].append((row.file, group or str(submission.owner)))
        by_form[row.form].append((row.file, group or str(submission.owner)))
        if row.status in READ:
            by_number[submission.owner.number].append(row.file)
    there = [row for row in rows if row.status in READ]
    # Where most say nothing, nobody got a copy of his own, and saying nothing is no news
    signed = 2 * sum(bool(row.student) for row in there) > len(there)
    for row, submission, group in zip(rows, submissions, whose, strict=True):
        number = submission.owner.number
        row.look_at(list(doubled(row, group or row.file, by_student)))
        row.look_at(list(foreign(row, number, people or {}, signed)))
        row.look_at(list(twins(row, group or str(submission.owner), by_code, by_form)))
        row.notes += several(row, number, by_number)
    return absent(rows, submissions, people or {})


def absent(
    rows: Sequence[Row], submissions: Sequence[Submission], people: Mapping[str, Owner]
) -> Absent:
    """Who of the list has no file: by number or name of who handed it in, or by the copy."""
    found, read = set(), set()
    for row, submission in zip(rows, submissions, strict=True):
        owner = submission.owner
        marks = {f"copy {row.student}", f"number {owner.number}", f"name {alike(owner.name)}"}
        found |= marks
        read |= marks if row.status in READ else set()
    nothing, unreadable = [], []
    for student, owner in people.items():
        marks = {f"copy {student}"}
        marks |= {f"number {owner.number}"} if owner.number else set()
        marks |= {f"name {alike(owner.name)}"} if owner.name and not owner.number else set()
        if not marks & found:
            nothing.append(student)
        elif not marks & read:
            unreadable.append(student)
    return Absent(nothing, unreadable)


def doubled(row: Row, own: str, files: Owned) -> Iterator[str]:
    """Is the same copy in another file?"""
    same = [file for file, other in files[row.student] if other != own]
    if row.student and same:
        yield f"the copy of {row.student} is also in {', '.join(same)}"


def twins(row: Row, own: str, by_code: Owned, by_form: Owned) -> Iterator[str]:
    """Is the same code in somebody else's file, word for word or but for names and texts? It takes
    no list of the class to see that."""
    same = [file for file, other in by_code[row.code] if file != row.file and other != own]
    like = [file for file, other in by_form[row.form] if file != row.file and other != own]
    like = [file for file in like if file not in same]
    if row.code and same:
        yield f"its code is word for word that of {', '.join(same)}"
    if row.form and like:
        yield f"its code is but for names that of {', '.join(like)}"


def several(row: Row, number: str, files: Files) -> Iterator[str]:
    """Has the same person handed in another file?"""
    same = [file for file in files[number] if file != row.file] if row.status in READ else []
    if number and same:
        yield f"{number} also handed in {', '.join(same)}; the one with more points is passed on"


def foreign(row: Row, number: str, people: Mapping[str, Owner], signed: bool) -> Iterator[str]:
    """Is the copy not that of who handed it in? Nobody can tell without a list.

    `signed`: most of the class say whose copy theirs is.
    """
    if not people or row.status not in READ:
        return
    if not row.student:
        yield from ["it does not say whose copy it is, as the others do"] * signed
    elif row.student not in people:
        yield f"{row.student} is not on the list"
    elif number and people[row.student].number not in ("", number):
        owner = people[row.student].number
        yield f"the copy of {row.student}, number {owner}, handed in by {number}"
