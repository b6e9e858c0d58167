"""Who asks whom: cross-attention and self-attention as shapes, to one scale."""

import math

import torch

from attnbook.attention import attend
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

UNIT = 7  # of one number
LANES = {"q": 72, "k": 170, "v": 268}  # how far down queries, keys and values lie
Shape = tuple[int, int]


def who_asks(
    asks: Shape = (2, 3), asked: Shape = (5, 7), maps: Shape = (4, 6), alone: Shape = (6, 8)
) -> Drawing:
    """The same arithmetic twice; only where queries and keys come from differs.

    Left a sequence of shape `asks` asks another, `asked`; `maps` are the widths of the keys and of
    the values. Right a sequence of shape `alone` asks itself, through one fused matrix. One
    number is one small square, everywhere.
    """
    if max(*asks, *asked, *maps, *alone) > 8:
        raise ValueError(f"lengths up to 8 fit; got {asks}, {asked}, {maps}, {alone}")
    D, Dv = maps
    cross = {"x": asks, "m": asked, "q": (asks[0], D), "k": (asked[0], D), "v": (asked[0], Dv)}
    cross |= {"wq": (D, asks[1]), "wk": (D, asked[1]), "wv": (Dv, asked[1])}
    own = dict.fromkeys(("x", "q", "k", "v"), alone) | {"w": (3 * alone[1], alone[1])}
    for shapes in (cross, own):
        q, k, v = (torch.zeros(shapes[name]) for name in "qkv")
        output, weights = attend(q, k, v)
        for name, (rows, columns) in (("a", weights.shape), ("y", output.shape)):
            shapes[name] = rows, columns
    desc = (
        f"Left, cross-attention: a sequence X of shape {asks} is mapped to queries, another, M, of "
        f"shape {asked}, to keys and values; the weights have shape {cross['a']}, the output "
        f"{cross['y']}: as many rows as X, as wide as the values. Right, self-attention: one "
        f"sequence of shape {alone} goes through one fused matrix of shape {own['w']}, in three "
        "stripes, and is queries, keys and values at once; the output has the shape of the input."
    )
    wide, tall = Pen(720, 318), Pen(360, 652)
    for pen, x, y in ((wide, 372, 0), (tall, 6, 334)):
        crossing(pen, (0, 0), cross)
        itself(pen, (x, y), own)
    return Drawing(wide, tall, "Cross-attention and self-attention, as shapes", desc)


def grid(pen: Pen, x: Length, middle: Length, shape: Shape, name: str, role: str) -> Point:
    """A table of squares without numbers, its name above and its shape below."""
    rows, columns = shape
    y = middle - rows * UNIT / 2
    pen.box(x, y, (columns * UNIT, rows * UNIT), f"{role} t", 0)
    lines = "".join(f"M{x + c * UNIT:g} {y:g}v{rows * UNIT}" for c in range(columns + 1))
    lines += "".join(f"M{x:g} {y + r * UNIT:g}h{columns * UNIT}" for r in range(rows + 1))
    pen.mark("path", f"{role} k thin", d=lines)
    center = x + columns * UNIT / 2
    if name:
        pen.text(center, y - 7, name, f"{role} f m")
        pen.text(center, y + rows * UNIT + 15, f"({rows}, {columns})", "c")
    return x + columns * UNIT, middle


def lookups(pen: Pen, x: Length, y: Length, shapes: dict[str, Shape]) -> None:
    """Queries, keys and values, and what they make of each other: K is met by Q, then V by A."""
    lane = {name: y + down for name, down in LANES.items()}
    center = x + 118
    ends = {}
    for name, role in (("q", "query"), ("k", "key"), ("v", "value")):
        ends[name] = grid(pen, x, lane[name], shapes[name], name.upper(), role)[0] + 4
    for name, row, role in (("a", "k", "weight"), ("y", "v", "output")):
        left = center - shapes[name][1] * UNIT / 2
        grid(pen, left, lane[row], shapes[name], name.upper(), role)
        pen.line(
            [(ends[row], lane[row]), (left - 3, lane[row])], f"{'key' if row == 'k' else 'value'} k"
        )
    half_a, half_y = shapes["a"][0] * UNIT / 2, shapes["y"][0] * UNIT / 2
    pen.line(
        [(ends["q"], lane["q"]), (center, lane["q"]), (center, lane["k"] - half_a - 23)], "query k"
    )
    pen.line([(center, lane["k"] + half_a + 21), (center, lane["v"] - half_y - 23)], "weight k")


