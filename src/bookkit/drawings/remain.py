"""Three problems of a recurrent network, and which cure helps against which."""

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

PROBLEMS = ("waiting", "distance", "the bottleneck")
NO, SOME, ALL = "no help", "helps", "cures it"
CURES: dict[str, tuple[str, str, str]] = {
    "open gates": (NO, SOME, NO),
    "a linear step": (ALL, SOME, NO),
    "keep all states": (NO, SOME, ALL),
    "drop the recurrence": (ALL, ALL, ALL),
}
LOOKS = {NO: "muted f s", SOME: "s", ALL: "value f s b"}
STEP, SIZE = 22, 15


def three_problems(T: int = 8) -> Drawing:
    """One sequence of `T` states three times: who waits, how far it is, what must fit through.

    Below each, what four cures do about it. Vaswani et al. 2017, section 4; Cho et al. 2014.
    """
    if not 3 <= T <= 8:
        raise ValueError(f"3 to 8 states fit; got {T}")
    table = "; ".join(
        f"{cure}: " + ", ".join(f"{name} {does}" for name, does in zip(PROBLEMS, row, strict=True))
        for cure, row in CURES.items()
    )
    desc = (
        f"A sequence of {T} states, drawn three times. Waiting: each state stands one step lower "
        f"than the one before, because it can begin only then; {T} steps, one after the other. "
        f"Distance: a chain leads from the first to the last state, {T - 1} steps. "
        f"The bottleneck: lines from all {T} inputs run together in one vector. Below stands what "
        f"helps. {table[0].upper()}{table[1:]}."
    )
    return Drawing(wide(T), tall(T), "Three problems of a recurrent network", desc)


def wide(T: int) -> Pen:
    pen = Pen(720, 268)
    for n, name in enumerate(PROBLEMS):
        x: Length = 158 + 191 * n
        picture(pen, n, (x, 22), T)
        pen.text(x + 88, 14, name, "b")
        for row, does in enumerate(CURES.values()):
            pen.text(x + 88, 188 + 24 * row, does[n], LOOKS[does[n]])
    for row, cure in enumerate(CURES):
        pen.text(8, 188 + 24 * row, cure, "s b l")
        y = 172 + 24 * row
        pen.line([(8, y), (712, y)], "hair", "")
    return pen


def tall(T: int) -> Pen:
    pen = Pen(360, 744)
    for n, name in enumerate(PROBLEMS):
        y: Length = 252 * n
        picture(pen, n, (92, y + 24), T)
        pen.text(180, y + 16, name, "b")
        for row, (cure, does) in enumerate(CURES.items()):
            at = y + 178 + 18 * row
            pen.text(188, at, cure, "s e")
            pen.text(200, at, does[n], f"{LOOKS[does[n]]} l")
    return pen


def picture(pen: Pen, n: int, place: Point, T: int) -> None:
    """The sequence as one of the three problems shows it; 176 units wide, 140 high."""
    (waiting, distance, bottleneck)[n](pen, place, T)


def cell(pen: Pen, x: Length, y: Length, look: str = "box") -> None:
    pen.box(x, y, (SIZE, SIZE), look, 3)


def waiting(pen: Pen, place: Point, T: int) -> None:
    """A staircase: one state for each moment."""
    for t in range(T):
        x, y = place[0] + t * STEP, place[1] + 2 + t * 13
        cell(pen, x, y)
        if t < T - 1:
            pen.line([(x + SIZE, y + 7.5), (x + STEP + 7.5, y + 7.5), (x + STEP + 7.5, y + 13)])
    pen.text(place[0] + 4, place[1] + 92, f"{T} moments,", "s l")
    pen.text(place[0] + 4, place[1] + 110, "one product in each", "muted f s l")


def distance(pen: Pen, place: Point, T: int) -> None:
    """A chain: what the first knows passes through all."""
    y = place[1] + 44
    for t in range(T):
        x = place[0] + t * STEP
        cell(pen, x, y, "output f" if t in (0, T - 1) else "box")
        if t < T - 1:
            pen.line([(x + SIZE, y + 7.5), (x + STEP, y + 7.5)], "output k", "")
    pen.bracket((place[0] + (T - 1) * STEP + SIZE, y + 30), (place[0], y + 30))
    pen.text(place[0] + (T * STEP - 7) / 2, y + 50, f"from 1 to {T}: {T - 1} steps", "s")


def bottleneck(pen: Pen, place: Point, T: int) -> None:
    """A funnel: one vector for all."""
    y, end = place[1] + 18, (place[0] + (T * STEP - 7) / 2, place[1] + 84)
    for t in range(T):
        x = place[0] + t * STEP
        pen.line([(x + 7.5, y + SIZE), end], "hair", "")
        cell(pen, x, y)
    pen.box(end[0] - 11, end[1] - 4, (22, 15), "output f", 3)
    pen.text(end[0], end[1] + 32, f"{T} inputs, one vector", "s")
