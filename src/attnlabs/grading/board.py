"""The leaderboard as a table (CSV) and as a page: who predicts the same text best."""

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlabs.grading.contest import Contest, Entry
from attnlabs.grading.page import framed
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.written import Cell, lines, safe, table
from attnlabs.nats import CHANCE
from attnlabs.source import Lab

HEAD = ["place", "team", "nats per byte", "standard error", "level", "vocabulary", "parameters"]
HEAD += ["training seconds", "predicting seconds", "file", "reason", "look"]
STYLE = """<style>
.board { font-variant-numeric: tabular-nums }
.board th, .board td { padding-right: .8rem }
.board td:first-child { min-width: 0 }
.board .ours { color: var(--soft) }
.board .strip { display: block; height: .5rem; border-radius: 3px; background: var(--full) }
.board .ours .strip { background: var(--part) }
.board .lone .strip { background: var(--none) }
.board .wide { width: 30% }
.scroll { overflow-x: auto }
caption { text-align: left; padding-bottom: .4rem }
@media (max-width: 34rem) { .board .extra { display: none } }
</style>"""
Levels = Mapping[str, tuple[float, float]]


def ranked(entries: Sequence[Entry]) -> list[tuple[str, Entry]]:
    """Entries with their places, best first; equal scores share one. Levels have none.

    Those without a score come last, without a place.
    """
    good = sorted((e for e in entries if e.nats is not None), key=lambda e: (e.nats, e.team))
    students = [e.nats for e in good if not e.level]
    lines = [("" if e.level else f"{students.index(e.nats) + 1}", e) for e in good]
    return lines + [("", e) for e in entries if e.nats is None]


def sheet(entries: Sequence[Entry], levels: Levels) -> str:
    """The table, one line for each project, each reference level and each table of counts."""
    lines: list[tuple[float, list[Cell]]] = []
    for place, e in ranked(entries):
        score = "" if e.nats is None else f"{e.nats:.4f}"
        error = "" if e.error is None else f"{e.error:.4f}"
        line: list[Cell] = [place, e.team, score, error, REFERENCE if e.level else PROJECT]
        line += [e.vocabulary or None, f"{e.parameters}" if e.parameters else "", f"{e.cpu:.1f}"]
        line += [f"{e.predicting:.1f}", e.file, e.reason, e.look]
        lines.append((math.inf if e.nats is None else e.nats, line))
    for name, (paid, spread) in levels.items():
        line = ["", name, f"{paid:.4f}", f"{spread:.4f}", COUNTS, *[""] * 7]
        lines.append((paid, line))
    return table(HEAD, [line for _, line in sorted(lines, key=lambda pair: pair[0])])


WAITS = "the leaderboard tells: give grade its table, --leaderboard leaderboard.csv."
PAIRS = "counts of pairs of bytes"  # the line that a project must be better than
PROJECT, REFERENCE, COUNTS = "project", "reference", "no learning"  # the levels of lines


def waits(row: Row) -> bool:
    """Does a question of it wait for the leaderboard?"""
    return any(answer.text == WAITS for answer in row.questions.values())


def credit(lab: Lab, rows: Sequence[Row], path: Path) -> None:
    """Give the points of the leaderboard's question: all for a score better than that of pairs."""
    read = [line for _, line in lines(path, ["file", "team", "nats per byte", "level", "reason"])]
    # Who a line is about its `level` says; a team is called as it likes, and a file too
    counts = [line for line in read if line["level"] == COUNTS and line["team"] == PAIRS]
    if not counts:
        raise ValueError(f"{path}: there is no line {PAIRS!r}; is it a leaderboard's table?")
    pairs = float(counts[0]["nats per byte"])
    by_file = {line["file"]: line for line in read if line["level"] == PROJECT}
    for row in rows:
        for asked in lab.asked:
            answer, line = row.questions[asked.name], by_file.get(safe(row.file))
            if answer.text == WAITS and line is not None:
                row.questions[asked.name] = scored(line, pairs, asked.points)


