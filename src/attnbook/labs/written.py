"""The table of written answers: a person reads them and fills in the points."""

import csv
import io
import re

BY_HAND = "graded by hand."
COLUMNS = ["file", "question", "points", "of", "answer", "rubric"]


def table(head, lines):
    """A CSV. A cell that a spreadsheet would take for a formula is made plain text."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for line in [head, *lines]:
        writer.writerow([safe(cell) for cell in line])
    return text.getvalue()


def safe(cell):
    if not isinstance(cell, str):
        return "" if cell is None else f"{cell:g}"
    cell = cell.encode("utf-8", "replace").decode()
    return "'" + cell if cell[:1] in tuple("=+-@\t\r") and cell else cell.replace("\0", "")


def answers(lab, rows, others=()):
    """One line for each written answer; the lecturer fills in the points and runs `grade` again.

    `others` are lines about files that are not here now; they stay.
    """
    lines = []
    for row in rows:
        for asked in lab.of(row["student"]).asked:
            if not asked.code and str(asked.number) in row["answers"]:
                question = row["questions"][asked.name]
                answer = question.get("read", row["answers"][str(asked.number)].strip())
                points = question["points"] if question["text"] == BY_HAND else None
                lines.append([row["file"], asked.name, points, asked.points, answer, asked.rubric])
    return table(COLUMNS, [*lines, *others])


def lines(path, needed):
    """The lines of a CSV, however a spreadsheet saved it; a ValueError says what it lacks."""
    try:
        text = path.read_text(encoding="utf-8").lstrip("\ufeff")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8: save it as “CSV UTF-8”") from None
    first = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    reader.fieldnames = names = [name.strip().lower() for name in reader.fieldnames or []]
    missing = [name for name in needed if name not in names]
    if missing:
        has = f"the columns {', '.join(names)}" if names else "no columns"
        raise ValueError(f"{path} has {has}; it needs {', '.join(missing)}")
    return reader


def filled_in(path):
    """The lines of the table of written answers, {(file, question): line}."""
    found = lines(path, COLUMNS) if path.exists() else []
    return {(line["file"], line["question"]): line for line in found if line["file"]}


def points_in(line, of, path):
    """The points a lecturer has filled in, or None; a ValueError if there is something else."""
    text = (line["points"] or "").strip().replace(",", ".")
    if not text:
        return None
    if not re.fullmatch(r"\d+(\.\d*)?", text) or float(text) > of:
        about = f"{path}: {line['file']}, {line['question']}"
        raise ValueError(f"{about}: {text!r} is not a number of points from 0 to {of}")
    return float(text)


def other(one, two):
    """Are these two answers? Spaces, quotes and accents may suffer in a spreadsheet."""
    return re.sub("[^a-zA-Z0-9]", "", one or "") != re.sub("[^a-zA-Z0-9]", "", two)


def changed(row, name, path):
    """Points were given for another answer than is handed in now: a person must decide."""
    row["review"].append(
        f"{name}: the points are for an earlier answer, as in {path.name}; without them there, "
        "the new answer comes"
    )
    row["status"] = "review" if row["status"] == "graded" else row["status"]


def take_over(lab, rows, path):
    """Points that a lecturer has written into the table of written answers. Blank answers get 0.

    Returns the table's lines about files that are not among the rows.
    """
    given = filled_in(path)
    for row in rows:
        for asked in lab.asked:
            if asked.code:
                continue
            question = row["questions"][asked.name]
            answer = row["answers"].get(str(asked.number), "")
            line = given.pop((safe(row["file"]), asked.name), None)
            points = points_in(line, asked.points, path) if line else None
            if points is not None:
                question |= {"points": points, "text": BY_HAND}
                if other(line["answer"], answer):
                    question["read"] = line["answer"]
                    changed(row, asked.name, path)
            elif row["status"] == "error":
                continue
            elif not re.sub(r"\*Write your answer here.*?\*", "", answer).strip():
                question |= {"points": 0, "text": row["reason"] or "not answered."}
            else:
                question |= {"points": None, "text": "will be read by a person."}
    return [[line[name] for name in COLUMNS] for line in given.values()]
