"""Heads: a table is cut into stripes, each attends by itself, and the stripes are joined."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from attnbook.attention import attend
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point

CELL = (28, 22)
ROLES = ("output", "position")  # a stripe keeps its colour until it is joined
WIDE = {"x": (0, 92), "x0": (224, 44), "x1": (224, 158), "a0": (362, 44), "a1": (362, 158)}
WIDE |= {"y": (552, 92), "w0": (224, 274), "w1": (362, 274)}
TALL = {"x": (96, 24), "x0": (32, 152), "x1": (244, 152), "a0": (32, 264), "a1": (244, 264)}
TALL |= {"y": (96, 386), "w0": (32, 528), "w1": (244, 528)}


def split_attend_join(x: Float[Tensor, "T C"]) -> Drawing:
    """Each of two heads gets half of every row, not half of the rows.

    `x` has three tokens of six numbers. In each head a tenth of its stripe serves as query and
    key, the stripe itself as value. Vaswani et al. 2017, section 3.2.2.
    """
    if tuple(x.shape) != (3, 6):
        raise ValueError(f"a table of 3 rows and 6 columns fits; got {tuple(x.shape)}")
    desc = (
        "What x becomes by one product: three rows and six columns, its left half in one colour, "
        "its right half in another. It is cut down the middle: two cards of three rows and three "
        "columns, one for each head. Each head has a map of its own, three by three weights. What "
        "the heads found is joined side by side to three rows of six again. Below stands what a "
        "reshape alone would give: it fills the cards row by row, so that a head gets one and a "
        "half tokens."
    )
    wide, tall = Pen(720, 344), Pen(360, 606)
    for pen, places in ((wide, WIDE), (tall, TALL)):
        tables(pen, x, places)
        arrows(pen, places)
        wrong(pen, x, places)
    return Drawing(wide, tall, "Split, attend, join: what heads do to a table", desc)


def tables(pen: Pen, x: Tensor, places: Mapping[str, Point]) -> None:
    """The table, its stripes, their maps, and what is joined."""
    top = float(x.max())
    for n, stripe in enumerate(x.chunk(2, -1)):
        output, weights = attend(stripe / 10, stripe / 10, stripe)
        for name, numbers, digits in (("x", stripe, 0), ("y", output, 0)):
            at = places[name][0] + 3 * CELL[0] * n, places[name][1]
            pen.cells(f"{name}{n}", at, numbers.tolist(), ROLES[n], CELL, (0, top), digits)
        own, of = places[f"x{n}"], places[f"a{n}"]
        pen.cells(f"head{n}", own, stripe.tolist(), ROLES[n], CELL, (0, top), 0)
        pen.cells(f"weights{n}", of, weights.tolist(), "weight", CELL)
        for (a, b), words, role in ((own, f"head {n}", ROLES[n]), (of, "its map", "weight")):
            pen.text(a + 42, b - 8, words, f"{role} f b")
    for name, words in (("x", "x W (3, 6)"), ("y", "joined (3, 6)")):
        pen.text(places[name][0] + 84, places[name][1] - 8, words, "b")


def arrows(pen: Pen, places: Mapping[str, Point]) -> None:
    """From the table to the stripes, to their maps, to what is joined."""
    for n, role in enumerate(ROLES):
        (a, b), (c, d), (e, f), (g, h) = (places[name] for name in ("x", f"x{n}", f"a{n}", "y"))
        if pen.width > 500:
            b, d, f, h = (y + 33 for y in (b, d, f, h))
            ways = [[(a + 172, b), (a + 196, b), (a + 196, d), (c - 4, d)]]
            ways += [[(c + 88, d), (e - 4, d)]]
            ways += [[(e + 88, f), (g - 28, f), (g - 28, h), (g - 4, h)]]
        else:
            a, c = a + 42 + 84 * n, c + 42
            ways = [[(a, b + 70), (a, b + 84), (c, b + 84), (c, d - 24)]]
            ways += [[(c, d + 70), (c, f - 24)]]
            ways += [[(c, f + 70), (c, f + 84), (a, f + 84), (a, h - 24)]]
        for way in ways:
            pen.line(way, f"{role} k")


def wrong(pen: Pen, x: Tensor, places: Mapping[str, Point]) -> None:
    """What a reshape without a transpose makes of the same table."""
    a, b = places["w0"]
    across = pen.width > 500
    if across:
        pen.text(a - 24, b + 28, "wrong: a reshape alone,", "gradient f s b e")
        pen.text(a - 24, b + 45, "rows cut into halves", "gradient f s e")
    else:
        pen.text(180, b - 30, "wrong: a reshape alone, rows cut into halves", "gradient f s b")
    top = float(x.max())
    for n, card in enumerate(x.reshape(2, 3, 3)):
        place = places[f"w{n}"]
        for row, numbers in enumerate(card.tolist()):
            half = (3 * n + row) % 2  # of the row of x that this one was
            at = place[0], place[1] + row * CELL[1]
            pen.cells(f"wrong{n}{row}", at, [numbers], ROLES[half], CELL, (0, top), 0)
        pen.text(place[0] + 42, place[1] - 8, f"head {n}", "muted f s")
        pen.box(place[0] - 3, place[1] - 3, (90, 72), "gradient k", 3)
