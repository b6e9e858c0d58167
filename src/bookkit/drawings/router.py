"""A router: which experts a token goes to, with which shares, and what that leaves idle."""

import torch
from jaxtyping import Float
from torch import Tensor

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

CELL: Point = (38, 28)
GAP = 12


def router(logits: Float[Tensor, "N 4"], active: int = 2) -> Drawing:
    """Each token's numbers, the shares of the experts it goes to, and how many tokens each gets.

    Shazeer et al. 2017, section 2.1; Jiang et al. 2024, section 2.1.
    """
    if not 1 <= active <= 4 or not 1 <= len(logits) <= 4:
        raise ValueError(f"up to 4 tokens and experts fit; got {len(logits)} tokens, {active} each")
    best, chosen = logits.topk(active)
    shares = torch.zeros_like(logits).scatter(1, chosen, best.softmax(-1))
    load = [int(n) for n in (shares > 0).sum(0)]
    said = "; ".join(f"token {n + 1}: {formula(row)}" for n, row in enumerate(shares.tolist()))
    desc = (
        f"A table with a row for each of {len(logits)} tokens and a column for each of four "
        f"experts holds the router's numbers. An arrow leads to a second table: of each row the "
        f"{active} largest numbers are left and turned into shares by a softmax, the other cells "
        f"are hatched and their experts do not work on this token. {said}. Below, how many tokens "
        f"each expert gets: {', '.join(map(str, load))}; a fair share would be "
        f"{printed(active * len(logits) / 4, 1)}."
    )
    high = 40 * len(logits)
    wide, tall = Pen(720, high + 112), Pen(360, 2 * high + 196)
    tables(wide, (72, 66), (322, 66), logits, shares)
    tables(tall, (84, 66), (84, high + 158), logits, shares)
    wide.line([(236, 66 + high / 2), (310, 66 + high / 2)])
    wide.text(273, 56 + high / 2, f"best {active},", "s")
    wide.text(273, 86 + high / 2, "softmax", "s")
    tall.line([(160, high + 66), (160, high + 112)])
    tall.text(170, high + 92, f"best {active}, softmax", "s l")
    return Drawing(wide, tall, "A router and four experts", desc)


def formula(shares: list[float]) -> str:
    """A token's answer: `.73 f₁ + .27 f₂`."""
    ordered = sorted(enumerate(shares), key=lambda pair: -pair[1])
    return " + ".join(f"{printed(s)} f_{e + 1}" for e, s in ordered if s > 0)


def tables(pen: Pen, left: Point, right: Point, logits: Tensor, shares: Tensor) -> None:
    """The router's numbers at `left`, the shares with the answers and the loads at `right`."""
    heads(pen, left, "the router's numbers")
    heads(pen, right, "shares")
    before = "y = " if pen.width > 400 else ""
    if not before:
        pen.text(right[0] + 4 * CELL[0] + 10, right[1] - 12, "y", "s b l")
    for n, (numbers, row) in enumerate(zip(logits.tolist(), shares.tolist(), strict=True)):
        down = n * 40
        for (x, y), first in ((left, True), (right, False)):
            if first or pen.width < 400:
                pen.text(x - 10, y + down + 19, f"token {n + 1}", "s e")
        name = f"logits{n}"
        pen.cells(name, (left[0], left[1] + down), [numbers], "key", CELL, (0, 4), 0)
        for e, share in enumerate(row):
            place = (right[0] + e * CELL[0], right[1] + down)
            if share > 0:
                pen.cells(f"share{n}{e}", place, [[share]], "weight", CELL)
            else:
                pen.hatch(place[0] + 1, place[1] + 1, (CELL[0] - 2, CELL[1] - 2))
        pen.text(right[0] + 4 * CELL[0] + 10, right[1] + down + 19, before + formula(row), "s l")
    loads(pen, (right[0], right[1] + 40 * len(logits)), shares)


def heads(pen: Pen, place: Point, title: str) -> None:
    """The title and the names of the experts."""
    x, y = place
    pen.text(x, y - 44, title, "h l")
    pen.text(x - 10, y - 12, "expert", "s muted f e")
    for e in range(4):
        pen.text(x + (e + 0.5) * CELL[0], y - 12, f"{e + 1}", "s b")


def loads(pen: Pen, place: Point, shares: Tensor) -> None:
    """How many tokens each expert works on."""
    x, y = place
    count: list[Length] = [int(n) for n in (shares > 0).sum(0)]
    pen.cells("load", (x, y + 4), [count], "muted", CELL, (0, 2 * max(count)), 0)
    pen.text(x - 10, y + 23, "tokens", "s e")
    pen.text(x + 4 * CELL[0] + 10, y + 23, f"fair: {printed(sum(count) / 4, 1)}", "s l")
