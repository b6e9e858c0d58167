"""One body, six kinds of data: what a token is, who may look at whom, what comes out."""

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


def path() -> Tensor:
    """Five people in a row: all know themselves and their neighbours."""
    return torch.ones(5, 5).tril(1).triu(-1).bool()


def after(count: int) -> Tensor:
    """`count` patches that see each other, then words that see them and the words before."""
    mask = causal_mask(5)
    mask[:, :count] = True
    return mask


EVERYTHING = torch.ones(5, 5, dtype=torch.bool)


@dataclass(frozen=True)
class Kind:
    """What is said of one kind of data, and in which place."""

    name: str
    token: str
    mask: Tensor
    answer: str


KINDS = (
    Kind("text", "a word", causal_mask(5), "next word"),
    Kind("graph", "a node", path(), "for each node"),
    Kind("sound", "a frame’s pitches", EVERYTHING, "one for all"),
    Kind("series", "a month’s value", causal_mask(5), "next value"),
    Kind("table", "a column’s number", EVERYTHING, "one for all"),
    Kind("picture, text", "a patch, a word", after(3), "next word"),
)


def one_body() -> Drawing:
    """Six rows of adapters around one body. Pointed at, a row says what it tells the body."""
    desc = (
        "Six kinds of data in rows. At the left what a token is, then who may look at whom as a "
        "small table, in the middle one body that all rows pass, at the right the answer. Text: a "
        "word, causal, next word. Graph: a node, only along edges, an answer for each node. Sound: "
        "the pitches of a frame, everything, one answer for all. Series: a month's value, causal, "
        "next value. Table: a column's number, everything, one answer for all. Picture and text: "
        "patches see each other, words see the patches and the words before, next word."
    )
    wide, tall = Pen(720, 26 + ROW * len(KINDS)), Pen(360, 26 + ROW * len(KINDS))
    for pen, columns in ((wide, (8, 240, 380, 560)), (tall, (0, 136, 206, 272))):
        heads(pen, columns)
        for number, kind in enumerate(KINDS):
            row(pen, columns, 26 + ROW * number, kind)
        body(pen, columns[2], columns[3] - columns[2] - (40 if pen is wide else 22))
    return Drawing(wide, tall, "One body, six kinds of data", desc)


def heads(pen: Pen, columns: tuple[Length, ...]) -> None:
    """What stands in each column."""
    left, mask, _, answer = columns
    pen.text(left, 14, "a token is", "s muted f l")
    pen.text(mask, 14, "who looks", "s weight f l")
    pen.text(answer, 14, "answer", "s output f l")


def row(pen: Pen, columns: tuple[Length, ...], y: Length, kind: Kind) -> None:
    """One kind of data, from its token to its answer."""
    left, mask, middle, answer = columns
    says = f"{kind.name}: {kind.token}; {kind.answer}"
    with pen.group(part=kind.name, on=kind.name, says=says):
        pen.box(left - 4, y + 2, (mask - left - 8, ROW - 6), "clear", 4)
        pen.text(left, y + 24, kind.name, "h l")
        pen.text(left, y + 44, kind.token, "s muted f l")
        mask_icon(pen, mask, y + 8, kind.mask, CELL)
        pen.line([(mask + 5 * CELL + 5, y + 31), (middle - 3, y + 31)])
        pen.line(
            [(answer - (38 if answer > 400 else 20), y + 31), (answer - 4, y + 31)], "output k"
        )
        pen.text(answer, y + 35, kind.answer, "output f s l")


def body(pen: Pen, x: Length, width: Length) -> None:
    """The part that is the same for all."""
    top, height = 30, ROW * len(KINDS) - 8
    pen.box(x, top, (width, height), "weight t", 10)
    middle, centre = x + width / 2, top + height / 2
    if width < 100:
        pen.text(middle + 5, centre, "one body, the same for all", "h weight f", -90)
        return
    pen.text(middle, centre - 22, "one body", "h weight f")
    pen.text(middle, centre, "2 blocks, width 32", "s weight f")
    pen.text(middle, centre + 20, f"{parameters(shared_body()):,} weights", "s weight f")
