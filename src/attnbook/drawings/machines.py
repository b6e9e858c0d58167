"""Six ways to share one model and one batch between two processes: what is cut, what travels."""

from typing import NamedTuple

from attnbook.drawings.drawing import Drawing
from attnbook.drawings.pen import Pen, Point
from attnbook.parallel import count, example
from attnbook.train import parameters

BLOCKS, WINDOWS, P = example.LAYERS, example.B, 2
VECTORS = example.B * example.T * example.C
LAYER, ROW = 20, 6


class Kind(NamedTuple):
    """How the weights and the batch are cut, and what is said of each way between the processes.

    Weights: "whole", "side" (each its half of every matrix), "gathered" (so, and whole while it is
    used), "stack" (each its blocks), "experts". Batch: "whole", "windows", "text".
    """

    title: str
    weights: str
    batch: str
    there: str
    back: str
    about: str


KINDS = {
    "data": Kind(
        "Data parallelism", "whole", "windows", "gradients", "gradients",
        "Each has all weights and half of the windows.",
    ),
    "sharded": Kind(
        "Sharded data parallelism", "gathered", "windows", "weights", "gradients",
        "Each keeps half of all weights (hatched: gathered while it is used) and half of the "
        "windows.",
    ),
    "tensor": Kind(
        "Tensor parallelism", "side", "whole", "partial sums", "partial sums",
        "Each has half of every matrix, and reads all windows.",
    ),
    "pipeline": Kind(
        "Pipeline parallelism", "stack", "whole", "activations", "gradients",
        "The first has the lower two blocks, the second the upper two; all windows pass both.",
    ),
    "context": Kind(
        "Context parallelism", "whole", "text", "keys", "values",
        "Each has all weights, and half of the positions of every window.",
    ),
    "experts": Kind(
        "Expert parallelism", "experts", "windows", "tokens", "answers",
        "Each has four of the eight experts of every block, and half of the windows.",
    ),
}  # fmt: skip


def bytes_sent(kind: str) -> int | None:
    """What the first process sends in a step of the chapter's example; None where it depends on
    where the tokens want to go."""
    N = parameters(example.decoder())
    return {
        "data": count.data(N, P),
        "sharded": count.sharded(N, P, 3),
        "tensor": count.tensor(VECTORS, P, BLOCKS),
        "pipeline": count.pipeline(VECTORS, P, 0),
        "context": count.context(VECTORS, P, BLOCKS),
        "experts": None,
    }[kind]


def cut(kind: str) -> Drawing:
    """One of `KINDS`: both processes with their weights and their batch, and what goes between.

    Figures of the kinds: Shoeybi et al. 2019, Huang et al. 2019, Rajbhandari et al. 2020.
    """
    if kind not in KINDS:
        raise ValueError(f"kinds are {', '.join(KINDS)}; got {kind!r}")
    how, sent = KINDS[kind], bytes_sent(kind)
    said = f"{sent:,} bytes" if sent is not None else "as the router says"
    travels = how.there if how.there == how.back else f"{how.there} and {how.back}"
    desc = (
        f"Two processes with the same model of {BLOCKS} blocks and the same batch of {WINDOWS} "
        f"windows. {how.about} Between them travel {travels}: {said} in a step "
        "and from each process in the chapter's example."
    )
    wide, tall = Pen(720, 216), Pen(360, 216)
    for pen, width in ((wide, 230), (tall, 122)):
        for rank in range(P):
            half(pen, how, rank, (rank * (pen.width - width), width))
        between(pen, how, said, width)
    return Drawing(wide, tall, how.title, desc)


def half(pen: Pen, how: Kind, rank: int, place: Point) -> None:
    """A process: its weights above, its part of the batch below. `place` is left end and width."""
    x, width = place
    pen.text(x, 16, f"process {rank}", "h l")
    pen.text(x, 36, "weights", "s l")
    for n in range(BLOCKS):
        block(pen, how.weights, (rank, BLOCKS - 1 - n), (x, 44 + n * (LAYER + 4)), width)
    pen.text(x, 158, "batch", "s l")
    for n in range(WINDOWS):
        window(pen, how.batch, (rank, n), (x, 166 + n * ROW), width)


def block(pen: Pen, weights: str, who: tuple[int, int], place: Point, width: int | float) -> None:
    """A block of the model as process `who[0]` has it."""
    (rank, n), (x, y) = who, place
    pen.box(x, y, (width, LAYER), "box", 3)
    if weights == "experts":
        each = width / 8
        for e in range(8):
            mine = e // 4 == rank
            pen.box(x + e * each + 2, y + 4, (each - 4, LAYER - 8), "output f" if mine else "box")
        return
    if weights == "whole" or (weights == "stack" and n // 2 == rank):
        pen.box(x, y, (width, LAYER), "output f", 3)
    if weights in ("side", "gathered"):
        pen.box(x + rank * width / 2, y, (width / 2, LAYER), "output f", 3)
    if weights == "gathered":
        pen.hatch(x + (1 - rank) * width / 2, y, (width / 2, LAYER))


def window(pen: Pen, batch: str, who: tuple[int, int], place: Point, width: int | float) -> None:
    """A window of tokens as process `who[0]` reads it."""
    (rank, n), (x, y) = who, place
    pen.box(x, y, (width, ROW - 2), "box", 1)
    if batch == "whole" or (batch == "windows" and n // (WINDOWS // P) == rank):
        pen.box(x, y, (width, ROW - 2), "key f", 1)
    if batch == "text":
        pen.box(x + rank * width / 2, y, (width / 2, ROW - 2), "key f", 1)


def between(pen: Pen, how: Kind, said: str, width: int | float) -> None:
    """What travels, each way, and how many bytes."""
    left, right, middle = width + 8, pen.width - width - 8, pen.width / 2
    words = (how.there, how.back) if how.there != how.back else (how.there, "")
    pen.text(middle, 64, words[0], "s b")
    pen.text(middle, 80, words[1], "s b")
    pen.line([(left, 92), (right, 92)], "gradient k" if how.there == "gradients" else "weight k")
    pen.line([(right, 106), (left, 106)], "gradient k" if how.back == "gradients" else "weight k")
    lines = (said,) if pen.width > 400 else said.rsplit(" ", 1)
    for n, line in enumerate(lines):
        pen.text(middle, 126 + 16 * n, line, "s")
