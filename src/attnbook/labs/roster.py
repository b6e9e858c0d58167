"""A class list: whose copies there are, and whether each was handed in by its owner.

A CSV table with a column `student`, the names that `release` makes copies for, and if you like
`number` and `name` as the learning platform has them in its files' names.
"""

import unicodedata
from collections import defaultdict
from pathlib import Path

from attnbook.labs import variants, written

COLUMNS = ("student", "number", "name")
READ = ("graded", "review", "incomplete")  # what becomes of a file that is a notebook


def read(path):
    """The people of a list, {student: {"number": …, "name": …}}; a ValueError names a bad line."""
    people, table = {}, written.lines(Path(path), ["student"])
    for line in table:
        line = {key: (value or "").strip() for key, value in line.items() if key in COLUMNS}
        if not any(line.values()):
            continue
        try:
            student = variants.checked(line["student"])
        except ValueError as error:
            raise ValueError(f"{path}, line {table.line_num}: {error}") from None
        if alike(student) in map(alike, people):
            raise ValueError(f"{path}, line {table.line_num}: {student} is there already")
        people[student] = {name: line.get(name, "") for name in ("number", "name")}
    return people


def alike(student):
    """The same for names that some systems take for one file's name."""
    return unicodedata.normalize("NFC", student).casefold()


def compare(rows, submissions, people=None):
    """Add to `review` what a lecturer should look at; return who on the list handed in nothing."""
    files, numbers = defaultdict(list), defaultdict(list)
    for row, submission in zip(rows, submissions, strict=True):
        files[row["student"]].append(row["file"])
        if row["status"] in READ:
            numbers[submission.student[1]].append(row["file"])
    for row, submission in zip(rows, submissions, strict=True):
        said = [*doubled(row, files), *foreign(row, submission, people)]
        said += several(row, submission.student[1], numbers)
        row["review"] += said
        row["status"] = "review" if said and row["status"] == "graded" else row["status"]
    return [student for student in people or {} if student not in files]


def doubled(row, files):
    same = [file for file in files[row["student"]] if file != row["file"]]
    if row["student"] and same:
        yield f"the copy of {row['student']} is also in {', '.join(same)}"


def several(row, number, numbers):
    same = [file for file in numbers[number] if file != row["file"]]
    if number and same and row["status"] in READ:
        yield f"{number} also handed in {', '.join(same)}; the one with more points is passed on"


def foreign(row, submission, people):
    """Is the copy not that of who handed it in? Nobody can tell without a list."""
    student, (_, number) = row["student"], submission.student
    if not people or row["status"] not in READ:
        return
    if not student:
        yield "it does not say whose copy it is"
    elif student not in people:
        yield f"{student} is not on the list"
    elif number and people[student]["number"] not in ("", number):
        yield f"the copy of {student}, number {people[student]['number']}, handed in by {number}"
