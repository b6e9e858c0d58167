"""Attention as a lookup: what is taken, from whom, and who asks."""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.attention import attend, scaled_dot_scores
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, printed

CELL, HIGH = 26, 24  # of a row of the dictionary


class Lookup:
    """A dictionary, a query, and what it takes at several temperatures."""

    def __init__(
        self,
        q: Float[Tensor, " D"],
        k: Float[Tensor, "Tk D"],
        v: Float[Tensor, "Tk Dv"],
        words: Sequence[str],
        temperatures: Sequence[Length],
    ):
        self.q, self.k, self.v, self.words = q.tolist(), k.tolist(), v.tolist(), list(words)
        self.temperatures = [float(heat) for heat in temperatures]
        answers = [attend(q[None], k, v, score=partial(cooled, heat)) for heat in temperatures]
        self.outputs = [output[0].tolist() for output, _ in answers]
        self.weights = [weights[0].tolist() for _, weights in answers]


def cooled(temperature: Length, q: Tensor, k: Tensor) -> Tensor:
    """Scores divided by a temperature."""
    return scaled_dot_scores(q, k) / temperature


def soft_lookup(
    q: Float[Tensor, " D"],
    k: Float[Tensor, "Tk D"],
    v: Float[Tensor, "Tk Dv"],
    words: Sequence[str],
    temperatures: Sequence[Length] = (0.1, 1, 5),
) -> Drawing:
    """A lookup takes one row; attention takes a share of every row, as high as its weight.

    Left the dictionary, then what is taken at each of three temperatures: the values' rows, each
    as high as its weight; their sum is the answer below.
    """
    if len(words) != len(k) or len(k) > 7 or k.shape[-1] != 4 or v.shape[-1] != 4:
        sizes = f"keys {tuple(k.shape)}, values {tuple(v.shape)}, {len(words)} words"
        raise ValueError(f"up to 7 keys and values of width 4 fit, with a word each; got {sizes}")
    if len(temperatures) != 3 or min(temperatures) <= 0:
        raise ValueError(f"three temperatures above 0 fit; got {tuple(temperatures)}")
    it = Lookup(q, k, v, words, temperatures)
    cold, warm = (max(weights) for weights in (it.weights[0], it.weights[-1]))
    best = it.words[it.weights[0].index(cold)]
    desc = (
        f"A dictionary of {len(words)} rows, each a word with its key and its value. Beside it "
        "what the query takes at three temperatures, drawn as the rows of values, each as high "
        f"as its weight. At {temperatures[0]:g} the row of {best} alone is taken, weight "
        f"{cold:.2f}; at {temperatures[-1]:g} every row has a share, {best} the largest, "
        f"{warm:.2f}. Below each stands the sum, the answer."
    )
    return Drawing(wide(it), tall(it), "From a lookup to a soft lookup", desc)


def dictionary(pen: Pen, it: Lookup, x: Length, y: Length) -> None:
    """Words, keys and values, a row each."""
    for i, word in enumerate(it.words):
        pen.text(x + 40, y + (i + 0.5) * HIGH + 4, word, "s e")
    for name, table, role, at in (("k", it.k, "key", x + 48), ("v", it.v, "value", x + 166)):
        pen.cells(name, (at, y), table, role, (CELL, HIGH))
        title = {"k": "keys", "v": "values"}[name]
        pen.text(at + 2 * CELL, y - 10, title, f"{role} f h")


def taken(pen: Pen, it: Lookup, n: int, x: Length, y: Length, cell: Length = CELL) -> None:
    """The values' rows, each as high as its weight, and their sum."""
    top, high = y, HIGH * len(it.words)
    with pen.group("value"):
        for weight, row in zip(it.weights[n], it.v, strict=True):
            part = weight * high
            for c, value in enumerate(row):
                at = {
                    "x": x + c * cell,
                    "y": top,
                    "width": cell - 1.5,
                    "height": max(part - 1, 0.4),
                }
                pen.mark("rect", "v bare", **at, style=f"--v:{printed(value)}")
            top += part
    marks(pen, it.weights[n], x - 6, y, high)
    pen.line([(x + 2 * cell, y + high + 4), (x + 2 * cell, y + high + 26)], "output k")
    pen.cells(f"y{n}", (x, y + high + 30), [it.outputs[n]], "output", (cell, HIGH))
    pen.text(x + 2 * cell, y - 10, f"τ = {it.temperatures[n]:g}", "b")


def asked(pen: Pen, it: Lookup, x: Length, y: Length) -> None:
    """The query, below the keys that it meets."""
    pen.cells("q", (x, y), [it.q], "query", (CELL, HIGH))
    pen.text(x + 4 * CELL + 12, y + 16, "query", "query f h l")


def marks(pen: Pen, weights: Sequence[float], x: Length, y: Length, high: Length) -> None:
    """The weight of each row that is high enough for a number."""
    for weight, below in zip(weights, torch.tensor(weights).cumsum(0).tolist(), strict=True):
        if weight * high >= 14:
            pen.text(x, y + (below - weight / 2) * high + 4, printed(weight), "weight f s e")


def wide(it: Lookup) -> Pen:
    high = HIGH * len(it.words)
    pen = Pen(720, high + 122)
    dictionary(pen, it, 0, 46)
    for n in range(3):
        taken(pen, it, n, 316 + 143 * n, 46)
        says = ("takes one row", "", "a share of each")[n]
        pen.text(316 + 143 * n + 2 * CELL, 18, says, "s muted f")
    asked(pen, it, 48, 46 + high + 30)
    pen.text(316 + 143 + 2 * CELL, high + 117, "answers", "output f h")
    return pen


def tall(it: Lookup) -> Pen:
    high = HIGH * len(it.words)
    pen = Pen(360, 2 * high + 222)
    dictionary(pen, it, 34, 30)
    asked(pen, it, 82, high + 40)
    for n in range(3):
        taken(pen, it, n, 28 + 121 * n, high + 126, 22)
        says = ("one row", "", "all rows")[n]
        pen.text(28 + 121 * n + 44, high + 96, says, "s muted f")
    pen.text(193, 2 * high + 202, "answers", "output f h")
    return pen
