"""How long the directions of a gradient are, and of the first steps of Adam and Muon."""

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.train.optimizers import orthogonalise
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point

WIDTH, HEIGHT, LOW = 200, 118, 36


def relative(matrix: Float[Tensor, "R C"]) -> Float[Tensor, " n"]:
    """Singular values, the largest first, over their root mean square."""
    values = torch.linalg.svdvals(matrix)
    return values / values.square().mean().sqrt()


def half(values: Float[Tensor, " n"]) -> int:
    """How many of the strongest directions it takes for half of the squared length."""
    return int((values.square().cumsum(0) < values.square().sum() / 2).sum()) + 1


def step_directions(gradient: Float[Tensor, "R C"]) -> Drawing:
    """The singular values of a gradient, of Adam's first step and of Muon's.

    Adam's first step is the gradient's signs (Kingma and Ba 2015, algorithm 1 with t = 1), Muon's
    the gradient after five rounds (Jordan et al. 2024). Each over its root mean square.
    """
    panels = {
        "gradient": relative(gradient),
        "Adam's first step": relative(gradient.sign()),
        "Muon's first step": relative(orthogonalise(gradient)),
    }
    count = min(gradient.shape)
    if count < 8:
        raise ValueError(f"a matrix with at least 8 directions fits; got {tuple(gradient.shape)}")
    found = "; ".join(
        f"{name}: the strongest is {values[0]:.1f} times the root mean square, and "
        f"{half(values)} directions hold half of the squared length"
        for name, values in panels.items()
    )
    desc = (
        f"Three profiles of {count} singular values, the largest first, each over their root mean "
        f"square, so that all three have the same length in all. {found}. The first two fall "
        "steeply, the third stays near 1 almost to its end."
    )
    top = max(float(values[0]) for values in panels.values())
    rooms = [max(round(HEIGHT * float(v[0]) / top), LOW) for v in panels.values()]
    wide, tall, y = Pen(720, 196), Pen(360, sum(rooms) + 100 * len(rooms) - 22), 0
    for n, ((name, values), room) in enumerate(zip(panels.items(), rooms, strict=True)):
        profile(wide, (30 + 238 * n, 0), WIDTH, name, values, top, HEIGHT)
        profile(tall, (30, y), 310, name, values, top, room)  # no higher than its bars
        y += room + 100
    return Drawing(wide, tall, "Directions of a gradient and of two steps", desc)


def profile(
    pen: Pen,
    place: Point,
    width: int,
    name: str,
    values: Float[Tensor, " n"],
    top: float,
    room: int,
) -> None:
    """One matrix: strong directions that hold half are dark, all others pale."""
    (x, y), floor = place, place[1] + 30 + room
    count, strong = len(values), half(values)
    role = "output" if name.startswith("Muon") else "gradient" if name == "gradient" else "query"
    pen.text(x + width / 2, y + 16, name, "b")
    heights = [round(HEIGHT * float(v) / top) for v in values]
    for look, first, last in ((f"{role} f", 0, strong), (f"{role} v bare", strong, count)):
        path = f"M{x + width * first / count:.1f} {floor}"
        for n in range(first, last):
            path += f"V{floor - heights[n]}H{x + width * (n + 1) / count:.1f}"
        pen.mark("path", look, d=f"{path}V{floor}z", style="--v:.4" if "v" in look.split() else "")
    one = floor - round(HEIGHT / top)
    pen.mark("path", "hair", d=f"M{x} {floor}h{width}")
    pen.mark("path", "tie", d=f"M{x} {one}h{width}")
    pen.text(x - 6, one + 4, "1", "s muted f e")
    pen.text(x + 9, min(floor - heights[0] + 10, one - 6), f"{values[0]:.1f}", f"{role} f s l")
    pen.text(x, floor + 17, "1st", "s muted f l")
    pen.text(x + width, floor + 17, f"{count}th direction", "s muted f e")
    pen.text(x + width / 2, floor + 40, f"half in {strong} of {count}", f"{role} f s b")
    pen.tables[name] = [[f"{values[0]:.1f}", str(strong)]]
