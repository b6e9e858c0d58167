"""The dashboard of one healthy training run and eight sick ones, on one sheet, to print."""

from itertools import pairwise
from textwrap import wrap

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, number
from bookkit.experiments.clinic.faults import FAULTS
from bookkit.explore.clinic import INSTRUMENTS, height, short
from bookkit.results.stored_run import stored_run

READINGS = tuple(INSTRUMENTS)
Run = dict[str, list[float]]


def dashboard(seed: int = 0) -> Drawing:
    """All instruments of the clinic's nine runs; the one that gives a fault away is framed.

    From the stored run of `results/clinic.py`; the scale of a column is the same in every row.
    """
    stored = stored_run("clinic")["runs"]
    if not 0 <= seed < len(stored["healthy"]):
        raise ValueError(f"seeds are 0 to {len(stored['healthy']) - 1}, not {seed}")
    rows = {name: stored[name][seed] for name in ("healthy", *FAULTS)}
    wide = Pen(720, 55 + 52 * len(rows))
    tall = Pen(360, 118 + 62 * len(rows))
    beside(wide, rows)
    below(tall, rows)
    said = "; ".join(
        f"{title(name)}: {spoken(FAULTS[name].tells, run)}"
        for name, run in rows.items()
        if name in FAULTS
    )
    desc = (
        f"A table of small curves: {len(rows)} training runs by {len(READINGS)} instruments over "
        f"{8 * (len(rows['healthy']['loss']) - 1)} steps. In each row the instrument that gives "
        f"the fault away is framed. From first to last reading: {said}. The healthy run, "
        f"{spoken('held out', rows['healthy'])}, lies pale behind the others."
    )
    return Drawing(wide, tall, "Eight sick training runs and a healthy one", desc)


def title(name: str) -> str:
    return FAULTS[name].title if name in FAULTS else "healthy"


def spoken(reading: str, run: Run) -> str:
    return f"{INSTRUMENTS[reading][0]} from {short(run[reading][0])} to {short(run[reading][-1])}"


def curves(place: Point, size: Point, apart: Length, run: Run) -> str:
    """The path of a row: every second reading of each instrument, in whole units."""
    path = ""
    for n, reading in enumerate(READINGS):
        values = run[reading][::2]
        across = [
            place[0] + n * apart + size[0] * i / (len(values) - 1) for i in range(len(values))
        ]
        up = [place[1] + size[1] * (1 - height(reading, value)) for value in values]
        points = [(round(x), round(y)) for x, y in zip(across, up, strict=True)]
        path += f"M{points[0][0]} {points[0][1]}l"
        path += " ".join(f"{c - a} {d - b}" for (a, b), (c, d) in pairwise(points))
    return path.replace(" -", "-")


def row(
    pen: Pen, place: Point, size: Point, apart: Length, name: str, rows: dict[str, Run]
) -> None:
    """The panels of one run: the healthy one thin behind it, the telling one framed."""
    (x, y), (width, tall) = (place[0] - 3, place[1] - 3), (size[0] + 6, size[1] + 6)
    sides = f"h{number(width)}v{number(tall)}h{number(-width)}z"
    grounds = [f"M{number(x + n * apart)} {number(y)}{sides}" for n in range(len(READINGS))]
    pen.mark("path", "muted t", d="".join(grounds))
    if name in FAULTS:
        told = x + READINGS.index(FAULTS[name].tells) * apart
        pen.box(told, y, (width, tall), "ink edge", 4)
        pen.mark("path", "muted k thin", d=curves(place, size, apart, rows["healthy"]))
    look = "gradient k" if name in FAULTS else "value k"
    pen.mark("path", look, d=curves(place, size, apart, rows[name]))


def beside(pen: Pen, rows: dict[str, Run]) -> None:
    """Names on the left, a column for each instrument."""
    left, apart = 134, 65.4
    for n, reading in enumerate(READINGS):
        for line, word in enumerate(reversed(wrap(INSTRUMENTS[reading][0], 11))):
            pen.text(left + n * apart + 29, 43 - 15 * line, word, "s")
    for m, name in enumerate(rows):
        y = 57 + 52 * m
        for line, part in enumerate(wrap(title(name), 16)):
            pen.text(0, y + 10 + 15 * line, part, "s l b" if name in FAULTS else "value f s l b")
        row(pen, (left, y), (58, 38), apart, name, rows)


def below(pen: Pen, rows: dict[str, Run]) -> None:
    """Each name above its panels; the instruments are numbers, explained at the foot."""
    apart = 39.6
    for m, name in enumerate(rows):
        y = 16 + 62 * m
        pen.text(2, y, title(name), "s l b" if name in FAULTS else "value f s l b")
        row(pen, (5, y + 10), (31, 30), apart, name, rows)
    foot = 20 + 62 * len(rows)
    for n, reading in enumerate(READINGS):
        place = (2 + 180 * (n % 2), foot + 20 * (n // 2))
        pen.text(*place, f"{n + 1}  {INSTRUMENTS[reading][0]}", "s l")
