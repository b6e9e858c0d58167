"""What a lecturer takes home: tables for the learning platforms, pages for students, a summary."""

import html
import re
from collections import Counter
from pathlib import Path

from attnbook.labs import written
from attnbook.labs.grade import store
from attnbook.labs.written import table

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
    others = written.take_over(lab, rows, folder / "written.csv")
    people = [one.student for one in submissions]
    store(folder / "written.csv", written.answers(lab, rows, others))
    store(folder / "moodle.csv", moodle(lab, people, rows))
    store(folder / "canvas.csv", canvas(lab, people, rows))
    for number, row in enumerate(rows, start=1):
        name = re.sub(r"[^\w.-]+", "_", row["file"])[-80:]
        store(folder / "feedback" / f"{number:03}-{name}.html", feedback(lab, row))
    store(folder / "summary.html", summary(lab, rows, missing))
    store(out, grades(lab, people, rows))


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
