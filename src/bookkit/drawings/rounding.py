"""Rounding with calibration data: where the error of a column goes."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.quantise.gptq import inverse_root, largest, levels_of, nearest, output_error
from attnbook.quantise.rounding import dequantise
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point, printed

PITCH = 60
ROW = (0.4, 1.4, 0.3, 3.0)


def alike(C: int, rho: float) -> Float[Tensor, "C C"]:
    """Inputs of mean square 1, any two of them correlated by `rho`."""
    return torch.full((C, C), rho) + (1 - rho) * torch.eye(C)


def rows_of_gptq(
    w: Float[Tensor, " C"], second: Float[Tensor, "C C"], bits: int
) -> list[list[float]]:
    """The weights before, and after each column: rounded up to there, moved beyond."""
    top, w = 2 ** (bits - 1) - 1, w.clone()
    scale, U, rows = largest(w, top), inverse_root(second, 0.0).to(w.dtype), [w.tolist()]
    for j in range(len(w)):
        level = levels_of(w[j], scale, top) * scale
        w[j + 1 :] -= (w[j] - level) / U[j, j] * U[j, j + 1 :]
        w[j] = level
        rows.append(w.tolist())
    return rows


def errors_move_on(w: Sequence[float] = ROW, rho: float = 0.8, bits: int = 3) -> Drawing:
    """GPTQ on one row of weights. Frantar et al. 2023, figure 2."""
    if not 3 <= len(w) <= 4 or not 0 <= rho < 1:
        raise ValueError(f"3 or 4 weights and 0 ≤ rho < 1 fit; got {len(w)} weights, rho = {rho}")
    W, second = torch.tensor([w]), alike(len(w), rho)
    rows = rows_of_gptq(W[0], second, bits)
    plain = dequantise(*nearest(W, bits, len(w)), len(w))
    errors = [output_error(x - W, second) for x in (plain, torch.tensor([rows[-1]]))]
    said = [", ".join(printed(x) for x in row) for row in (w, plain[0].tolist(), rows[-1])]
    desc = (
        f"A row of weights, {said[0]}, whose inputs are correlated by {printed(rho)}. From left to "
        "right a weight is rounded (framed), and all weights to its right move a little, so that "
        f"the output changes least. The end is {said[2]}, with a squared error of the output of "
        f"{printed(errors[1])}; the nearest levels, {said[1]}, have {printed(errors[0])}."
    )
    bottom = 58 + PITCH * len(w)
    pens = Pen(640, bottom + 84), Pen(360, bottom + 84)
    for pen, left, width in ((pens[0], 180, 110), (pens[1], 108, 62)):
        for n, row in enumerate(rows):
            one_step(pen, (left, width), n, row, rows[max(n - 1, 0)])
        compared(pen, (left, width), bottom, plain[0].tolist(), errors)
        pen.tables["rows"] = [[printed(x) for x in row] for row in rows]
    return Drawing(*pens, "What GPTQ does to the weights that are still to come", desc)


def one_step(pen: Pen, place: Point, n: int, row: Sequence[float], before: Sequence[float]) -> None:
    """The row after `n` columns; below it, by how much each later weight moved. `place` is where
    the cells begin, and their width."""
    left, width = place
    y = 4 + PITCH * n - (14 if n else 0)
    pen.text(0, y + 19, "as trained" if n == 0 else f"{n} rounded", "s l")
    for j, x in enumerate(row):
        at = left + j * width
        with pen.group("output" if j < n else "key"):
            pen.cell(at, y, (width, 28), printed(x), abs(x) / 3.5)
        if j == n - 1:
            pen.mark("rect", "mark", x=at + 1, y=y + 1, width=width - 2, height=28 - 2, rx=3)
        if 0 < n <= j:
            moved = printed(x - before[j])
            sign = "" if moved.startswith("−") else "+"
            pen.text(at + width / 2, y + 50, sign + moved, "s key f")
    if 0 < n < len(row):
        start = left + (n - 0.5) * width
        end = left + len(row) * width - 8
        pen.line([(start, y + 30), (start, y + 36), (end, y + 36)], "key k", corner=4)


def compared(
    pen: Pen, place: Point, y: int, plain: Sequence[float], errors: Sequence[float]
) -> None:
    """The nearest levels below, and both errors."""
    left, width = place
    pen.text(0, y + 24, "nearest", "s l")
    for j, level in enumerate(plain):
        with pen.group("state"):
            pen.cell(left + j * width, y + 5, (width, 28), printed(level), abs(level) / 3.5)
    said = f"squared error: nearest {printed(errors[0])}, GPTQ {printed(errors[1])}"
    pen.text(0, y + 60, said, "s b l")
