"""One body, six kinds of data: what a token is, who may look at whom, what comes out."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnbook.losses import parameters
from attnbook.masks import causal_mask
from attnbook.modalities.body import shared_body
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.parts import mask_icon
from bookkit.drawings.pen import Length, Pen

CELL, ROW = 9, 62  # a mask's cell, and the height of a row
LOW = 36  # by how much a row is higher where what it shows stands below its name


def path() -> Tensor:
    """Five people in a row: all know themselves and their neighbours."""
    return torch.ones(5, 5).tril(1).triu(-1).bool()


def after(count: int) -> Tensor:
    """`count` patches that see each other, then words that see them and the words before."""
    mask = causal_mask(5)
    mask[:, :count] = True
    return mask


EVERYTHING = torch.ones(5, 5, dtype=torch.bool)


def words(pen: Pen, x: Length, y: Length, count: int = 5) -> None:
    """Words on a line; a dot ends the sentence."""
    lengths = (14, 20, 9, 16, 10)[:count]
    for n, length in enumerate(lengths):
        pen.line([(x, y + 15), (x + length, y + 15)], "ink k", "")
        x += length + 4
        if n == count - 1:
            pen.dot(x - 1, y + 15, "ink f", 1.5)


def graph(pen: Pen, x: Length, y: Length) -> None:
    """Five people in a row, not in a straight one."""
    nodes = [(x + 4 + 19 * n, y + (22, 6, 18, 5, 20)[n]) for n in range(5)]
    pen.line(nodes, "ink k", "", 0)
    for at in nodes:
        pen.dot(*at, "ring", 4)


def sound(pen: Pen, x: Length, y: Length) -> None:
    """A wave that swells and dies away, cut into five frames."""
    for n in range(6):
        pen.line([(x + 16 * n, y), (x + 16 * n, y + 28)], "hair", "")
    wave = [
        (x + n, y + 14 - 12 * math.sin(math.pi * n / 80) * math.sin(2 * math.pi * n / 10))
        for n in range(0, 81, 2)
    ]
    pen.line(wave, "ink k", "", 1)


def series(pen: Pen, x: Length, y: Length) -> None:
    """Twelve months with a summer, of two years."""
    points = [
        (x + 3.4 * n, y + 20 - 0.2 * n - 9 * math.sin(math.pi * n / 6)) for n in range(0, 25, 2)
    ]
    pen.line(points, "ink k", "", 1)
    for at in points:
        pen.dot(*at, "ink f", 2)


def table(pen: Pen, x: Length, y: Length) -> None:
    """Three rows of five columns, the first of them names; one row is what is read."""
    pen.box(x, y + 10, (80, 9), "ink t", 0)
    for n in range(4):
        pen.line([(x, y + 1 + 9 * n), (x + 80, y + 1 + 9 * n)], "hair", "")
    for n in range(6):
        pen.line([(x + 16 * n, y + 1), (x + 16 * n, y + 28)], "hair", "")


def picture(pen: Pen, x: Length, y: Length) -> None:
    """A hill under the sun in three patches, and two words about it."""
    pen.dot(x + 37, y + 8, "muted f", 4)
    hill = [(x + n, y + 26 - 12 * math.sin(math.pi * n / 47)) for n in range(0, 49, 3)]
    pen.line(hill, "ink k", "", 1)
    for n in range(3):
        pen.box(x + 16 * n, y, (16, 28), "hair", 0)
    words(pen, x + 54, y, 2)


@dataclass(frozen=True)
class Kind:
    """What is said of one kind of data, what it looks like, and in which place."""

    name: str
    token: str
    mask: Tensor
    answer: str
    draw: Callable[[Pen, Length, Length], None]


KINDS = (
    Kind("text", "a word", causal_mask(5), "next word", words),
    Kind("graph", "a node", path(), "for each node", graph),
    Kind("sound", "a frame’s pitches", EVERYTHING, "one for all", sound),
    Kind("series", "a month’s value", causal_mask(5), "next value", series),
    Kind("table", "a column’s number", EVERYTHING, "one for all", table),
    Kind("picture, text", "a patch, a word", after(3), "next word", picture),
)


def one_body() -> Drawing:
    """Six rows of adapters around one body. Pointed at, a row says what it tells the body."""
    desc = (
        "Six kinds of data in rows, each drawn small: words on a line, five joined nodes, a wave, "
        "months, a table, a picture in patches. At the left what a token is, then who may look at "
        "whom as a small table, in the middle one body that all rows pass, at the right the "
        "answer. Text: a word, causal, next word. Graph: a node, only along edges, an answer for "
        "each node. Sound: the pitches of a frame, everything, one answer for all. Series: a "
        "month's value, causal, next value. Table: a column's number, everything, one answer for "
        "all. Picture and text: patches see each other, words see the patches and the words "
        "before, next word."
    )
    wide, tall = Pen(720, 26 + ROW * len(KINDS)), Pen(360, 26 + (ROW + LOW) * len(KINDS))
    for pen, columns, high in (
        (wide, (8, 260, 394, 566), ROW),
        (tall, (0, 136, 206, 272), ROW + LOW),
    ):
        heads(pen, columns)
        for number, kind in enumerate(KINDS):
            row(pen, columns, 26 + high * number, high, kind)
        body(pen, columns[2], columns[3] - columns[2] - (40 if pen is wide else 22), high)
    return Drawing(wide, tall, "One body, six kinds of data", desc)


def heads(pen: Pen, columns: tuple[Length, ...]) -> None:
    """What stands in each column."""
    left, mask, _, answer = columns
    pen.text(left, 14, "a token is", "s muted f l")
    pen.text(mask, 14, "who looks", "s weight f l")
    pen.text(answer, 14, "answer", "s output f l")


def row(pen: Pen, columns: tuple[Length, ...], y: Length, high: Length, kind: Kind) -> None:
    """One kind of data, from its token to its answer."""
    left, mask, middle, answer = columns
    says = f"{kind.name}: {kind.token}; {kind.answer}"
    line = y + high / 2
    with pen.group(part=kind.name, on=kind.name, says=says):
        pen.box(left - 4, y + 2, (mask - left - 8, high - 6), "clear", 4)
        pen.text(left, y + 24, kind.name, "h l")
        pen.text(left, y + 44, kind.token, "s muted f l")
        kind.draw(pen, *((left + 138, y + 17) if high == ROW else (left + 2, y + 56)))
        mask_icon(pen, mask, line - 23, kind.mask, CELL)
        pen.line([(mask + 5 * CELL + 5, line), (middle - 3, line)])
        pen.line([(answer - (38 if answer > 400 else 20), line), (answer - 4, line)], "output k")
        pen.text(answer, line + 4, kind.answer, "output f s l")


def body(pen: Pen, x: Length, width: Length, high: Length) -> None:
    """The part that is the same for all."""
    top, height = 30, high * len(KINDS) - 8
    pen.box(x, top, (width, height), "weight t", 10)
    middle, centre = x + width / 2, top + height / 2
    if width < 100:
        pen.text(middle + 5, centre, "one body, the same for all", "h weight f", -90)
        return
    pen.text(middle, centre - 22, "one body", "h weight f")
    pen.text(middle, centre, "2 blocks, width 32", "s weight f")
    pen.text(middle, centre + 20, f"{parameters(shared_body()):,} parameters", "s weight f")
