"""What a lecturer takes home: tables for the learning platforms, pages for students, a summary."""

import csv
import html
import io
import re
from collections import Counter
from pathlib import Path

from attnbook.labs.grade import store

BY_HAND = "graded by hand."
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


def write(lab, submissions, rows, out):
    """All tables and pages. Points for written answers that were filled in are taken over."""
    out = Path(out)
    folder = out.with_suffix("")
    (folder / "feedback").mkdir(parents=True, exist_ok=True)
    take_over(lab, rows, folder / "written.csv")
    people = [one.student for one in submissions]
    store(folder / "written.csv", written(lab, rows))
    store(folder / "moodle.csv", moodle(lab, people, rows))
    store(folder / "canvas.csv", canvas(lab, people, rows))
    for number, row in enumerate(rows, start=1):
        name = re.sub(r"[^\w.-]+", "_", row["file"])[-80:]
        store(folder / "feedback" / f"{number:03}-{name}.html", feedback(lab, row))
    store(folder / "summary.html", summary(lab, rows))
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
    head = ["file", "name", "number", "status", "points", "of", *names, "open", "reason", "review"]
    lines = []
    for (name, number), row in zip(people, rows, strict=True):
        points = [row["questions"][n]["points"] for n in names]
        reasons = [f"{n}: {row['questions'][n]['text']}" for n in names if lost(lab, row, n)]
        said = row["reason"] or " | ".join(reasons)
        state = [row["status"], total(row), worth(lab)]
        seen = [points.count(None), said, "; ".join(row["review"]), row["seconds"]]
        lines.append([row["file"], name, number, *state, *points, *seen])
    return table([*head, "seconds"], lines)


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


def written(lab, rows):
    """One line for each written answer; the lecturer fills in the points and runs `grade` again."""
    lines = []
    for row in rows:
        for asked in lab.asked:
            if not asked.code and str(asked.number) in row["answers"]:
                answer = row["answers"][str(asked.number)].strip()
                question = row["questions"][asked.name]
                points = question["points"] if question["text"] == BY_HAND else None
                lines.append([row["file"], asked.name, points, asked.points, answer, asked.rubric])
    return table(["file", "question", "points", "of", "answer", "rubric"], lines)


def take_over(lab, rows, path):
    """Points that a lecturer has written into the table of written answers. Blank answers get 0."""
    given = {}
    if path.exists():
        for line in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")):
            given[line.get("file"), line.get("question")] = (line.get("points") or "").strip()
    for row in rows:
        for asked in lab.asked:
            if asked.code:
                continue
            question = row["questions"][asked.name]
            answer = row["answers"].get(str(asked.number), "")
            points = given.get((safe(row["file"]), asked.name), "")
            if re.fullmatch(r"\d+([.,]\d+)?", points):
                question["points"] = min(float(points.replace(",", ".")), asked.points)
                question["text"] = BY_HAND
            elif row["status"] == "error":
                continue
            elif not re.sub(r"\*Write your answer here.*?\*", "", answer).strip():
                question |= {"points": 0, "text": row["reason"] or "not answered."}
            else:
                question |= {"points": None, "text": "will be read by a person."}


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


def summary(lab, rows):
    """What the class got wrong, and how often."""
    body = f"<p>{len(rows)} files: "
    states = Counter(row["status"] for row in rows)
    body += ", ".join(f"{count} {html.escape(state)}" for state, count in states.most_common())
    body += "</p>"
    for asked in lab.asked:
        results = [row["questions"][asked.name] for row in rows]
        points = [q["points"] for q in results if q["points"] is not None]
        mean = f", {sum(points) / len(points):.2f} of {asked.points} on average" if points else ""
        body += f"<h2>{asked.number}. {html.escape(asked.name)}{mean}</h2>"
        if asked.code:
            body += f"<p>{sum(p == asked.points for p in points)} right.</p>"
            body += mistakes(lab, asked, results)
    return PAGE.format(title=f"{html.escape(lab.title)}: the class", body=body)


def mistakes(lab, asked, results):
    """The mistakes of one question, the most frequent first."""
    said = lab.compared[asked.name].mistakes
    count = Counter(said[name] for q in results for name in q["mistakes"])
    unknown = [q for q in results if not q["mistakes"] and (q["points"] or 0) < asked.points]
    lines = [*count.most_common(), ("something else, or nothing written", len(unknown))]
    cells = [f"<tr><td>{n}</td><td>{html.escape(text)}</td></tr>" for text, n in lines if n]
    return f"<table>{''.join(cells)}</table>"
