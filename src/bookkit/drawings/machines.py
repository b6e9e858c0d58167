"""Six ways to share one model and one batch between two processes, and two machines with rings."""

from typing import NamedTuple

from attnbook.losses import parameters
from attnbook.parallel import count, example
from attnbook.planner.pace import LINKS, speed
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point

BLOCKS, WINDOWS, P = example.LAYERS, example.B, 2
VECTORS = example.B * example.T * example.C
LAYER, ROW, HIGH = 20, 6, 218


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
        "Tensor parallelism", "side", "whole", "sums", "sums",
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


def cuts() -> Drawing:
    """All of `KINDS`: two processes with their weights and their batch, and what goes between.

    Figures of the kinds: Shoeybi et al. 2019, Huang et al. 2019, Rajbhandari et al. 2020.
    """
    about = " ".join(
        f"{how.title}: {how.about} Between them travel {how.there} and {how.back}, {said(kind)}."
        for kind, how in KINDS.items()
    )
    desc = (
        f"Six panels, each with two processes. The model has {BLOCKS} blocks and the batch "
        f"{WINDOWS} windows; bytes are those of a step and of each process. {about}"
    )
    wide, tall = Pen(720, 2 * HIGH), Pen(360, 3 * HIGH)
    for pen, columns in ((wide, 3), (tall, 2)):
        room, gap = pen.width / columns, 22 if columns == 3 else 18
        for n, kind in enumerate(KINDS):
            x, y = n % columns * room, n // columns * HIGH
            panel(pen, kind, (x + gap / 2, y), room - gap)
    return Drawing(wide, tall, "Six ways to cut a training step", desc)


def said(kind: str) -> str:
    """The bytes of a step in words."""
    sent = bytes_sent(kind)
    return f"{sent:,} bytes" if sent is not None else "as many as the router says"


def panel(pen: Pen, kind: str, place: Point, room: int | float) -> None:
    """One kind: both processes, and what travels between them. `place` is the upper left corner."""
    (x, y), how, width = place, KINDS[kind], room * (0.28 if pen.width > 500 else 0.21)
    pen.text(x, y + 15, how.title.removesuffix(" parallelism"), "h l")
    for rank in range(P):
        left = x + rank * (room - width)
        for n in range(BLOCKS):
            at = (left, y + 26 + n * (LAYER + 4))
            block(pen, how.weights, (rank, BLOCKS - 1 - n), at, width)
        for n in range(WINDOWS):
            window(pen, how.batch, (rank, n), (left, y + 128 + n * ROW), width)
    between(pen, how, (x, y), (width, room))
    words = said(kind) if bytes_sent(kind) is not None else "as routed"
    pen.text(x + room / 2, y + 196, words, "s")


def block(pen: Pen, weights: str, who: tuple[int, int], place: Point, width: int | float) -> None:
    """A block of the model as process `who[0]` has it."""
    (rank, n), (x, y) = who, place
    pen.box(x, y, (width, LAYER), "box", 3)
    if weights == "experts":
        each = width / 8
        for e in range(8):
            mine = e // 4 == rank
            look = "output f" if mine else "box"
            pen.box(x + e * each + 1, y + 4, (each - 2, LAYER - 8), look, 1)
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


def between(pen: Pen, how: Kind, place: Point, sizes: Point) -> None:
    """What travels, each way: its name above an arrow."""
    (x, y), (width, room) = place, sizes
    left, right, middle = x + width + 4, x + room - width - 4, x + room / 2
    for n, words in enumerate((how.there, how.back)):
        at, ends = y + 58 + 44 * n, (left, right) if n == 0 else (right, left)
        pen.text(middle, at - 8, words, "s b")
        colour = "gradient k" if words == "gradients" else "weight k"
        pen.line([(ends[0], at), (ends[1], at)], colour)


GPUS_DRAWN, MACHINES_DRAWN = 8, 2


def rings(gpu: str = "h100") -> Drawing:
    """Two machines of eight GPUs and eight network cards: one ring over them, and eight.

    Bytes a second from `attnbook.planner.pace`; NCCL makes as many rings as there are cards.
    """
    near, far = (each / 1e9 for each in LINKS[gpu])
    together = speed(16, 8, gpu) / 1e9
    desc = (
        f"Two machines of eight GPUs, drawn twice. Inside a machine NVLink joins all GPUs, "
        f"{near:.0f} GB/s for each; to the other machine each GPU has a network card of "
        f"{far:.0f} GB/s. Above, one ring over all sixteen: it leaves each machine by a single "
        f"card, so the group sends at {far:.0f} GB/s. Below, eight rings, each by another card: "
        f"{together:.0f} GB/s."
    )
    wide, tall = Pen(720, 262), Pen(360, 262)
    for pen in (wide, tall):
        for n, (words, used) in enumerate(
            ((f"one ring: {far:.0f} GB/s", 1), (f"eight rings: {together:.0f} GB/s", 8))
        ):
            pen.text(0, 18 + 132 * n, words, "s b l")
            two_machines(pen, 28 + 132 * n, used)
    return Drawing(wide, tall, "The same group in one ring and in eight", desc)


def two_machines(pen: Pen, top: int | float, used: int) -> None:
    """GPUs on their NVLink above their cards; the first `used` cards carry a ring."""
    gap, room = (12, 324) if pen.width < 500 else (40, pen.width)
    width = (room - gap) / MACHINES_DRAWN
    cell = width / GPUS_DRAWN
    for m in range(MACHINES_DRAWN):
        left = m * (width + gap)
        pen.box(left, top, (width, 62), "box")
        pen.line([(left + 6, top + 10), (left + width - 6, top + 10)], "weight k thick", "")
        for n in range(GPUS_DRAWN):
            at = left + n * cell + cell / 2
            pen.line([(at, top + 10), (at, top + 20)], "weight k", "")
            pen.box(at - cell * 0.36, top + 20, (cell * 0.72, 20), "output f", 3)
            pen.box(
                at - cell * 0.22, top + 48, (cell * 0.44, 10), "key f" if n < used else "box", 2
            )
    for n in range(used):
        x = [m * (width + gap) + n * cell + cell / 2 for m in range(MACHINES_DRAWN)]
        y = top + 68 + 3 * n
        path = [(x[0], top + 58), (x[0], y), (x[1], y), (x[1], top + 60)]
        pen.line(path, "key k", "f" if n == used - 1 else "", 2)
