"""What recurs in drawings: masks, heads, streams that run upwards through the bands of a block."""

from collections.abc import Sequence

from jaxtyping import Bool
from torch import Tensor

from bookkit.drawings.pen import Length, Pen, Point


def mask_icon(
    pen: Pen, x: Length, y: Length, mask: Bool[Tensor, "Tq Tk"], cell: Length = 8
) -> None:
    """A mask as a small table, a row for each query: filled where looking is allowed."""
    for i, row in enumerate(mask.tolist()):
        for j, seen in enumerate(row):
            at, size = (x + j * cell, y + i * cell), (cell - 1, cell - 1)
            pen.box(*at, size, "weight f", 1) if seen else pen.hatch(*at, size)


def looks(
    pen: Pen,
    sources: Sequence[Point],
    targets: Sequence[Point],
    mask: Bool[Tensor, "Tq Tk"],
    weights: Sequence[Sequence[Length]] | None = None,
) -> None:
    """Lines from each source to each target that may look at it, as wide as the weights, if any."""
    for i, target in enumerate(targets):
        for j, source in enumerate(sources):
            if mask[i, j]:
                pen.share(source, target, weights[i][j] if weights else 0.12)
    for x, y in [*sources, *targets]:
        pen.dot(x, y, "weight f", 3.5)


def vectors(
    pen: Pen, x: Length, y: Length, sizes: Sequence[Length], role: str, height: Length = 9
) -> None:
    """A row of small cells without numbers: a vector, its entries as shades from 0 to 1."""
    with pen.group(role):
        for c, size in enumerate(sizes):
            pen.mark(
                "rect",
                "v",
                x=x + c * height,
                y=y,
                width=height,
                height=height,
                style=f"--v:{size:g}",
            )


def stacked(
    pen: Pen, x: Length, y: Length, size: Point, look: str, copies: int = 3, shift: Length = 4
) -> None:
    """The same thing for every head or every row of a batch: copies behind, a little aside."""
    for copy in reversed(range(copies)):
        pen.box(x + copy * shift, y - copy * shift, size, look, 2)


def waves(pen: Pen, x: Length, y: Length, width: Length = 44, height: Length = 8) -> None:
    """Sines of two lengths: where a token stands."""
    for turns, look in ((3, "position k"), (1.5, "position k thin")):
        step = width / turns / 2
        curve = f"M{x:g} {y:g}q{step / 2:g} {-height:g} {step:g} 0"
        curve += f"t{step:g} 0" * (int(turns * 2) - 1)
        pen.mark("path", look, d=curve)


def bars(pen: Pen, x: Length, y: Length, heights: Sequence[Length]) -> None:
    """A distribution over words, standing on (x, y); the likeliest is filled."""
    for place, height in enumerate(heights):
        look = "output f" if height == max(heights) else "output edge"
        pen.box(x + place * 9, y - height, (7, height), look, 1)