def crossing(pen: Pen, place: Point, shapes: dict[str, Shape]) -> None:
    """One sequence asks another."""
    x, y = place
    pen.text(x, y + 18, "cross-attention", "h l")
    pen.text(x + 136, y + 18, "X asks M", "s muted f l")
    ask = grid(pen, x + 14, y + LANES["q"], shapes["x"], "X", "ink")[0] + 4
    asked = grid(pen, x + 2, y + 219, shapes["m"], "M", "ink")[0] + 4
    pen.line([(ask, y + LANES["q"]), (x + 84, y + LANES["q"])])
    for name, role in (("q", "query"), ("k", "key"), ("v", "value")):
        lane = y + LANES[name]
        end = grid(pen, x + 88, lane, shapes[f"w{name}"], f"W_{name.upper()}", role)[0] + 4
        pen.line([(end, lane), (x + 166, lane)], f"{role} k")
        if name != "q":
            pen.line([(asked, y + 219), (asked + 12, y + 219), (asked + 12, lane), (x + 84, lane)])
    lookups(pen, x + 170, y, shapes)


def itself(pen: Pen, place: Point, shapes: dict[str, Shape]) -> None:
    """One sequence asks itself; three maps in one."""
    x, y = place
    middle, width = y + LANES["k"], shapes["x"][1]
    pen.text(x, y + 18, "self-attention", "h l")
    pen.text(x + 126, y + 18, "X asks X", "s muted f l")
    end = grid(pen, x, middle, shapes["x"], "X", "ink")[0] + 4
    pen.line([(end, middle), (x + 80, middle)])
    for number, (name, role) in enumerate((("q", "query"), ("k", "key"), ("v", "value"))):
        stripe, lane = middle + (number - 1) * width * UNIT, y + LANES[name]
        right = grid(pen, x + 84, stripe, (width, width), "", role)[0] + 4
        way = [(right, stripe), (right + 9, stripe), (right + 9, lane), (x + 166, lane)]
        pen.line(way if name != "k" else [way[0], way[-1]], f"{role} k")
    pen.text(x + 84 + width * UNIT / 2, middle + 1.5 * width * UNIT + 18, "one matrix", "s")
    pen.text(x + 84 + width * UNIT / 2, middle + 1.5 * width * UNIT + 34, str(shapes["w"]), "c")
    lookups(pen, x + 170, y, shapes)


def ring(order: str = "ADBFCE") -> Drawing:
    """Six people, each of whom asks the next in `order`; and what one map for all would make of it.

    With the same vector as query and key the scores are symmetric: who looks at me is whom I
    look at.
    """
    if len(set(order)) != len(order) or not 3 <= len(order) <= 8:
        raise ValueError(f"3 to 8 different names fit on a ring; got {order!r}")
    chain = ", ".join(f"{a} asks {b}" for a, b in zip(order, order[1:] + order[0], strict=True))
    desc = (
        f"{len(order)} people stand in a circle. Left, an arrow leads from each to the one that is "
        f"asked: {chain}. Right, the same pairs when one map makes queries and keys: the score of "
        "two people is the same both ways, so every arrow has two heads, and nobody can ask "
        "somebody without being asked."
    )
    wide, tall = Pen(720, 264), Pen(360, 528)
    for pen, x, y in ((wide, 360, 0), (tall, 0, 264)):
        people(pen, (180, 120), order, False)
        people(pen, (x + 180, y + 120), order, True)
    return Drawing(wide, tall, "A ring of questions, and its mutual shadow", desc)


def people(pen: Pen, center: Point, order: str, mutual: bool) -> None:
    """Names on a circle, in the order of the alphabet, and arrows in the order of the ring."""
    names, (x, y) = sorted(order), center
    turn = 2 * math.pi / len(names)
    at = {
        name: (x + 92 * math.sin(n * turn), y - 92 * math.cos(n * turn))
        for n, name in enumerate(names)
    }
    for one, other in zip(order, order[1:] + order[0], strict=True):
        start, end = (near(at[a], at[b], 19) for a, b in ((one, other), (other, one)))
        pen.line([start, end], "query k")
        if mutual:
            pen.line([end, start], "query k")
    for name, (a, b) in at.items():
        pen.dot(a, b, "query edge", 15)
        pen.text(a, b + 5, name, "b")
    words = "one map for both: mutual" if mutual else "query and key: a ring"
    pen.text(x, y + 136, words, "query f b")


def near(start: Point, end: Point, gap: Length) -> Point:
    """A point on the way from start to end, a little off the start."""
    share = gap / math.dist(start, end)
    (x, y), (to_x, to_y) = start, end
    return x + (to_x - x) * share, y + (to_y - y) * share
