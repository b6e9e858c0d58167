"""Beam search as a trace: what each step lengthens, what it keeps, and which text wins."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

END = "</s>"
Words = tuple[str, ...]
Tree = Mapping[Words, Mapping[str, float]]
CASE: Tree = {
    (): {"mon": 0.5, "ma": 0.4},
    ("mon",): {"auto": 0.4, "wagon": 0.3},
    ("ma",): {"voiture": 0.9},
    ("ma", "voiture"): {END: 0.5, "rouge": 0.48},
    ("mon", "auto"): {"rouge": 0.6, END: 0.2},
    ("ma", "voiture", "rouge"): {END: 0.95},
    ("mon", "auto", "rouge"): {END: 0.9},
}
PITCH = 22


class Beginning(NamedTuple):
    """Words with the probability of those before the last, of the last, and of all together."""

    words: Words
    before: float
    last: float
    p: float

    @property
    def ended(self) -> bool:
        return self.words[-1] == END


def trace(tree: Tree, width: int) -> list[list[Beginning]]:
    """The beginnings of each step, likeliest first; the first `width` are kept.

    A finished one stays as it is and keeps its place while it is among them. The last step is that
    after which all that are kept are finished; if no word can follow, that is a ValueError.
    """
    kept, steps = [Beginning((), 1.0, 1.0, 1.0)], list[list[Beginning]]()
    while not steps or not all(one.ended for one in kept):
        found = [one for one in kept if one.words and one.ended]
        for one in kept:
            for word, p in tree.get(one.words, {}).items():
                found.append(Beginning((*one.words, word), one.p, p, one.p * p))
        if not found:
            raise ValueError(f"no word follows {', '.join(' '.join(one.words) for one in kept)}")
        steps.append(sorted(found, key=lambda one: -one.p))
        kept = steps[-1][:width]
    return steps


def per_word(one: Beginning) -> float:
    """The mean of the log probabilities of its words, the end mark too."""
    return math.log(one.p) / len(one.words)


def beams(tree: Tree = CASE, width: int = 2) -> Drawing:
    """Each step's beginnings with their products; those below the line are dropped.

    At the end the finished ones are compared, by log p and by log p per word.
    """
    if not 1 <= width <= 3 or () not in tree:
        raise ValueError(f"1 to 3 beams fit, and words to begin with; got {width}, {len(tree)}")
    steps = trace(tree, width)
    if len(steps) > 4 or max(map(len, steps)) > 5:
        raise ValueError(f"up to 4 steps of 5 beginnings fit; got {[*map(len, steps)]}")
    most = max(map(len, steps))
    wide, tall = Pen(720, PITCH * most + 116), Pen(360, PITCH * sum(map(len, steps)) + 202)
    lefts, y = (0, 112, 272, 478), 0
    reaches = (46, 92, 134, 166)
    for n, found in enumerate(steps):
        column(wide, n, found, width, (lefts[n], 0), reaches[n])
        column(tall, n, found, width, (40, y), 200)
        y += PITCH * len(found) + 30
    final(wide, steps[-1][:width], (150, PITCH * most + 52))
    final(tall, steps[-1][:width], (0, y + 20))
    return Drawing(wide, tall, "Beam search, step by step", desc(steps, width))


def desc(steps: list[list[Beginning]], width: int) -> str:
    """The trace as one would say it on the telephone."""
    told = [
        f"Step {n + 1}: " + ", ".join(f"{' '.join(one.words)} {printed(one.p)}" for one in found)
        for n, found in enumerate(steps)
    ]
    ends = ", ".join(
        f"{' '.join(one.words)} has log p {printed(math.log(one.p))}, per word "
        f"{printed(per_word(one))}"
        for one in steps[-1][:width]
    )
    return f"The {width} likeliest beginnings are kept. {'; '.join(told)}. All ended: {ends}."


def column(
    pen: Pen, n: int, found: list[Beginning], width: int, place: Point, reach: Length
) -> None:
    """One step: the beginnings, what each was multiplied with, and a line below those kept."""
    left, top = place
    pen.text(left + 8, top + 18, f"step {n + 1}", "b s l")
    for row, one in enumerate(found):
        y = top + 44 + PITCH * row
        kept = row < width
        look = "output f b s" if kept else "muted f s"
        waits = one.ended and n + 1 > len(one.words)
        if kept and one.ended:
            pen.box(left + 2, y - 15, (reach + 54, 20), "value t", 4)
        pen.text(left + 8, y, " ".join(one.words), f"{look} l")
        pen.text(left + reach + 50, y, "waits" if waits else printed(one.p), f"{look} e")
    pen.tables[f"step{n + 1}"] = [[printed(one.p)] for one in found]
    cut = top + 28 + PITCH * width
    if len(found) > width:
        pen.line([(left + 2, cut + 1), (left + reach + 56, cut + 1)], "muted k thin", "")


def final(pen: Pen, ended: list[Beginning], place: Point) -> None:
    """The finished ones: log p prefers the short text, log p per word need not."""
    left, top = place
    pen.text(left + 8, top, "finished", "b s l")
    pen.text(left + 206, top, "log p", "b s")
    pen.text(left + 292, top, "log p / words", "b s")
    best = max(ended, key=lambda one: one.p), max(ended, key=per_word)
    for row, one in enumerate(ended):
        y = top + 26 + 26 * row
        pen.text(left + 8, y, " ".join(one.words), "value f b s l")
        numbers = math.log(one.p), per_word(one)
        for at, x, first in zip((206, 292), numbers, best, strict=True):
            pen.cells(
                f"final{row}{at}", (left + at - 23, y - 17), [[x]], "output", (46, 24), (0, 6)
            )
            if one is first:
                pen.box(left + at - 24, y - 18, (48, 26), "mark", 3)
