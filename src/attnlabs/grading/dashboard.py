"""The class on one page: how the points lie, what went wrong where, who needs a look and why."""

import html
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from attnlabs.grading.history import Progress
from attnlabs.grading.page import framed
from attnlabs.grading.roster import Absent
from attnlabs.grading.row import BY_HAND, NO_NOTEBOOK, READ, Row
from attnlabs.grading.submissions import Owner
from attnlabs.judge import GENERAL
from attnlabs.parts import ASKS
from attnlabs.source import Asked, Lab


def page(
    lab: Lab,
    owners: Sequence[Owner],
    rows: Sequence[Row],
    persons: Sequence[Row],
    absent: Absent,
    progress: Sequence[Progress],
) -> str:
    """One HTML page. `rows` are files and `owners` theirs; `persons` has each person's best one."""
    names = {id(row): owner.name for owner, row in zip(owners, rows, strict=True)}
    read = [row for row in persons if row.status in READ]
    worth = sum(asked.points for asked in lab.asked)
    parts = [numbers(rows, persons, read, worth), to_look_at(rows, names), who_is_absent(absent)]
    parts += [unread(rows, names), "<h2>Question by question</h2>", KEY if read else ""]
    parts += [question(lab, asked, read, names) for asked in lab.asked] if read else []
    parts.append(advance(progress))
    return framed(f"{lab.title}: the class", "\n".join(parts))


def text(words: object) -> str:
    """Words as HTML; a file's name may be in no known encoding."""
    return html.escape(str(words).encode(errors="replace").decode())


def table(head: Sequence[str], lines: Iterable[Sequence[object]], kind: str = "") -> str:
    """An HTML table; no head where there are no words for one."""
    top = f"<tr>{''.join(f'<th>{word}</th>' for word in head)}</tr>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{text(c)}</td>' for c in line)}</tr>" for line in lines)
    return f'<table class="{kind}">{top}{body}</table>'


def numbers(rows: Sequence[Row], persons: Sequence[Row], read: Sequence[Row], worth: int) -> str:
    """How many there are and how their points lie."""
    totals = [float(row.total) for row in read]
    words = f"{len(rows)} files of {len(persons)} people, {len(read)} of whom handed in a notebook."
    if not totals:
        return f"<p>{words}</p>"
    cuts = statistics.quantiles(totals, n=4) if len(totals) > 1 else totals * 3
    still = sum(row.is_open for row in read)
    late = sum(row.late > 0 for row in read)
    low, middle, high = (f"{round(cut, 1):g}" for cut in cuts)
    words += f" Median {middle} of {worth} points, half of the class from {low} to {high}."
    words += f" {still} have answers that are still to be read and count 0 here." * (still > 0)
    words += f" {late} came late." * (late > 0)
    return f"<p>{words}</p><h2>Points</h2>{histogram(totals, worth)}"


