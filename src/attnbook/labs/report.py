"""What a lecturer takes home: tables for the learning platforms, pages for students, a summary."""

import csv
import html
import io
import re
from collections import Counter
from pathlib import Path

from attnbook.labs.grade import store

BY_HAND = "graded by hand."
WRITTEN = ["file", "question", "points", "of", "answer", "rubric"]
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body{{font:1rem/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}}
td,th{{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #ccc}}
table{{border-collapse:collapse;width:100%}}pre{{white-space:pre-wrap}}
:root{{color-scheme:light dark}}</style>
<h1>{title}</h1>
{body}
</html>
"""


def write(lab, submissions, rows, out, missing=()):
    """All tables and pages. Points for written answers that were filled in are taken over.

    `missing`: who handed in nothing. ValueError, before anything is written, if points that were
    filled in are none.
    """
    out = Path(out)
    folder = out.with_suffix("")
    (folder / "feedback").mkdir(parents=True, exist_ok=True)
    others = take_over(lab, rows, folder / "written.csv")
    people = [one.student for one in submissions]
    store(folder / "written.csv", written(lab, rows, others))
    store(folder / "moodle.csv", moodle(lab, people, rows))
    store(folder / "canvas.csv", canvas(lab, people, rows))
    for number, row in enumerate(rows, start=1):
        name = re.sub(r"[^\w.-]+", "_", row["file"])[-80:]
        store(folder / "feedback" / f"{number:03}-{name}.html", feedback(lab, row))
    store(folder / "summary.html", summary(lab, rows, missing))
    store(out, grades(lab, people, rows))


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


def total(row):
    return round(sum(q["points"] or 0 for q in row["questions"].values()), 2)


def worth(lab):
    return sum(asked.points for asked in lab.asked)


def grades(lab, people, rows):
    names = [asked.name for asked in lab.asked]
    head = ["file", "name", "number", "student", "status", "points", "of", *names]
    head += ["open", "reason", "review", "seconds"]
    lines = []
    for (name, number), row in zip(people, rows, strict=True):
        points = [row["questions"][n]["points"] for n in names]
        reasons = [f"{n}: {row['questions'][n]['text']}" for n in names if lost(lab, row, n)]
        said = row["reason"] or " | ".join(reasons)
        state = [row["student"], row["status"], total(row), worth(lab)]
        seen = [points.count(None), said, "; ".join(row["review"]), row["seconds"]]
        lines.append([row["file"], name, number, *state, *points, *seen])
    return table(head, lines)


def lost(lab, row, name):
    points = row["questions"][name]["points"]
    return points is not None and points < next(a.points for a in lab.asked if a.name == name)


def moodle(lab, people, rows):
    """Moodle's grading worksheet; also for its CSV import, mapped by full name or identifier."""
    head = ["Identifier", "Full name", "Grade", "Maximum Grade", "Feedback comments"]
    lines = [
        [f"Participant {number}" if number else "", name, total(row), worth(lab), row["reason"]]
        for (name, number), row in zip(people, rows, strict=True)
    ]
    return table(head, lines)


def canvas(lab, people, rows):
    """Canvas's gradebook, to be matched by its ID, which stands in the names of its files."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", lab.title]
    lines = [
        [name, number, "", "", "", total(row)]
        for (name, number), row in zip(people, rows, strict=True)
    ]
    return table(head, [["    Points Possible", "", "", "", "", worth(lab)], *lines])


def written(lab, rows, others=()):
    """One line for each written answer; the lecturer fills in the points and runs `grade` again.

    `others` are lines about files that are not here now; they stay.
    """
    lines = []
    for row in rows:
        for asked in lab.of(row["student"]).asked:
            if not asked.code and str(asked.number) in row["answers"]:
                answer = row["answers"][str(asked.number)].strip()
                question = row["questions"][asked.name]
                points = question["points"] if question["text"] == BY_HAND else None
                lines.append([row["file"], asked.name, points, asked.points, answer, asked.rubric])
    return table(WRITTEN, [*lines, *others])


def filled_in(path):
    """The lines of the table of written answers, {(file, question): line}."""
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8-sig")
    first = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    if not set(WRITTEN) <= set(reader.fieldnames or []):
        raise ValueError(f"{path} has the columns {reader.fieldnames}; it needs {WRITTEN}")
    return {(line["file"], line["question"]): line for line in reader}


def points_in(line, of, path):
    """The points a lecturer has filled in, or None; a ValueError if there is something else."""
    text = (line["points"] or "").strip().replace(",", ".")
    if not text:
        return None
    if not re.fullmatch(r"\d+(\.\d*)?", text) or float(text) > of:
        about = f"{path}: {line['file']}, {line['question']}"
        raise ValueError(f"{about}: {text!r} is not a number of points from 0 to {of}")
    return float(text)


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
            elif row["status"] == "error":
                continue
            elif not re.sub(r"\*Write your answer here.*?\*", "", answer).strip():
                question |= {"points": 0, "text": row["reason"] or "not answered."}
            else:
                question |= {"points": None, "text": "will be read by a person."}
    return [[line[name] for name in WRITTEN] for line in given.values()]


def feedback(lab, row):
    """A page for the student: points and sentences; no numbers that the answer was tried on."""
    lines = []
    for asked in lab.asked:
        question = row["questions"][asked.name]
        points = "open" if question["points"] is None else f"{question['points']:g}"
        cells = (f"{asked.number}. {asked.name}", f"{points} of {asked.points}", question["text"])
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    reason = f"<p>{html.escape(row['reason'])}</p>" if row["reason"] else ""
    head = "<tr><th>Question</th><th>Points</th><th>What was seen</th></tr>"
    body = f"<p><b>{total(row):g} of {worth(lab)} points</b></p>{reason}"
    body += f"<table>{head}{''.join(lines)}</table>"
    return PAGE.format(title=html.escape(lab.title), body=body)


def summary(lab, rows, missing=()):
    """What the class got wrong, and how often; who is missing."""
    body = f"<p>{len(rows)} files: "
    states = Counter(row["status"] for row in rows)
    body += ", ".join(f"{count} {html.escape(state)}" for state, count in states.most_common())
    body += "</p>"
    if missing:
        body += f"<p>Nothing from {html.escape(', '.join(missing))}.</p>"
    for asked in lab.asked:
        results = [row["questions"][asked.name] for row in rows]
        points = [q["points"] for q in results if q["points"] is not None]
        mean = f", {sum(points) / len(points):.2f} of {asked.points} on average" if points else ""
        body += f"<h2>{asked.number}. {html.escape(asked.name)}{mean}</h2>"
        if asked.code:
            body += f"<p>{sum(p == asked.points for p in points)} right.</p>"
            body += mistakes(lab, asked, rows)
    return PAGE.format(title=f"{html.escape(lab.title)}: the class", body=body)


def mistakes(lab, asked, rows):
    """The mistakes of one question, the most frequent first, in the words of each one's copy."""
    count, unknown = Counter(), 0
    for row in rows:
        question = row["questions"][asked.name]
        said = lab.compared[asked.name].mistakes | lab.of(row["student"]).flips(asked.name)
        count.update(said[name] for name in question["mistakes"])
        unknown += not question["mistakes"] and (question["points"] or 0) < asked.points
    lines = [*count.most_common(), ("something else, or nothing written", unknown)]
    cells = [f"<tr><td>{n}</td><td>{html.escape(text)}</td></tr>" for text, n in lines if n]
    return f"<table>{''.join(cells)}</table>"