def scored(line: Mapping[str, str], pairs: float, worth: int) -> Answer:
    """The points of one project, and its score beside that of the table of pairs."""
    if not line["nats per byte"]:
        return Answer(0, f"no score on the leaderboard: {line['reason']}")
    score = float(line["nats per byte"])
    better = "better than" if score < pairs else "not better than"
    words = f"{score:.3f} nats per byte, {better} a table of pairs ({pairs:.3f})."
    return Answer(worth if score < pairs else 0, words)


def page(contest: Contest, entries: Sequence[Entry], levels: Levels, name: str) -> str:
    """One HTML page, which may be shown to the class: names as in `TEAM`, no file, no remark."""
    done = [e for e in entries if e.nats is not None and not e.level]
    failed = [e for e in entries if e.nats is None]
    size = int(contest.sizes.sum())
    words = (
        f"{len(done)} projects have a score. Each was trained for {contest.seconds / 60:g} minutes "
        f"of processor time on one thread, on {len(contest.train):,} bytes of {name}. Then it "
        f"predicted {size:,} bytes in {len(contest.passages)} passages that its process had never "
        "seen; each token was shown after it was predicted. Lower is better."
    )
    note = (
        "± is the standard error over the passages. All are scored on the same ones, so a smaller "
        "difference than it may be real; another seed of the training tells. Grey bars have "
        "learned nothing: tables of counts of the training text, and chance."
    )
    body = f"{STYLE}<p>{html.escape(words)}</p>{main_table(entries, levels)}"
    body += f'<p class="soft">{html.escape(note)}</p>'
    if failed:
        lines = "".join(
            f'<tr><th scope="row">{shown(e.team)}</th><td>{shown(e.reason)}</td></tr>'
            for e in failed
        )
        head = '<thead><tr><th scope="col">Who</th><th scope="col">Why</th></tr></thead>'
        body += f"<h2>Without a score</h2><table>{head}<tbody>{lines}</tbody></table>"
    return framed("Small but yours: the leaderboard", body)


def shown(words: str) -> str:
    """Words as HTML; a name may be in no known encoding."""
    return html.escape(words.encode(errors="replace").decode())


def main_table(entries: Sequence[Entry], levels: Levels) -> str:
    """Projects, references and tables of counts, best first, each with a bar."""
    rows = []
    for place, e in ranked(entries):
        if e.nats is not None:
            own = [place, e.team + " (reference)" * e.level]
            more = [f"{e.vocabulary:,}", f"{e.parameters:,}"]
            rows.append((e.nats, e.error or 0.0, own, more, "ours" * e.level))
    rows += [(n, err, ["", name], ["", ""], "ours lone") for name, (n, err) in levels.items()]
    rows.sort(key=lambda row: row[0])
    head = ["Place", "Who", "Nats per byte", "Vocabulary", "Parameters"]
    cells = "".join(f'<th scope="col"{classes(n)}>{word}</th>' for n, word in enumerate(head))
    lines = "".join(line(*row) for row in rows)
    caption = f"<caption>Nats per byte; chance is ln 256 = {CHANCE:.3f}.</caption>"
    inner = f"{caption}<thead><tr>{cells}</tr></thead><tbody>{lines}</tbody>"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Leaderboard">'
        f'<table class="board">{inner}</table></div>'
    )


def classes(number: int) -> str:
    """What a narrow screen leaves out, and the column of the bars."""
    return ' class="extra"' if number > 2 else ' class="wide"' if number == 2 else ""


def line(score: float, error: float, own: list[str], more: list[str], kind: str) -> str:
    """A row of the table."""
    place, who = own
    said = f"{score:.3f} ± {error:.3f}" if error else f"{score:.3f}"
    strip = f'<span class="strip" aria-hidden="true" style="width:{100 * score / CHANCE:.1f}%">'
    cells = f'<td>{place}</td><th scope="row">{shown(who)}</th><td>{said}{strip}</span></td>'
    cells += "".join(f'<td class="extra">{word}</td>' for word in more)
    return f'<tr class="{kind}">{cells}</tr>'
