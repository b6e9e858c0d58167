"""A class list: whose copies there are, and whether each was handed in by its owner.

A CSV table with a column `student`, the names that `release` makes copies for, and if you like
`number` and `name` as the learning platform has them in its files' names.
"""

import csv
import io
from collections import defaultdict
from pathlib import Path

from attnbook.labs import variants


def read(path):
    """The people of a list, {student: {"number": …, "name": …}}; a ValueError names a bad line."""
    text = Path(path).read_text(encoding="utf-8-sig")
    lines = csv.DictReader(io.StringIO(text, newline=""))
    if "student" not in (lines.fieldnames or []):
        raise ValueError(f"{path} has the columns {lines.fieldnames}; it needs one named student")
    people = {}
    for line in lines:
        student = variants.checked((line["student"] or "").strip())
        if student in people:
            raise ValueError(f"{path}, line {lines.line_num}: {student} is there already")
        people[student] = {name: (line.get(name) or "").strip() for name in ("number", "name")}
    return people


def compare(rows, submissions, people=None):
    """Add to `review` what a lecturer should look at; return who on the list handed in nothing."""
    files = defaultdict(list)
    for row in rows:
        files[row["student"]].append(row["file"])
    for row, submission in zip(rows, submissions, strict=True):
        said = [*doubled(row, files), *foreign(row, submission, people)]
        row["review"] += said
        row["status"] = "review" if said and row["status"] == "graded" else row["status"]
    return [student for student in people or {} if student not in files]


def doubled(row, files):
    same = [file for file in files[row["student"]] if file != row["file"]]
    if row["student"] and same:
        yield f"the copy of {row['student']} is also in {', '.join(same)}"


def foreign(row, submission, people):
    """Is the copy not that of who handed it in? Nobody can tell without a list."""
    student, (_, number) = row["student"], submission.student
    if not people or row["status"] in ("empty", "not read", "not a notebook", "error"):
        return
    if not student:
        yield "it does not say whose copy it is"
    elif student not in people:
        yield f"{student} is not on the list"
    elif number and people[student]["number"] not in ("", number):
        yield f"the copy of {student}, number {people[student]['number']}, handed in by {number}"
