"""Where a scheme of positions enters attention: three doors, and one where nothing enters."""

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen

SCHEMES = (
    ("added to x", "sines, learned table"),
    ("turns q and k", "rotary"),
    ("added to the scores", "ALiBi, learned bias"),
)


def where_positions() -> Drawing:
    """One attention with the three places at which it can be told where a token stands."""
    desc = (
        "The way through one attention: the vectors x become queries, keys and values; queries and "
        "keys meet in scores, a softmax makes weights of them, and the weights mix the values to "
        "the output y. Positions can enter at three places: sines and learned tables are added to "
        "x; rotary positions turn queries and keys; ALiBi and a learned bias are added to the "
        "scores. The values are never turned."
    )
    wide, tall = Pen(720, 236), Pen(360, 470)
    across(wide)
    down(tall)
    return Drawing(wide, tall, "Three doors for positions", desc)


def door(pen: Pen, x: Length, y: Length, n: int) -> None:
    """The name of a door and the schemes that use it."""
    where, who = SCHEMES[n]
    pen.text(x, y, where, "b position f")
    pen.text(x, y + 17, who, "s muted f")


def across(pen: Pen) -> None:
    """From left to right."""
    lanes = {"q": (92, "query"), "k": (140, "key"), "v": (200, "value")}
    door(pen, 90, 18, 0)
    door(pen, 268, 18, 1)
    door(pen, 452, 18, 2)
    pen.text(12, 145, "x", "m")
    pen.line([(22, 140), (80, 140)])
    pen.plus(90, 140)
    pen.line([(90, 44), (90, 129)], "position k")
    for name, (y, role) in lanes.items():
        pen.line(
            [(100, 140), (130, 140), (130, y), (160, y)] if y != 140 else [(100, 140), (160, 140)]
        )
        pen.box(162, y - 14, (32, 28), f"{role} t", 3)
        pen.text(178, y + 5, name, f"{role} f m")
    for name in "qk":
        y, role = lanes[name]
        pen.line([(196, y), (232, y)], f"{role} k")
        pen.pill(268, y, "turn", (68, 24))
        pen.line([(304, y), (336, y)], f"{role} k")
    pen.line([(268, 44), (268, 78)], "position k")
    pen.line([(268, 106), (268, 126)], "position k")
    pen.box(338, 80, (66, 72), "box", 4)
    pen.text(371, 121, "scores")
    pen.line([(406, 116), (442, 116)], "weight k")
    pen.plus(452, 116)
    pen.line([(452, 44), (452, 105)], "position k")
    pen.line([(463, 116), (496, 116)], "weight k")
    pen.pill(534, 116, "softmax", (72, 26))
    pen.line([(572, 116), (614, 116)], "weight k")
    pen.box(616, 98, (44, 116), "box", 4)
    pen.text(638, 161, "mix")
    pen.line([(196, 200), (614, 200)], "value k")
    pen.text(405, 222, "nothing says a position here", "s muted f")
    pen.line([(662, 156), (694, 156)], "output k")
    pen.text(706, 161, "y", "output f m")


def down(pen: Pen) -> None:
    """From top to bottom, for a phone."""
    lanes = {"q": (40, "query"), "k": (100, "key"), "v": (160, "value")}
    door(pen, 270, 62, 0)
    door(pen, 270, 182, 1)
    door(pen, 270, 304, 2)
    pen.text(100, 16, "x", "m")
    pen.line([(100, 22), (100, 54)])
    pen.plus(100, 64)
    pen.line([(196, 64), (112, 64)], "position k")
    for name, (x, role) in lanes.items():
        way = [(100, 75), (100, 92), (x, 92), (x, 112)] if x != 100 else [(100, 75), (100, 112)]
        pen.line(way)
        pen.box(x - 16, 114, (32, 28), f"{role} t", 3)
        pen.text(x, 133, name, f"{role} f m")
    for name in "qk":
        x, role = lanes[name]
        pen.line([(x, 144), (x, 172)], f"{role} k")
        pen.pill(x, 186, "turn", (48, 24))
        pen.line([(x, 200), (x, 236)], f"{role} k")
    pen.line([(212, 186), (178, 186)], "position k", "")
    pen.line([(146, 186), (126, 186)], "position k")
    pen.box(28, 238, (84, 32), "box", 4)
    pen.text(70, 259, "scores")
    pen.line([(70, 272), (70, 296)], "weight k")
    pen.plus(70, 306)
    pen.line([(188, 306), (168, 306)], "position k", "")
    pen.line([(152, 306), (82, 306)], "position k")
    pen.line([(70, 317), (70, 340)], "weight k")
    pen.pill(70, 354, "softmax", (72, 26))
    pen.line([(70, 368), (70, 396)], "weight k")
    pen.box(46, 398, (130, 30), "box", 4)
    pen.text(111, 418, "mix")
    pen.line([(160, 144), (160, 396)], "value k")
    pen.text(172, 382, "nothing says a position here", "s muted f l")
    pen.line([(111, 430), (111, 450)], "output k")
    pen.text(111, 466, "y", "output f m")
