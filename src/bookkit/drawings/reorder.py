"""Two ways to put the brackets in Q Kᵀ V: rectangles to scale, operations counted."""

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

T, D = 1024, 64
LONG, SHORT = 160, 10  # units for T and for D


def operations(pairs_first: bool) -> int:
    """Multiplications and additions of both products."""
    return 4 * T * T * D if pairs_first else 4 * T * D * D


def reorder() -> Drawing:
    """(Q Kᵀ) V makes a T × T table, Q (Kᵀ V) a D × D one. Katharopoulos et al. 2020, equation 6."""
    first, last = (f"{operations(way):,}" for way in (True, False))
    desc = (
        f"Rectangles to scale, for {T:,} positions of width {D}. Left, queries times keys make a "
        f"table of {T:,} by {T:,}, which is then multiplied with the values: {first} operations. "
        f"Right, keys times values make a table of {D} by {D} first, which every query is then "
        f"multiplied with: {last} operations, a {T // D}th. The result has the same shape."
    )
    wide, tall = Pen(720, 300), Pen(360, 604)
    pairs(wide, (40, 44))
    summed(wide, (400, 44))
    pairs(tall, (40, 44))
    summed(tall, (40, 348))
    return Drawing(wide, tall, "Where the square goes", desc)


def matrix(pen: Pen, at: Point, size: Point, role: str, words: str, name: Point) -> None:
    """One matrix to scale, with its name."""
    pen.box(*at, size, f"{role} f", 1)
    pen.text(*name, words, f"{role} f b")


def pairs(pen: Pen, corner: Point) -> None:
    """The table first."""
    x, y = corner
    pen.text(x + 130, y - 22, "(Q Kᵀ) V: the pairs first", "h")
    matrix(pen, (x, y + 40), (SHORT, LONG), "query", "Q", (x + 5, y + 216))
    matrix(pen, (x + 24, y + 16), (LONG, SHORT), "key", "Kᵀ", (x + 104, y + 8))
    pen.box(x + 24, y + 40, (LONG, LONG), "weight t", 1)
    pen.text(x + 104, y + 116, f"{T:,} × {T:,}", "weight f b")
    matrix(pen, (x + 200, y + 40), (SHORT, LONG), "value", "V", (x + 205, y + 216))
    pen.text(x + 228, y + 124, "=", "h")
    matrix(pen, (x + 246, y + 40), (SHORT, LONG), "output", "Y", (x + 251, y + 216))
    pen.text(x + 130, y + 242, f"{operations(True):,} operations", "s")


def summed(pen: Pen, corner: Point) -> None:
    """The sum over the keys first."""
    x, y = corner
    pen.text(x + 140, y - 22, "Q (Kᵀ V): the sum first", "h")
    matrix(pen, (x, y + 40), (SHORT, LONG), "query", "Q", (x + 5, y + 216))
    times(pen, x + 24, y + 124)
    matrix(pen, (x + 36, y + 186), (LONG, SHORT), "key", "Kᵀ", (x + 116, y + 216))
    matrix(pen, (x + 204, y + 16), (SHORT, LONG), "value", "V", (x + 190, y + 100))
    pen.box(x + 204, y + 186, (SHORT, SHORT), "weight f", 1)
    pen.text(x + 209, y + 216, f"{D} × {D}", "weight f b")
    pen.text(x + 244, y + 124, "=", "h")
    matrix(pen, (x + 270, y + 40), (SHORT, LONG), "output", "Y", (x + 275, y + 216))
    pen.text(x + 140, y + 242, f"{operations(False):,} operations", "s")


def times(pen: Pen, x: Length, y: Length) -> None:
    pen.text(x, y, "·", "h")
