"""What a lecturer takes home: tables for the learning platforms, pages for students, a summary."""

import html
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from attnbook.files import store
from attnbook.labs.grading import written
from attnbook.labs.grading.row import READ, Row
from attnbook.labs.grading.submissions import Owner, Submission
from attnbook.labs.grading.written import Cell, table
from attnbook.labs.source import Asked, Lab

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


def write(
    lab: Lab,
    submissions: Sequence[Submission],
    rows: Sequence[Row],
    out: Path,
    missing: Sequence[str] = (),
) -> list[Sequence[Cell]]:
    """All tables and pages. Points for written answers that were filled in are taken over.

    `missing`: who handed in nothing. ValueError, before anything is written, if points that were
    filled in are none. Returns lines of the table of written answers about files not among these.
    """
    out = Path(out)
    folder = out.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    others = written.take_over(lab, rows, folder / "written.csv")
    owners = [submission.owner for submission in submissions]
    store(folder / "written.csv", EXCEL + written.answers(lab, rows, others))
    passed = passed_on(owners, rows)
    store(folder / "moodle.csv", moodle(lab, passed))
    store(folder / "canvas.csv", canvas(lab, passed))
    pages(lab, rows, folder / "feedback")
    store(folder / "summary.html", summary(lab, rows, missing))
    store(out, EXCEL + grades(lab, owners, rows))
    return others


def passed_on(owners: Sequence[Owner], rows: Sequence[Row]) -> list[tuple[Owner, Row]]:
    """What goes to a platform: of several files of one person the one with most points.

    A file at which the grading itself failed is no grade, so it is not passed on.
    """
    best: dict[str, tuple[Owner, Row]] = {}
    for owner, row in zip(owners, rows, strict=True):
        who = owner.number or row.file
        if row.status != "error" and (who not in best or row.total > best[who][1].total):
            best[who] = owner, row
    return list(best.values())


def pages(lab: Lab, rows: Sequence[Row], folder: Path) -> None:
    """A page for each row, none of an earlier run. Moodle finds its students by their names."""
    folder.mkdir(exist_ok=True)
    new = set()
    for number, row in enumerate(rows, start=1):
        name = re.sub(r"[^\w.-]+", "-", row.file.replace("/", "_"))
        name = f"{number:03}-{name.encode(errors='replace')[:200].decode(errors='ignore')}.html"
        store(folder / name, feedback(lab, row))
        new.add(name)
    for page in folder.glob("[0-9]*-*.html"):
        if page.name not in new:
            page.unlink()


def worth(lab: Lab) -> int:
    """All points of a lab."""
    return sum(asked.points for asked in lab.asked)


def grades(lab: Lab, owners: Sequence[Owner], rows: Sequence[Row]) -> str:
    """The table of grades, one line per file."""
    names = [asked.name for asked in lab.asked]
    head = ["file", "name", "number", "student", "status", "points", "of", *names]
    head += ["open", "reason", "review", "seconds"]
    lines: list[list[Cell]] = []
    for owner, row in zip(owners, rows, strict=True):
        points = [row.questions[name].points for name in names]
        state: list[Cell] = [row.student, row.status, row.total, worth(lab)]
        remarks: list[Cell] = [
            points.count(None),
            reasons(lab, row),
            "; ".join(row.review),
            row.seconds,
        ]
        lines.append([row.file, *owner, *state, *points, *remarks])
    return table(head, lines)


def reasons(lab: Lab, row: Row) -> str:
    """Why the file or its questions lost points."""
    lost = []
    for asked in lab.asked:
        answer = row.questions[asked.name]
        if answer.points is not None and answer.points < asked.points:
            lost.append(f"{asked.name}: {answer.text}")
    return row.reason or " | ".join(lost)


def moodle(lab: Lab, passed: Iterable[tuple[Owner, Row]]) -> str:
    """Moodle's grading worksheet (mod/assign/feedback/offline), which asks for when it was made."""
    head = ["Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)"]
    now = time.strftime("%Y-%m-%d %H:%M")
    lines: list[list[Cell]] = []
    for (name, number), row in passed:
        line: list[Cell] = [
            f"Participant {number}" if number else "",
            name,
            row.total,
            worth(lab),
            now,
        ]
        lines.append([*line, html.escape(reasons(lab, row), quote=False)])
    return table([*head, "Feedback comments"], lines)


def canvas(lab: Lab, passed: Iterable[tuple[Owner, Row]]) -> str:
    """Canvas's gradebook, to be matched by its ID, which stands in the names of its files."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", lab.title]
    lines: list[list[Cell]] = [["    Points Possible", "", "", "", "", worth(lab)]]
    lines += [[name, number, "", "", "", row.total] for (name, number), row in passed]
    return table(head, lines)


def feedback(lab: Lab, row: Row) -> str:
    """A page for the student: points and sentences; no numbers that the answer was tried on."""
    lines = []
    for asked in lab.asked:
        answer = row.questions[asked.name]
        points = f"{asked.points} open"
        if answer.points is not None:
            points = f"{answer.points:g} of {asked.points}"
        cells = f"{asked.number}. {asked.name}", points, answer.text
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    reason = f"<p>{html.escape(row.reason)}</p>" if row.reason else ""
    without = ", without those that are open" if row.is_open else ""
    points = f"{row.total:g} of {worth(lab)} points{without}"
    head = "<tr><th>Question</th><th>Points</th><th>What was seen</th></tr>"
    file = row.file.encode(errors="replace").decode()  # a name may be in no known encoding
    body = f"<p>{html.escape(file)}</p><p><b>{points}</b></p>{reason}"
    body += f"<table>{head}{''.join(lines)}</table>"
    return PAGE.format(title=html.escape(lab.title), body=body)


def summary(lab: Lab, rows: Sequence[Row], missing: Sequence[str] = ()) -> str:
    """What the class got wrong, and how often; who is missing."""
    body = f"<p>{len(rows)} files: "
    states = Counter(row.status for row in rows)
    body += ", ".join(f"{count} {html.escape(state)}" for state, count in states.most_common())
    body += ". What follows is about those that are notebooks.</p>"
    if missing:
        body += f"<p>Nothing from {html.escape(', '.join(missing))}.</p>"
    rows = [row for row in rows if row.status in READ]
    for asked in lab.asked:
        answers = [row.questions[asked.name] for row in rows]
        points = [answer.points for answer in answers if answer.points is not None]
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


def mistakes(lab: Lab, asked: Asked, rows: Iterable[Row]) -> str:
    """The mistakes of one question, the most frequent first, in the words of each one's copy."""
    count: Counter[str] = Counter()
    unknown = 0
    for row in rows:
        answer = row.questions[asked.name]
        words = lab.compared[asked.name].mistakes | lab.of(row.student).flips(asked.name)
        count.update(words[name] for name in answer.mistakes)
        unknown += not answer.mistakes and (answer.points or 0) < asked.points
    lines = [*count.most_common(), ("something else, or nothing written", unknown)]
    cells = [f"<tr><td>{n}</td><td>{html.escape(text)}</td></tr>" for text, n in lines if n]
    return f'<table class="count">{"".join(cells)}</table>'
