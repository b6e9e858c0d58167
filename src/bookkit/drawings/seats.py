"""A table of people with two questions: one is answered by place, the other by name."""

import math
from collections.abc import Sequence

import torch

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

RADIUS, SEAT = 112, 19
CELL = (24, 22)
NAMES = [0, 3, 5, 1, 2, 10, 4, 8, 7, 6, 11, 9]
FRIENDS = [7, 8, 3, 4, 6, 4, 5, 9, 6, 9, 5, 2]
OFFERED = [5, 9, 6, 9, 5, 4, 0, 4, 6, 9, 1, 6]


def two_questions(
    names: Sequence[int] = NAMES,
    friends: Sequence[int] = FRIENDS,
    drinks: Sequence[int] = OFFERED,
    seat: int = 1,
) -> Drawing:
    """Who asks looks to the left by place and for a friend by name; both answers are drinks.

    Every seat has a name, the name of a friend, and a drink from 0 to 9. Two heads bring two
    drinks; one head that looks at both people alike brings the mean of them.
    """
    if not len(names) == len(friends) == len(drinks) == 12 or not 0 <= seat < 12:
        raise ValueError(f"12 seats fit, and one of them asks; got {len(names)} and seat {seat}")
    if friends[seat] not in names or not all(0 <= drink < 10 for drink in drinks):
        raise ValueError(f"a friend is called {friends[seat]}; drinks are 0 to 9, got {drinks}")
    at = {"left": (seat - 1) % 12, "friend": list(names).index(friends[seat])}
    found = {who: drinks[place] for who, place in at.items()}
    desc = (
        f"Twelve people around a table, each with a name and a drink. Seat {seat} asks. One arrow "
        f"goes to its left, to seat {at['left']}, which has drink {found['left']}: found by place. "
        f"Another goes to the person called {friends[seat]}, on seat {at['friend']}, who has drink "
        f"{found['friend']}: found by name. Beside the table stands what comes back. Two heads "
        "bring two drinks, each whole. One head that looks at both brings half of each drink in "
        "one vector, and nothing says whose is whose."
    )
    wide, tall = Pen(720, 330), Pen(360, 596)
    for pen, table, panel in ((wide, (170, 166), (398, 40)), (tall, (180, 166), (16, 362))):
        asking(pen, table, seat, at)
        people(pen, table, names, drinks, seat)
        brought(pen, panel, seat, friends[seat], found)
    return Drawing(wide, tall, "A table with two questions", desc)


def place(table: Point, seat: int, radius: Length = RADIUS) -> Point:
    """Where a seat is: 0 at the top, the others clockwise."""
    angle = math.radians(30 * seat - 90)
    return table[0] + radius * math.cos(angle), table[1] + radius * math.sin(angle)


def asking(pen: Pen, table: Point, seat: int, at: dict[str, int]) -> None:
    """An arrow to each of the two who are looked for."""
    for who, role in (("left", "position"), ("friend", "key")):
        start, end = place(table, seat), place(table, at[who])
        away = SEAT / math.dist(start, end)
        (x, y), (dx, dy) = start, (end[0] - start[0], end[1] - start[1])
        ends = [(x + dx * share, y + dy * share) for share in (away, 1 - away * 1.15)]
        pen.line(ends, f"{role} k")


def people(pen: Pen, table: Point, names: Sequence[int], drinks: Sequence[int], seat: int) -> None:
    """A circle with the name of each, and their drink beside it, further out."""
    pen.text(table[0] - 34, table[1] - 38, "circle: name", "key f s")
    pen.text(table[0] - 34, table[1] - 20, "square: drink", "value f s")
    for n, (name, drink) in enumerate(zip(names, drinks, strict=True)):
        x, y = place(table, n)
        pen.dot(x, y, "ring" if n == seat else "box", SEAT)
        pen.text(x, y + 4.5, str(name), "key f b")
        x, y = place(table, n, RADIUS + 36)
        pen.cells(f"drink{n}", (x - 12, y - 11), [[drink]], "value", CELL, (0, 30), 0)


def brought(pen: Pen, corner: Point, seat: int, friend: int, found: dict[str, int]) -> None:
    """What two heads bring back, and what one does: a share for each drink."""
    x, y = corner
    one_hot = torch.eye(10)
    left, other = one_hot[found["left"]], one_hot[found["friend"]]
    rows = [
        ("head 0, by place: who sits left of me?", "position f s l", left),
        (f"head 1, by name: where is {friend}?", "key f s l", other),
        ("one head for both: half of each", "gradient f s l", (left + other) / 2),
    ]
    pen.text(x, y, f"seat {seat} asks: what do they drink?", "h l")
    for drink in range(10):
        pen.text(x + CELL[0] * (drink + 0.5), y + 26, str(drink), "muted f s")
    for n, (words, look, shares) in enumerate(rows):
        top = y + 36 + 64 * n + 22 * (n > 1)
        pen.cells(f"row{n}", (x, top), [shares.tolist()], "value", CELL, (0, 1), 1)
        pen.text(x, top + 40, words, look)
