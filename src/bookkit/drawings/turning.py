"""Rotary positions: hands that turn with the position, and the angle between two of them."""

import math
from collections.abc import Sequence

import torch

from attnbook.positions import Rotary, frequencies
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

RADIUS = 56  # of the two large dials


class Hands:
    """One query and one key that point right at position 0, and how the module turns them."""

    def __init__(self, D: int, places: Sequence[int], shift: int):
        self.D, self.half, self.places, self.shift = D, D // 2, tuple(places), shift
        self.speeds = frequencies(D).tolist()
        rotary, one = Rotary(D), torch.zeros(1, D, dtype=torch.float)
        one[0, 0] = 1.0

        def turned(place: int) -> torch.Tensor:
            return rotary(one, place)[0]

        self.tips = [[turned(p + more) for p in self.places] for more in (0, shift)]
        self.scores = [(q @ k).item() for q, k in self.tips]

    def angle(self, hand: int, place: int) -> float:
        """Of one hand at a position, in radians."""
        return self.speeds[hand] * place


def turning_hands(D: int = 8, places: Sequence[int] = (1, 3), shift: int = 4) -> Drawing:
    """Why turning q and k leaves only the distance, and how the D/2 hands differ in speed.

    Above the fastest pair: a query and a key of the same content at two `places`, and both moved
    on by `shift`. Below the hands of all pairs at positions 0 to 6.
    """
    if D % 2 or not 4 <= D <= 8 or len(places) != 2:
        raise ValueError(f"D is 4, 6 or 8 and places are two; got D = {D} and {tuple(places)}")
    it = Hands(D, places, shift)
    a, b = it.places
    apart = b - a
    slow = 2 * math.pi / it.speeds[-1]
    desc = (
        f"Two dials. On the first a query at position {a} is turned by {a} radians and a key at "
        f"position {b} by {b}; the angle between them is {apart} and the score "
        f"{printed(it.scores[0])}. On the second both stand {shift} positions later: both are "
        f"turned further, the angle and the score are the same. Below, the {it.half} hands of a "
        f"vector of {D} numbers at positions 0 to 6: the first turns by 1 radian a position, the "
        f"last needs {slow:,.0f} positions for one turn and seems to stand still."
    )
    wide, tall = Pen(720, 236 + 46 * it.half), Pen(360, 236 + 42 * it.half)
    for pen, left, step in ((wide, 178, 360), (tall, 92, 176)):
        for n in range(2):
            dial(pen, it, n, (left + n * step, 84))
    hands(wide, it, (150, 258), 60, 17)
    hands(tall, it, (86, 258), 32, 14)
    return Drawing(wide, tall, "Turning hands: rotary positions", desc)


def tip(center: Point, radius: Length, angle: float) -> Point:
    """Where a hand ends; angles run against the clock, as in mathematics."""
    return center[0] + radius * math.cos(angle), center[1] - radius * math.sin(angle)


def dial(pen: Pen, it: Hands, n: int, center: Point) -> None:
    """Query and key on one dial, the angle between them, and their score."""
    places = [p + n * it.shift for p in it.places]
    (x, y), start = center, it.angle(0, places[0])
    pen.dot(x, y, "hair", RADIUS)
    wedge = [
        tip(center, 22, start + t * it.angle(0, places[1] - places[0]) / 12) for t in range(13)
    ]
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in wedge)
    pen.mark("path", "position k", d=f"M{path}")
    pen.line([center, tip(center, 36, start + it.angle(0, places[1] - places[0]) / 2)], "hair", "")
    for place, name, role in zip(places, "qk", ("query", "key"), strict=True):
        pen.line([center, tip(center, RADIUS, it.angle(0, place))], f"{role} k")
        a, b = tip(center, RADIUS + 14, it.angle(0, place))
        pen.text(a, b + 5, name, f"{role} f m")
    pen.text(x, y + 92, f"q at {places[0]}, k at {places[1]}", "b")
    apart = places[1] - places[0]
    pen.text(x, y + 110, f"angle {apart}, score {printed(it.scores[n])}", "s position f")


def hands(pen: Pen, it: Hands, place: Point, step: Length, radius: Length) -> None:
    """All hands at positions 0 to 6, a row each, with the length of one turn."""
    (x, y), high = place, 2 * radius + 12
    for p in range(7):
        pen.text(x + p * step, y - radius - 8, str(p), "s position f")
    pen.text(x - radius - 12, y - radius - 8, "position", "s position f e")
    pen.text(x + 6 * step + radius + 8, y - radius - 8, "one turn", "s muted f l")
    for i, speed in enumerate(it.speeds):
        row = y + i * high
        pen.text(x - radius - 12, row + 4, f"ω = {speed:.3g}".replace("0.", "."), "s e")
        for p in range(7):
            center = (x + p * step, row)
            pen.dot(*center, "hair", radius)
            pen.line([center, tip(center, radius, it.angle(i, p))], "position k", "")
        pen.text(x + 6 * step + radius + 8, row + 4, f"{2 * math.pi / speed:,.0f}", "s muted f l")
