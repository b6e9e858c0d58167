"""More features than dimensions: directions in a plane, and what one reads along one of them."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

NAMES = "ABCDEFG"


def evenly(count: int) -> Float[Tensor, "F 2"]:
    """So many unit vectors, all around."""
    turn = 2 * math.pi * torch.arange(count, dtype=torch.float) / count
    return torch.stack([turn.sin(), turn.cos()], 1)


def superposition(count: int = 5) -> Drawing:
    """Two features have two directions at right angles; `count`, 3 to 7, have to share the plane.

    The table says what is read along the first one, the dot product with each of the others, and
    what a bias and a ReLU leave of it. Elhage et al. 2022, "Toy models of superposition".
    """
    if not 3 <= count <= len(NAMES):
        raise ValueError(f"3 to {len(NAMES)} features share the plane; got {count}")
    directions = evenly(count)
    read = directions @ directions[0]
    bias = read[1:].max().clamp(min=0)
    left = (read - bias).relu()
    desc = (
        f"Two planes. In the first, two arrows at right angles: what is read along one says "
        f"nothing of the other. In the second, {count} arrows, {360 // count} degrees apart. A "
        f"table says what is read along A if one feature alone is active: "
        f"{', '.join(f'{n} {printed(float(x))}' for n, x in zip(NAMES, read, strict=False))}. "
        f"Less {printed(float(bias))} and cut off at zero, only A is left, with "
        f"{printed(float(left[0]))}."
    )
    pens = Pen(720, 196), Pen(360, 330)
    for pen, centres, table in zip(
        pens, (((90, 84), (270, 84)), ((92, 84), (268, 84))), ((436, 66), (96, 230)), strict=True
    ):
        plane(pen, centres[0], torch.eye(2).flip(0), "2 features: right angles")
        plane(pen, centres[1], directions, f"{count} features: {360 // count}° apart")
        cells(pen, table, read, left)
    return Drawing(*pens, "More features than dimensions", desc)


def plane(pen: Pen, centre: Point, directions: Float[Tensor, "F 2"], words: str) -> None:
    """Arrows from the middle, each with its letter at the tip."""
    x, y = centre
    for letter, (right, up) in zip(NAMES, directions.tolist(), strict=False):
        pen.line([centre, (x + 54 * right, y - 54 * up)], "state k")
        pen.text(x + 68 * right, y - 68 * up + 5, letter, "s b")
    pen.text(x, y + 100, words, "s")


def cells(
    pen: Pen, place: Point, read: Float[Tensor, " F"], left: Float[Tensor, " F"], wide: Length = 36
) -> None:
    """What is read along A, and what is left of it."""
    x, y = place
    pen.text(x - 6, y - 30, "read along A, if this one alone is active:", "s l")
    for n, letter in enumerate(NAMES[: len(read)]):
        pen.text(x + (n + 0.5) * wide, y - 8, letter, "s b")
    pen.text(x - 8, y + 17, "as it is", "s e")
    pen.text(x - 8, y + 51, "bias, ReLU", "s e")
    pen.cells("read", (x, y), [read.tolist()], "value", (wide, 26))
    pen.cells("left", (x, y + 34), [left.tolist()], "output", (wide, 26))
