"""How far it is from the first position to the last: four layers that read, step by step."""

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point

T, K = 9, 3  # positions, and taps of a convolution
APART, RISE = 15, 34
# name: how far apart the taps stand in each layer, the first layer first; its length in general
STACKS: dict[str, tuple[list[int], str]] = {
    "kernel of 3": ([1, 1, 1, 1], "(T − 1)/(k − 1)"),
    "dilated, 3": ([1, 3], "log_k T, rounded up"),
    "attention": ([], "1"),
}


def reads(apart: int, i: int) -> list[int]:
    """What position `i` reads: three taps so far apart and none ahead; with 0 everything so far."""
    taps = range(i + 1) if apart == 0 else (i - n * apart for n in range(K))
    return sorted(j for j in taps if j >= 0)


def way(layers: list[int]) -> list[int]:
    """From the last position down, layer by layer, always the furthest back that is read."""
    places = [T - 1]
    for apart in reversed(layers or [0]):
        places.append(reads(apart, places[-1])[0])
    return places


def path_lengths() -> Drawing:
    """Recurrence, two convolutions and attention, each with the way from position 1 to 9 in bold.

    Vaswani et al. 2017, table 1, its last column.
    """
    counts = {name: len(way(layers)) - 1 for name, (layers, _) in STACKS.items()}
    desc = (
        f"Four times {T} positions in a row, inputs below; lines are what is read, and the "
        "shortest way from the first input to the last output is bold. A recurrent layer passes "
        f"its state from position to position: {T - 1} steps. A convolution that reads three "
        f"positions side by side needs {counts['kernel of 3']} layers; one whose second layer "
        f"reads every third position needs {counts['dilated, 3']}; attention reads everything and "
        f"needs {counts['attention']}."
    )
    wide, tall = Pen(720, 230), Pen(360, 420)
    for pen, places in (
        (wide, [(30 + 180 * n, -24) for n in range(4)]),
        (tall, [(30 + 180 * (n % 2), -24 + 190 * (n // 2)) for n in range(4)]),
    ):
        recurrent(pen, places[0])
        for place, name in zip(places[1:], STACKS, strict=True):
            stack(pen, place, name, counts[name])
    return Drawing(wide, tall, "Path lengths", desc)


def at(place: Point, row: int, i: int) -> Point:
    """Where a position stands: row 0, the inputs, lowest."""
    return place[0] + i * APART, place[1] + 172 - row * RISE


def words(pen: Pen, place: Point, name: str, count: str, general: str) -> None:
    """Below: what it is, and how far it is."""
    x, y = place[0] + (T - 1) * APART / 2, place[1]
    pen.text(x, y + 202, name, "b")
    pen.text(x, y + 225, count, "weight f b")
    pen.text(x, y + 246, general, "s muted f")


def recurrent(pen: Pen, place: Point) -> None:
    """One layer whose states wait for each other."""
    words(pen, place, "recurrent", f"{T - 1} steps", "T − 1")
    for i in range(T):
        pen.line([at(place, 0, i), at(place, 1, i)], "hair" if i else "weight k", "")
    pen.line([at(place, 1, 0), at(place, 1, T - 1)], "weight k", "")
    for row in (0, 1):
        for i in range(T):
            on = row == 1 or i == 0
            pen.dot(*at(place, row, i), "weight f" if on else "muted f", 4)


def stack(pen: Pen, place: Point, name: str, count: int) -> None:
    """Layers on each other; what is read, and the way."""
    layers, general = STACKS[name]
    words(pen, place, name, f"{count} layer{'s' if count > 1 else ''}", general)
    places = way(layers)[::-1]  # from the input up
    for row, apart in enumerate(layers or [0], 1):
        for i in range(T):
            for j in reads(apart, i):
                pen.line([at(place, row - 1, j), at(place, row, i)], "hair", "")
        step = [at(place, row - 1, places[row - 1]), at(place, row, places[row])]
        pen.line(step, "weight k", "")
    for row, here in enumerate(places):
        for i in range(T):
            pen.dot(*at(place, row, i), "weight f" if i == here else "muted f", 4)