def histogram(totals: Sequence[float], worth: int) -> str:
    """How many people have how many points: a bar for each point, or each second or fifth."""
    step = 1 if worth <= 25 else 2 if worth <= 50 else 5
    count = Counter(int(total // step) for total in totals)
    bins = worth // step + 1
    width, high, most = 360 / bins, 120, max(count.values())
    parts, said = ['<line x1="0" y1="140.5" x2="368" y2="140.5"/>'], []
    for n in range(bins):
        x, tall = 4 + n * width, high * count[n] / most
        if count[n]:
            box = f'x="{x:.1f}" y="{140 - tall:.1f}" width="{width - 2:.1f}" height="{tall:.1f}"'
            parts += [f"<rect {box}/>", label(x + width / 2 - 1, 136.0 - tall, count[n])]
            said.append(f"{n * step}{f' to {(n + 1) * step - 1}' * (step > 1)} points: {count[n]}")
        if n % 5 == 0:
            parts.append(label(x + width / 2 - 1, 158.0, n * step))
    words = f"How many people have how many points. {'; '.join(said)}."
    return f'<svg viewBox="0 0 368 164" role="img" aria-label="{words}">{"".join(parts)}</svg>'


def label(x: float, y: float, number: int) -> str:
    """A number in a picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{number}</text>'


def named(row: Row, names: dict[int, str]) -> str:
    """Whose file it is, and what it is called where that says more."""
    name, file = names[id(row)], row.file.rsplit("/", 1)[-1]
    return name if name == row.file or file.startswith(name) else f"{name} ({file})"


def to_look_at(rows: Sequence[Row], names: dict[int, str]) -> str:
    """Files at which a person must decide something, and what."""
    lines = []
    for row in rows:
        why = [*row.review, *([row.reason] if row.status in ("incomplete", "error") else [])]
        if why:
            lines.append((named(row, names), "; ".join(dict.fromkeys(why))))
    found = table(["Who", "Why"], lines) if lines else "<p>Nobody.</p>"
    return f"<h2>Who needs a look</h2>{found}"


def who_is_absent(absent: Absent) -> str:
    """Who of the list handed in nothing, or nothing that can be read."""
    words = {
        "Handed in nothing": absent.nothing,
        "Handed in, but nothing that can be read": absent.unreadable,
    }
    return "".join(f"<p>{what}: {text(', '.join(who))}.</p>" for what, who in words.items() if who)


def unread(rows: Sequence[Row], names: dict[int, str]) -> str:
    """Files that are no notebooks, and what they are."""
    lines = [(named(row, names), row.reason) for row in rows if row.status in NO_NOTEBOOK]
    return f"<h2>Files that are no notebook</h2>{table(['Who', 'Why'], lines)}" * bool(lines)


KEY = (
    '<p class="key soft">Of all notebooks:<i class="full"></i>all points<i class="part"></i>some'
    '<i class="none"></i>none</p>'
)


def question(lab: Lab, asked: Asked, rows: Sequence[Row], names: dict[int, str]) -> str:
    """How one question went, and its mistakes."""
    head = f"<h3>{asked.number}. {text(asked.name)}</h3>"
    points = [row.questions[asked.name].points for row in rows]
    given = [number for number in points if number is not None]
    if len(given) < len(rows):
        head += f"<p>{len(rows) - len(given)} answers are still open.</p>"
    if not given:
        return head
    full, some = sum(p == asked.points for p in given), sum(0 < p < asked.points for p in given)
    shares = {"full": full, "part": some}
    bar = "".join(
        f'<span class="{kind}" style="width:{100 * n / len(given):.1f}%"></span>'
        for kind, n in shares.items()
    )
    mean = f"{sum(given) / len(given):.2f} of {asked.points} points on average"
    words = f"{mean}; {full} right, {some} in part, {len(given) - full - some} without points."
    return f'{head}<div class="bar">{bar}</div><p>{words}</p>' + (
        mistakes(lab, asked, rows, names) if asked.code else ""
    )


def mistakes(lab: Lab, asked: Asked, rows: Iterable[Row], names: dict[int, str]) -> str:
    """The mistakes of one question, the most frequent first, in the words of each one's copy."""
    who: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        for kind in kinds(lab, asked, row):
            who[kind].append(names[id(row)])
    ordered = sorted(who.items(), key=lambda pair: (pair[0] in OTHERS, -len(pair[1])))
    if not ordered:
        return ""
    found = table([], [(len(people), kind) for kind, people in ordered], "count")
    people = "".join(f"<li>{text(kind)}: {text(', '.join(one))}</li>" for kind, one in ordered)
    return f"{found}<details><summary>Who</summary><ul>{people}</ul></details>"


def kinds(lab: Lab, asked: Asked, row: Row) -> list[str]:
    """What is wrong with one answer, in words. A part of a project is compared with no answer: of
    it what was said, and nothing of points that a contest gives."""
    answer = row.questions[asked.name]
    lost = (answer.points or 0) < asked.points
    if asked.name in lab.parts:
        tried = any(part.kind in ASKS for part in lab.parts[asked.name])
        return [answer.text] if tried and lost else []
    words = lab.compared[asked.name].mistakes | lab.of(row.student).flips(asked.name) | GENERAL
    found = [words[name] for name in answer.mistakes if name in words]
    if found or not lost:
        return found
    undone = answer.text.startswith(("not yet implemented", "no cell defines"))
    decided = "set by hand" if answer.text.startswith(BY_HAND) else "something else"
    return ["not written" if undone else decided]


OTHERS = ("set by hand", "not written", "something else")


def advance(progress: Sequence[Progress]) -> str:
    """What became better from one hand-in to the next."""
    if not progress:
        return ""
    first = statistics.mean(one.points[0] for one in progress)
    last = statistics.mean(one.points[-1] for one in progress)
    words = f"{len(progress)} handed in more than once: {first:.1f} points for code at first, "
    words += f"{last:.1f} at last, on average."
    mended = Counter(name for one in progress for name in one.mended)
    if mended:
        words += f" Mended: {', '.join(f'{name} ({n})' for name, n in mended.most_common())}."
    lines = [
        (one.who, " → ".join(f"{points:g}" for points in one.points), ", ".join(one.mended))
        for one in sorted(progress, key=lambda one: one.points[0] - one.points[-1])
    ]
    return f"<h2>From one hand-in to the next</h2><p>{text(words)}</p>" + table(
        ["Who", "Points for code", "Mended"], lines
    )
