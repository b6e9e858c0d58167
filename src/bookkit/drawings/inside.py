"""What is inside the parts of a transformer: three small panels with shapes."""

import torch

from attnbook.norms import layer_norm
from bookkit.drawings.parts import stacked
from bookkit.drawings.pen import Length, Pen, Point, printed

ATTENTION, NETWORK, NORM = (244, 234), (160, 166), (160, 122)  # how large the panels are


def panel(pen: Pen, x: Length, y: Length, size: Point, title: str, role: str) -> None:
    """The ground of a panel and its title."""
    pen.box(x, y, size, f"{role} t", 10)
    pen.text(x + 11, y + 21, title, f"{role} f b l" if size[0] > 200 else f"{role} f s b l")


def attention_inside(pen: Pen, x: Length, y: Length) -> None:
    """Multi-head attention, upwards, for T positions."""
    panel(pen, x, y, ATTENTION, "inside attention", "weight")
    rows = {48: "(T, 512)", 76: "(8, T, 64)", 116: "(8, T, T)", 156: "(8, T, 64)", 222: "(T, 512)"}
    for row, shape in rows.items():
        pen.text(x + 236, y + row + 4, shape, "c e")
    pen.box(x + 40, y + 217, (56, 10), "state f", 2)
    for role, lane, letter in (("query", 28, "Q"), ("key", 68, "K"), ("value", 134, "V")):
        bend = (
            [(68, 217), (68, 207), (lane, 207), (lane, 199)]
            if lane != 68
            else [(68, 217), (68, 199)]
        )
        pen.line([(x + a, y + b) for a, b in bend], "muted k", "", 5)
        pen.box(x + lane - 16, y + 177, (32, 22), f"{role} edge", 5)
        pen.text(x + lane, y + 193, f"W_{letter}", f"{role} f m")
        pen.line([(x + lane, y + 177), (x + lane, y + 166)], f"{role} k", "")
        stacked(pen, x + lane - 12, y + 150, (24, 15), f"{role} edge")
    heads(pen, x, y)


def heads(pen: Pen, x: Length, y: Length) -> None:
    """Scores, weights and output of each head, joined and mapped once more."""
    for role, lane, into in (("query", 28, 40), ("key", 68, 56)):
        way = [(lane, 142), (lane, 137), (into, 137), (into, 131)]
        pen.line([(x + a, y + b) for a, b in way], f"{role} k", "", 4)
    stacked(pen, x + 34, y + 102, (28, 28), "weight edge")
    weights = torch.tensor([[2.0, 0, 0], [1, 2, 0], [0, 1, 2]]).softmax(-1)
    with pen.group("weight"):
        for i, row in enumerate(weights.tolist()):
            for j, weight in enumerate(row):
                left, top, shade = x + 35 + 9 * j, y + 103 + 9 * i, f"--v:{printed(weight)}"
                pen.mark("rect", "v", x=left, y=top, width=8, height=8, style=shade)
    pen.text(x + 74, y + 120, "softmax", "s l")
    pen.line([(x + 48, y + 94), (x + 48, y + 86)], "weight k", "")
    stacked(pen, x + 36, y + 70, (24, 15), "output edge")
    pen.line([(x + 134, y + 142), (x + 134, y + 76), (x + 72, y + 76)], "value k")
    pen.line([(x + 48, y + 62), (x + 48, y + 57)], "output k", "")
    pen.box(x + 32, y + 35, (32, 22), "output edge", 5)
    pen.text(x + 48, y + 51, "W_O", "output f m")
    pen.line([(x + 64, y + 46), (x + 112, y + 46)], "output k")


def network_inside(pen: Pen, x: Length, y: Length) -> None:
    """The feed-forward network of one position, upwards."""
    panel(pen, x, y, NETWORK, "inside the network", "muted")
    middle = x + 68
    for low, high, bottom, top, words in ((13, 52, 142, 111, "W_1"), (52, 13, 82, 51, "W_2")):
        sides = f"M{middle - low:g} {y + bottom:g}L{middle + low:g} {y + bottom:g}"
        sides += f"L{middle + high:g} {y + top:g}L{middle - high:g} {y + top:g}z"
        pen.mark("path", "box", d=sides)
        pen.text(middle, y + (bottom + top) / 2 + 6, words, "m")
    for row in (146, 36):
        pen.box(middle - 13, y + row, (26, 10), "state f", 2)
    pen.text(middle, y + 101, "ReLU", "s")
    for row, shape in ((155, "(T, 512)"), (101, "2,048"), (45, "(T, 512)")):
        pen.text(x + 152, y + row, shape, "c e")


def norm_inside(pen: Pen, x: Length, y: Length) -> None:
    """Add and norm of one vector, that of the chapter's first token."""
    panel(pen, x, y, NORM, "add, then norm", "muted")
    total = torch.tensor([1.15, -0.23, 2.6, -0.24])
    normed = layer_norm(total, torch.ones(4), torch.zeros(4), eps=1e-5)
    for left, vector, words in ((20, total, "x + part(x)"), (104, normed, "norm")):
        base = y + 80
        for c, size in enumerate(vector.tolist()):
            height = round(14 * abs(size))
            pen.box(
                x + left + 12 * c, base - height if size > 0 else base, (9, height), "state f", 1
            )
        pen.mark("path", "hair", d=f"M{x + left - 4:g} {base:g}h54")
        pen.text(x + left + 22, y + 111, words, "s")
    pen.line([(x + 73, y + 80), (x + 95, y + 80)])
