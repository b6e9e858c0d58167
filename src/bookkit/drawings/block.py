"""One block on its residual streams, with every vector; and where a norm can stand."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.block import Block, PreNorm
from attnbook.inside.watch import watch
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, printed


class Streams:
    """What a block does to three tokens: the vectors on the way, and who looked at whom."""

    def __init__(self, block: Block, x: Tensor, tokens: Sequence[str]):
        with torch.no_grad(), watch(block) as seen:
            middle = block.attention(x)
            after = block.feedforward(middle)
        self.x, self.middle, self.after = (t[0].tolist() for t in (x, middle, after))
        self.added = (middle - x)[0].tolist(), (after - middle)[0].tolist()
        (weights,) = seen.values()
        self.weights = weights[0].mean(0).tolist()  # of the heads
        self.tokens = list(tokens)
        hidden = next(block.feedforward.get_submodule("sublayer").parameters()).shape[0]
        self.hidden = f"4→{hidden}→4"


def residual_stream(
    block: Block, x: Float[Tensor, "1 T 4"], tokens: Sequence[str] = ("1", "2", "3")
) -> Drawing:
    """A pre-norm block on three tokens of four numbers: each part reads a copy and adds.

    The lines of attention are as wide as its weights, the mean of the heads. Pointed at, a token
    says how much it took from whom. Xiong et al. 2020, figure 1b; the word "stream" is from
    Elhage et al. 2021, "Residual stream as a communication channel".
    """
    wrapped = isinstance(block.attention, PreNorm) and isinstance(block.feedforward, PreNorm)
    if not wrapped:
        raise ValueError("the drawing shows a block whose parts are wrapped in PreNorm")
    if x.shape != (1, 3, 4) or len(tokens) != 3:
        raise ValueError(
            f"three tokens of four numbers fit; got {tuple(x.shape)}, {len(tokens)} names"
        )
    streams = Streams(block, x, tokens)
    most = max(range(3), key=lambda j: streams.weights[0][j])
    desc = (
        "Three thick lines, one for each token, run upwards through the block and are never "
        "interrupted. From each a normalised copy is taken. In the attention part thin lines join "
        "the copies of all three tokens, as thick as the attention weights; token "
        f"{tokens[0]} takes most, {streams.weights[0][most]:.2f}, from token {tokens[most]}. What "
        "they bring is added to each line. In the feed-forward part each copy goes through the "
        "same small network alone, and its answer is added. A dashed line shows the gradient "
        "coming straight back along the streams."
    )
    title = "One pre-norm block on three tokens, drawn as three residual streams"
    return Drawing(sheet(streams, 180, 176), sheet(streams, 110, 60), title, desc)


def sheet(s: Streams, step: Length, first: Length) -> Pen:
    """Both layouts: streams `step` apart, the first at `first`."""
    narrow = step < 150
    pen = Pen(360 if narrow else 720, 446)
    places, aside = [first + step * t for t in range(3)], 33 if narrow else 48
    left, right = (0, 334) if narrow else (96, 612)
    floor = 392
    for above, height, role in ((34, 116, "weight"), (236, 68, "muted")):
        pen.box(left, floor - above - height, (right - left, height), f"{role} t", 10)
    for x in places:
        pen.stream([(x, floor), (x, floor - 388)])
    attention(pen, s, places, aside, floor)
    network(pen, s, places, aside, floor - 204)
    for name, above, vectors in (("x", 0, s.x), ("middle", 204, s.middle), ("after", 356, s.after)):
        rows(pen, name, places, floor - above, vectors)
    words(pen, s, places, floor, narrow)
    return pen


def rows(
    pen: Pen, name: str, places: Sequence[Length], y: Length, vectors: Sequence[Sequence[float]]
) -> None:
    """The vector of each token, across its stream; one scale for all."""
    for t, (x, vector) in enumerate(zip(places, vectors, strict=True)):
        pen.box(x - 52, y - 11, (104, 22), "paper", 0)
        pen.cells(f"{name}{t}", (x - 52, y - 11), [vector], "state", (26, 22), (0, 2.6), digits=1)


def attention(pen: Pen, s: Streams, places: Sequence[Length], aside: Length, floor: Length) -> None:
    """A normalised copy of each token, lines between all of them, and what they bring."""
    sides = [x - aside for x in places]
    for x, side in zip(places, sides, strict=True):
        pen.line([(x - 4, floor - 24), (side, floor - 24), (side, floor - 72)], "muted k", "")
        pen.pill(side, floor - 50, "norm", (38, 20))
    for i, (x, side) in enumerate(zip(places, sides, strict=True)):
        weights = ", ".join(
            f"{printed(w)} from {t}" for w, t in zip(s.weights[i], s.tokens, strict=True)
        )
        says = f"token {s.tokens[i]} takes {weights}"
        with pen.group(part=f"to{i}", on=f"to{i} n-to{i}", says=says):
            pen.box(side - 16, floor - 184, (x - side + 30, 70), "clear", 4)
            for j, other in enumerate(sides):
                pen.share((other, floor - 76), (side, floor - 138), s.weights[i][j])
            pen.dot(side, floor - 138, "weight f", 4)
            pen.line([(side, floor - 138), (side, floor - 168), (x - 8, floor - 168)], "weight k")
            pen.plus(x, floor - 168)
        note(pen, f"n-to{i}", says)
    for side in sides:
        pen.dot(side, floor - 76, "weight f", 4)


def network(pen: Pen, s: Streams, places: Sequence[Length], aside: Length, floor: Length) -> None:
    """The same small network for each token alone."""
    sides = [x - aside for x in places]
    for side, after in pairwise(sides):
        pen.mark("path", "tie", d=f"M{side + 29:g} {floor - 82:g}H{after - 29:g}")
    for i, (x, side) in enumerate(zip(places, sides, strict=True)):
        added = ", ".join(printed(number, 1) for number in s.added[1][i])
        says = f"the network adds {added} to token {s.tokens[i]}"
        with pen.group(part=f"net{i}", on=f"net{i} n-net{i}", says=says):
            pen.box(side - 26, floor - 95, (52, 26), "edge muted", 5)
            pen.text(side, floor - 78, s.hidden, "n")
            pen.line([(x - 4, floor - 24), (side, floor - 24), (side, floor - 69)], "muted k", "")
            pen.pill(side, floor - 48, "norm", (38, 20))
            pen.line([(side, floor - 95), (side, floor - 122), (x - 8, floor - 122)])
            pen.plus(x, floor - 122)
        note(pen, f"n-net{i}", says)


def note(pen: Pen, part: str, says: str) -> None:
    """What is said at the foot when it is asked."""
    with pen.group("note", part):
        pen.text(pen.width / 2, pen.height - 8, says, "s")


def words(pen: Pen, s: Streams, places: Sequence[Length], floor: Length, narrow: bool) -> None:
    """Names at the side, tokens below, and the way back of the gradient."""
    for x, token in zip(places, s.tokens, strict=True):
        pen.text(x, floor + 28, f"token {token}", "s muted f")
    back = 346 if narrow else 640
    pen.back([(back - 4 * narrow, 26), (back - 4 * narrow, floor + 6)])
    if narrow:
        pen.text(321, floor - 92, "attention", "weight f b", -90)
        pen.text(321, floor - 270, "network", "b", -90)
        pen.text(356, floor - 180, "gradient: straight back, × 1", "gradient f s", -90)
        return
    for above, name, look in (
        (0, "x", "m"),
        (204, "+ attention", "s b"),
        (356, "+ network", "s b"),
    ):
        pen.text(88, floor - above + 4, name, f"{look} e")
    for above, name, what, role in (
        (92, "attention", "mixes tokens", "weight"),
        (270, "network", "each alone", "ink"),
    ):
        pen.text(88, floor - above - 2, name, f"{role} f b e")
        pen.text(88, floor - above + 15, what, f"{role} f s e")
    for line, text in enumerate(
        ("gradient:", "straight", "back, × 1,", "plus what", "each part", "adds")
    ):
        pen.text(652, 150 + 17 * line, text, "gradient f s l" if line else "gradient f s l b")
