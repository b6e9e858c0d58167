"""What a lecturer takes home: tables for the platforms, pages for students, one of the class."""

import html
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from attnbook.files import store
from attnlabs.grading import by_hand, dashboard, history, written
from attnlabs.grading.page import framed
from attnlabs.grading.resubmissions import successors
from attnlabs.grading.roster import Absent
from attnlabs.grading.row import NO_NOTEBOOK, Row
from attnlabs.grading.submissions import Owner, Submission
from attnlabs.grading.submissions import owners as owners_of
from attnlabs.grading.written import Cell, table
from attnlabs.source import Lab

EXCEL = "\ufeff"  # without this mark in front, Excel takes UTF-8 for something else


def write(
    lab: Lab,
    submissions: Sequence[Submission],
    rows: Sequence[Row],
    out: Path,
    absent: Absent | None = None,
) -> list[Sequence[Cell]]:
    """All tables and pages. Points for written answers that were filled in are taken over.

    `absent`: who of a list is not here. ValueError, before anything is written, if points that were
    filled in are none. Returns lines of the table of written answers about files not among these,
    and of the table of what was decided by hand.
    """
    out = Path(out)
    folder = out.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    successor = successors(submissions, rows)
    others = written.take_over(lab, rows, folder / "written.csv", successor)
    decisions = folder / "by-hand.csv"
    strange, decided = by_hand.take_over(lab, submissions, rows, decisions, successor)
    owners = owners_of(submissions)
    store(folder / "written.csv", EXCEL + written.answers(lab, rows, others))
    store(decisions, EXCEL + decided)
    if below_questions := tables(rows):
        store(folder / "tables.csv", EXCEL + below_questions)
    passed = passed_on(owners, rows)
    store(folder / "moodle.csv", moodle(lab, passed))
    store(folder / "canvas.csv", canvas(lab, passed))
    pages(lab, rows, folder / "feedback")
    progress = history.update(folder / "history.json", lab, submissions, rows)
    persons = [row for _, row in passed]
    page = dashboard.page(lab, owners, rows, persons, absent or Absent(), progress)
    store(out.with_suffix(".html"), page)
    (folder / "summary.html").unlink(missing_ok=True)  # what earlier versions wrote
    store(out, EXCEL + grades(lab, owners, rows))
    return [*others, *([file, "", "by hand"] for file in strange)]


def passed_on(owners: Sequence[Owner], rows: Sequence[Row]) -> list[tuple[Owner, Row]]:
    """What goes to a platform: of several files of one person the one with most points, and a
    notebook rather than what is none.

    A file at which the grading itself failed is no grade, so it is not passed on.
    """

    def rank(row: Row) -> tuple[bool, float]:
        return row.status not in NO_NOTEBOOK, row.total

    best: dict[str, tuple[Owner, Row]] = {}
    for owner, row in zip(owners, rows, strict=True):
        who = owner.number or row.file
        if row.status != "error" and (who not in best or rank(row) > rank(best[who][1])):
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
    head += ["open", "late", "% off", "reason", "review", "notes", "seconds"]
    lines: list[list[Cell]] = []
    for owner, row in zip(owners, rows, strict=True):
        points = [row.questions[name].points for name in names]
        state: list[Cell] = [row.student, row.status, row.total, worth(lab)]
        remarks: list[Cell] = [
            points.count(None),
            row.late,
            row.taken_off,
            reasons(lab, row),
            "; ".join(row.review),
            "; ".join(row.notes),
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
    lost += [late(row)] if row.taken_off else []
    return row.reason or " | ".join(lost)


def late(row: Row) -> str:
    """What being late costs, as a sentence."""
    return f"{row.late} day{'s' * (row.late > 1)} late: {row.taken_off} % of the points are off."


def mark(row: Row) -> Cell:
    """The points, or nothing for a file that is no notebook: what the platform has stays there,
    until a person has decided."""
    return "" if row.status in NO_NOTEBOOK and not row.total else row.total


def moodle(lab: Lab, passed: Iterable[tuple[Owner, Row]]) -> str:
    """Moodle's grading worksheet (mod/assign/feedback/offline), which asks for when it was made."""
    head = ["Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)"]
    now = time.strftime("%Y-%m-%d %H:%M")
    lines: list[list[Cell]] = []
    for (name, number), row in passed:
        line: list[Cell] = [
            f"Participant {number}" if number else "",
            name,
            mark(row),
            worth(lab),
            now,
        ]
        lines.append([*line, html.escape(reasons(lab, row), quote=False)])
    return table([*head, "Feedback comments"], lines)


def canvas(lab: Lab, passed: Iterable[tuple[Owner, Row]]) -> str:
    """Canvas's gradebook, to be matched by its ID, which stands in the names of its files."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", lab.title]
    lines: list[list[Cell]] = [["    Points Possible", "", "", "", "", worth(lab)]]
    lines += [[name, number, "", "", "", mark(row)] for (name, number), row in passed]
    return table(head, lines)


def below(rows: Sequence[Sequence[str]]) -> str:
    """A table below a question's sentence, as HTML."""
    head, *lines = (map(html.escape, row) for row in rows)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in lines)
    return f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{body}</table>"


def tables(rows: Sequence[Row]) -> str:
    """The tables of all files below one another, as a CSV; "" if there are none."""
    found = [(row, name, each) for row in rows for name, each in row.questions.items()]
    found = [(row, name, each) for row, name, each in found if each.table]
    if not found:
        return ""
    lines = [[row.file, name, *line] for row, name, each in found for line in each.table[1:]]
    return table(["file", "question", *found[0][2].table[0]], lines)


def feedback(lab: Lab, row: Row) -> str:
    """A page for the student: points and sentences; no numbers that the answer was tried on."""
    lines = []
    for asked in lab.asked:
        answer = row.questions[asked.name]
        points = f"open, worth {asked.points}"
        if answer.points is not None:
            points = f"{answer.points:g} of {asked.points}"
        cells = f"{asked.number}. {asked.name}", points, answer.text
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        lines += [f'<tr><td colspan="3">{below(answer.table)}</td></tr>'] if answer.table else []
    reason = f"<p>{html.escape(row.reason)}</p>" if row.reason else ""
    without = ", without what is open" if row.is_open else ""
    points = f"{row.total:g} of {worth(lab)} points{without}"
    reason += f"<p>{late(row)}</p>" if row.taken_off else ""
    head = "<tr><th>Question</th><th>Points</th><th>What was seen</th></tr>"
    file = row.file.encode(errors="replace").decode()  # a name may be in no known encoding
    body = f"<p>{html.escape(file)}</p><p><b>{points}</b></p>{reason}"
    if row.status not in NO_NOTEBOOK:
        body += f"<table>{head}{''.join(lines)}</table>"
    return framed(lab.title, body)
