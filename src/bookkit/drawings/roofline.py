"""The roofline of an H100: what an operation can reach, by how much it computes for each byte.

Williams et al. 2009. The two limits are those of the data sheet (SXM, 16 bits without sparsity).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

PEAK, BANDWIDTH = 989e12, 3.35e12  # operations and bytes a second
T, D = 4096, 128  # positions that are read at once, channels of a head
LATENT, ROTATED, HEADS = 512, 64, 128  # what DeepSeek-V3 keeps of a token, and who asks


class Case(NamedTuple):
    """An operation; where its label stands, seen from its point, in both layouts."""

    name: str  # "what is done: how"; the narrow layout has the second half alone
    intensity: float
    wide: Point
    tall: Point
    ends: bool = False


def by_head(queries: int = 1) -> float:
    """Writing: operations for each byte of the cache if so many heads share a key and a value.

    A score and a mean are 2 · 2 · D operations for each head; the two vectors are 2 · D numbers.
    """
    return queries * 4 * D / (2 * D * 2)


def latent() -> float:
    """The same if all heads ask one vector, of which a part is the value as well."""
    return HEADS * 2 * (LATENT + ROTATED + LATENT) / ((LATENT + ROTATED) * 2)


def written_out() -> float:
    """Reading T positions: scores and weights are both written and read again, in 16 bits."""
    return 4 * T * T * D / (2 * (4 * T * T + 4 * T * D))


def in_tiles() -> float:
    """Reading T positions when only queries, keys, values and outputs travel, once."""
    return 4 * T * T * D / (2 * 4 * T * D)


CASES = (
    Case("writing: each head its own keys", by_head(), (14, 12), (12, 14)),
    Case("writing: 8 heads a key", by_head(8), (14, 12), (12, 14)),
    Case("reading: table written out", written_out(), (-12, -6), (-10, -8), True),
    Case("writing: latent keys", latent(), (-12, -8), (-10, -10), True),
    Case("reading: in tiles", in_tiles(), (0, -14), (28, -12), True),
)


def reached(intensity: Length) -> float:
    """Operations a second, at most."""
    return min(PEAK, BANDWIDTH * intensity)


def roofline() -> Drawing:
    """Five ways to use attention under the roof of one GPU; both axes are logarithmic."""
    said = "; ".join(
        f"{case.name}, {case.intensity:,.0f} operations for each byte, at most "
        f"{reached(case.intensity) / 1e12:,.0f} TFLOP a second"
        for case in CASES
    )
    desc = (
        "Operations a second against operations for each byte that is moved, both axes "
        f"logarithmic. A line rises with the bandwidth, {BANDWIDTH / 1e12:.2f} TB a second, up to "
        f"{PEAK / BANDWIDTH:.0f} operations for each byte, and is flat from there on at "
        f"{PEAK / 1e12:.0f} TFLOP a second. On it lie: {said}."
    )
    wide, tall = Pen(720, 380), Pen(360, 400)
    under(wide, (64, 34), (628, 288))
    under(tall, (44, 34), (292, 300))
    return Drawing(wide, tall, "The roofline of an H100, and where attention lies under it", desc)


def under(pen: Pen, corner: Point, size: Point) -> None:
    """The roof, the axes, and the operations on it."""
    (x0, y0), (width, height) = corner, size
    low, high = -1, 12  # powers of 2 of the horizontal axis
    bottom, top = 0.0, 3.3  # powers of 10 of TFLOP a second

    def at(intensity: Length, speed: Length) -> Point:
        across = (math.log2(intensity) - low) / (high - low)
        up = (math.log10(speed / 1e12) - bottom) / (top - bottom)
        return x0 + across * width, y0 + (1 - up) * height

    for tick in (1, 10, 100, 1000):
        y = at(1, tick * 1e12)[1]
        if tick < 1000:
            pen.line([(x0, y), (x0 + width, y)], "hair", "")
        pen.text(x0 - 6, y + 4, f"{tick:,}", "s muted f e")
    for tick in (1, 8, 64, 512, 4096):
        pen.text(at(tick, 1e12)[0], y0 + height + 18, f"{tick:,}", "s muted f")
    pen.text(x0 + width / 2, y0 + height + 40, "operations for each byte moved", "s")
    pen.text(x0 - 6 if pen.width > 500 else 4, y0 - 16, "TFLOP/s", "s l")
    knee, start = PEAK / BANDWIDTH, 2.0**low
    roof = [at(start, reached(start)), at(knee, PEAK), at(2.0**high, PEAK)]
    pen.line(roof, "mark", "", 0)
    for case in CASES:
        marked(pen, at(case.intensity, reached(case.intensity)), case)
    limits(pen, at)


def marked(pen: Pen, at: Point, case: Case) -> None:
    """An operation on the roof, with its name and its number."""
    role = "output" if case.name.startswith("reading") else "key"
    (dx, dy) = case.wide if pen.width > 500 else case.tall
    look = f"{role} f s" + (" e" if case.ends else " l")
    name = case.name if pen.width > 500 else case.name.split(": ")[1]
    pen.text(at[0] + dx, at[1] + dy, f"{name}, {case.intensity:,.0f}", look)
    pen.dot(*at, f"{role} f", 5)


def limits(pen: Pen, at: Callable[[Length, Length], Point]) -> None:
    """What the two parts of the roof are."""
    x, y = at(PEAK / BANDWIDTH, PEAK)
    pen.line([(x, y + 32), (x, y + 92)], "tie", "")
    pen.text(x, y + 108, f"{PEAK / BANDWIDTH:.0f}", "s muted f")
    x, y = at(4.5, reached(4.5))
    pen.text(x - 8, y - 6, f"{BANDWIDTH / 1e12:.2f} TB/s", "s b e" if pen.width < 500 else "b e")
    x, y = at(2.0**12, PEAK)
    pen.text(x, y + 22, f"{PEAK / 1e12:.0f} TFLOP/s", "s b e" if pen.width < 500 else "b e")
