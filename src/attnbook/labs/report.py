"""What a lecturer takes home: tables for the learning platforms, pages for students, a summary."""

import html
import re
import time
from collections import Counter
from pathlib import Path

from attnbook.labs import written
from attnbook.labs.folder import store
from attnbook.labs.roster import READ
from attnbook.labs.written import table

EXCEL = "\ufeff"  # without this mark in front, Excel takes UTF-8 for something else
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body{{font:1rem/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}}
td,th{{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid #ccc}}
table{{border-collapse:collapse;width:100%}}p,td:last-child{{overflow-wrap:anywhere}}
.count td:first-child{{width:2rem}}
:root{{color-scheme:light dark}}</style>
<h1>{title}</h1>
{body}
</html>
"""


def write(lab, submissions, rows, out, missing=()):
    """All tables and pages. Points for written answers that were filled in are taken over.

    `missing`: who handed in nothing. ValueError, before anything is written, if points that were
    filled in are none. Returns lines of the table of written answers about files not among these.
    """
    out = Path(out)
    folder = out.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    others = written.take_over(lab, rows, folder / "written.csv")
    people = [one.student for one in submissions]
    store(folder / "written.csv", EXCEL + written.answers(lab, rows, others))
    passed = passed_on(people, rows)
    store(folder / "moodle.csv", moodle(lab, passed))
    store(folder / "canvas.csv", canvas(lab, passed))
    pages(lab, rows, folder / "feedback")
    store(folder / "summary.html", summary(lab, rows, missing))
    store(out, EXCEL + grades(lab, people, rows))
    return others


def passed_on(people, rows):
    """What goes to a platform: of several files of one person the best, no fault of ours."""
    best = {}
    for person, row in zip(people, rows, strict=True):
        who = person[1] or row["file"]
        if row["status"] != "error" and (who not in best or total(row) > total(best[who][1])):
            best[who] = person, row
    return list(best.values())


def pages(lab, rows, folder):
    """A page for each row, none of an earlier run. Moodle finds its students by their names."""
    folder.mkdir(exist_ok=True)
    new = set()
    for number, row in enumerate(rows, start=1):
        name = re.sub(r"[^\w.-]+", "-", row["file"].replace("/", "_"))
        name = f"{number:03}-{name.encode(errors='replace')[:200].decode(errors='ignore')}.html"
        store(folder / name, feedback(lab, row))
        new.add(name)
    for page in folder.glob("[0-9]*-*.html"):
        if page.name not in new:
            page.unlink()


def is_open(row):
    """Is there an answer left that a person must read?"""
    return any(q["points"] is None for q in row["questions"].values())


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
        state = [row["student"], row["status"], total(row), worth(lab)]
        seen = [points.count(None), reasons(lab, row), "; ".join(row["review"]), row["seconds"]]
        lines.append([row["file"], name, number, *state, *points, *seen])
    return table(head, lines)


def reasons(lab, row):
    """Why the file or its questions lost points."""
    said = [(one.name, one.points, row["questions"][one.name]) for one in lab.asked]
    lost = [(name, q) for name, of, q in said if q["points"] is not None and q["points"] < of]
    return row["reason"] or " | ".join(f"{name}: {q['text']}" for name, q in lost)


def moodle(lab, passed):
    """Moodle's grading worksheet (mod/assign/feedback/offline), which asks for when it was made."""
    head = ["Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)"]
    now = time.strftime("%Y-%m-%d %H:%M")
    lines = []
    for (name, number), row in passed:
        line = [f"Participant {number}" if number else "", name, total(row), worth(lab), now]
        lines.append([*line, html.escape(reasons(lab, row), quote=False)])
    return table([*head, "Feedback comments"], lines)


def canvas(lab, passed):
    """Canvas's gradebook, to be matched by its ID, which stands in the names of its files."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", lab.title]
    lines = [[name, number, "", "", "", total(row)] for (name, number), row in passed]
    return table(head, [["    Points Possible", "", "", "", "", worth(lab)], *lines])


def feedback(lab, row):
    """A page for the student: points and sentences; no numbers that the answer was tried on."""
    lines = []
    for asked in lab.asked:
        question = row["questions"][asked.name]
        points = question["points"]
        points = f"{asked.points} open" if points is None else f"{points:g} of {asked.points}"
        cells = f"{asked.number}. {asked.name}", points, question["text"]
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    reason = f"<p>{html.escape(row['reason'])}</p>" if row["reason"] else ""
    points = f"{total(row):g} of {worth(lab)} points" + ", without those that are open" * is_open(
        row
    )
    head = "<tr><th>Question</th><th>Points</th><th>What was seen</th></tr>"
    file = row["file"].encode(errors="replace").decode()  # a name may be in no known encoding
    body = f"<p>{html.escape(file)}</p><p><b>{points}</b></p>{reason}"
    body += f"<table>{head}{''.join(lines)}</table>"
    return PAGE.format(title=html.escape(lab.title), body=body)


def summary(lab, rows, missing=()):
    """What the class got wrong, and how often; who is missing."""
    body = f"<p>{len(rows)} files: "
    states = Counter(row["status"] for row in rows)
    body += ", ".join(f"{count} {html.escape(state)}" for state, count in states.most_common())
    body += ". What follows is about those that are notebooks.</p>"
    if missing:
        body += f"<p>Nothing from {html.escape(', '.join(missing))}.</p>"
    rows = [row for row in rows if row["status"] in READ]
    for asked in lab.asked:
        results = [row["questions"][asked.name] for row in rows]
        points = [q["points"] for q in results if q["points"] is not None]
        to_read = len(rows) - len(points)
        known = points and not to_read
        mean = f", {sum(points) / len(points):.2f} of {asked.points} on average" if known else ""
        body += f"<h2>{asked.number}. {html.escape(asked.name)}{mean}</h2>"
        if asked.code:
            body += f"<p>{sum(p == asked.points for p in points)} right.</p>"
            body += mistakes(lab, asked, rows)
        elif to_read:
            body += f"<p>{to_read} to be read.</p>"
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
    return f'<table class="count">{"".join(cells)}</table>'
