"""A matrix as a memory: one step of the gated delta rule in numbers."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.recurrence.delta import delta_step
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point, printed

CELL = (38, 26)
STATE = [[1.0, 0.0], [0.5, 1.0]]
KEY, VALUE = [1.0, 0.0], [0.0, 1.0]


class Step:
    """The numbers of one step: before, faded, what it answers, what is wrong, after, read."""

    def __init__(self, S: Tensor, k: Tensor, v: Tensor, beta: Tensor, keep: Tensor):
        self.before, self.faded = S, keep * S
        self.old = (self.faded.T @ k)[None]
        self.v, self.k = v[None], k[:, None]
        self.wrong = self.v - self.old
        self.read, self.after = delta_step(S, k, k, v, beta, keep.log()[None])
        self.beta, self.keep = beta.item(), keep.item()


def matrix_memory(
    S: Sequence[Sequence[float]] = STATE,
    k: Sequence[float] = KEY,
    v: Sequence[float] = VALUE,
    beta: float = 1.0,
    keep: float = 0.5,
) -> Drawing:
    """One step of the gated delta rule on a memory of 2 × 2 numbers.

    The memory fades, is asked for the key, and is corrected by what was wrong. Yang et al. 2025
    (gated delta networks), equation 10.
    """
    numbers = [torch.tensor(x, dtype=torch.float) for x in (S, k, v, beta, keep)]
    if numbers[0].shape != (2, 2) or numbers[1].shape != (2,) or numbers[2].shape != (2,):
        shapes = [tuple(x.shape) for x in numbers[:3]]
        raise ValueError(f"a memory of 2 × 2, a key and a value of 2 fit; got {shapes}")
    step = Step(*numbers)
    old, wrong = (listed(x)[0] for x in (step.old, step.wrong))
    desc = (
        f"The memory, a table of 2 × 2 numbers, is multiplied by "
        f"{printed(step.keep)}: it fades. Asked for the key it answers ({told(old)}); wanted is "
        f"({told(step.v[0].tolist())}), so ({told(wrong)}) is wrong. Key times what is wrong, "
        f"times the strength {printed(step.beta)}, is added to the memory. After that the key is "
        "answered with the value."
    )
    wide, tall = Pen(720, 218), Pen(360, 414)
    one_step(wide, step, {"before": (16, 46), "faded": (216, 46), "after": (492, 46)}, (216, 168))
    one_step_tall(tall, step)
    return Drawing(wide, tall, "A memory that is written, fades and is read", desc)


def listed(x: Float[Tensor, "rows columns"]) -> list[list[float]]:
    return [[float(number) for number in row] for row in x.tolist()]


def told(numbers: Sequence[float]) -> str:
    return ", ".join(printed(x) for x in numbers)


def put(pen: Pen, name: str, x: Float[Tensor, "rows columns"], at: Point, role: str) -> None:
    pen.cells(name, at, listed(x), role, CELL, (0, 1))


def one_step(pen: Pen, step: Step, places: dict[str, Point], low: Point) -> None:
    """From left to right: before, faded, corrected, read; the correction runs below."""
    w, h = CELL
    middle = places["before"][1] + h
    for name, words in (("before", "memory"), ("faded", "faded"), ("after", "corrected")):
        put(pen, name, getattr(step, name), places[name], "state")
        pen.text(places[name][0] + w, places[name][1] - 12, words, "h")
    (x0, _), (x1, _), (x2, _) = places.values()
    plus = x2 - 30
    pen.line([(x0 + 2 * w + 4, middle), (x1 - 6, middle)], "state k")
    pen.text((x0 + 2 * w + x1) / 2, middle - 10, f"× α = {printed(step.keep)}", "s")
    pen.line([(x1 + 2 * w + 4, middle), (plus - 11, middle)], "state k")
    pen.line([(plus + 10, middle), (x2 - 6, middle)], "state k")
    pen.plus(plus, middle)
    put(pen, "read", step.read[None], (x2 + 152, middle - h / 2), "output")
    pen.line([(x2 + 2 * w + 4, middle), (x2 + 146, middle)], "output k")
    pen.text(x2 + 2 * w + 36, middle - 10, "query", "query f s")
    pen.text(x2 + 152 + w, middle - h / 2 - 12, "answer", "output f h")
    correction(pen, step, low, (x1 + w, places["faded"][1] + 2 * h + 4), (plus, middle + 11))


def correction(pen: Pen, step: Step, low: Point, start: Point, end: Point) -> None:
    """What the memory answers to the key, what is wrong with it, and where that is added."""
    (x, y), (w, h) = low, CELL
    put(pen, "old", step.old, (x, y), "output")
    put(pen, "v", step.v, (x - 134, y), "value")
    put(pen, "wrong", step.wrong, (x + 150, y), "gradient")
    pen.line([start, (start[0], y - 6)], "key k")
    pen.text(start[0] + 10, (start[1] + y) / 2 + 4, "asked for the key", "key f s l")
    pen.text(x - 134 + w, y + h + 18, "wanted", "value f s b")
    pen.text(x + w, y + h + 18, "it answers", "output f s b")
    pen.text(x + 150 + w, y + h + 18, "wrong", "gradient f s b")
    pen.text(x - 29, y + h / 2 + 5, "−", "h")
    pen.text(x + 2 * w + 37, y + h / 2 + 5, "=", "h")
    pen.line([(x + 150 + 2 * w + 4, y + h / 2), (end[0], y + h / 2), end], "gradient k")
    pen.text(end[0] + 10, (end[1] + y) / 2 + 8, f"β = {printed(step.beta)}, times the key", "s l")


def one_step_tall(pen: Pen, step: Step) -> None:
    """The same from top to bottom."""
    w, x = CELL[0], 20
    for n, (name, words) in enumerate((("before", "memory"), ("faded", "faded"))):
        y = 34 + 108 * n
        put(pen, name, getattr(step, name), (x, y), "state")
        pen.text(x + w, y - 10, words, "h")
    pen.line(
        [(x + 2 * w + 8, 60), (x + 2 * w + 30, 60), (x + 2 * w + 30, 168), (104, 168)], "state k"
    )
    pen.text(x + 2 * w + 40, 116, f"× α = {printed(step.keep)}", "s l")
    pen.line([(x + w, 198), (x + w, 240)], "key k")
    pen.text(x + w + 10, 222, "asked for the key", "key f s l")
    put(pen, "old", step.old, (x, 246), "output")
    put(pen, "v", step.v, (x + 120, 246), "value")
    put(pen, "wrong", step.wrong, (x + 236, 246), "gradient")
    for at, words, role in ((x, "it answers", "output"), (x + 120, "wanted", "value"),
                            (x + 236, "wrong", "gradient")):  # fmt: skip
        pen.text(at + w, 290, words, f"{role} f s b")
    pen.line([(x + 236 + w, 300), (x + 236 + w, 356), (x + 2 * w + 6, 356)], "gradient k")
    pen.text(x + 2 * w + 92, 348, f"β = {printed(step.beta)}, times the key", "s")
    put(pen, "after", step.after, (x, 330), "state")
    pen.text(x + w, 320, "corrected", "h")
    pen.line([(x + 2 * w + 6, 372), (x + 162, 372)], "output k")
    put(pen, "read", step.read[None], (x + 168, 362), "output")
    pen.text(x + 168 + w, 408, "answer to the query", "output f s b")
