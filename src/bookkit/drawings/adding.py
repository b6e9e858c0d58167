"""What joins the heads: each meets its own rows of the output matrix, and the results are added."""

from jaxtyping import Float
from torch import Tensor, tensor

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

ROLES = ("output", "position", "value")
HEADS = ((1, 2), (0, 1), (2, 0))
MATRIX = (
    (1, 0, 0, 1, 0, 0),
    (0, 1, 0, 0, 0, 1),
    (0, 0, 1, 0, 1, 0),
    (1, 0, 0, 0, 0, 1),
    (0, 1, 0, 0, 1, 0),
    (0, 0, 1, 1, 0, 0),
)
STEP = 78  # from one head to the next


def sum_of_heads(
    heads: Float[Tensor, "H D"] | None = None, matrix: Float[Tensor, "H*D C"] | None = None
) -> Drawing:
    """Concatenate and project is a sum with one term for each head.

    Three heads found two numbers each, for one token; `matrix` has six rows and six columns and
    multiplies from the right. Numbers are small and whole. Vaswani et al. 2017, section 3.2.2.
    """
    heads = tensor(HEADS).float() if heads is None else heads
    matrix = tensor(MATRIX).float() if matrix is None else matrix
    if heads.shape != (3, 2) or matrix.shape != (6, 6):
        shapes = f"{tuple(heads.shape)} and {tuple(matrix.shape)}"
        raise ValueError(f"3 heads of 2 numbers and a matrix (6, 6) fit; got {shapes}")
    blocks = matrix.unflatten(0, (3, 2))  # (H, D, C)
    written = (heads[:, None] @ blocks)[:, 0]  # (H, C)
    rows = "; ".join(f"head {n}, {listed(row)}" for n, row in enumerate(written))
    desc = (
        "Three heads have found two numbers each for one token. The output matrix has six rows, "
        "two for each head. Head by head, its two numbers times its two rows give a vector of "
        f"full width, six numbers: {rows}. An arrow leads each of the three onto one thick line, "
        f"where they are added: {listed(written.sum(0))}. No head meets the rows of another."
    )
    wide, tall = Pen(720, 322), Pen(360, 322)
    for pen, cell, columns in ((wide, (30, 24), WIDE), (tall, (18, 22), TALL)):
        stream(pen, columns["stream"])
        for n in range(3):
            term(pen, 44 + STEP * n, cell, columns, n, (heads[n], blocks[n], written[n]))
        total(pen, 44 + 3 * STEP, cell, columns, written.sum(0))
    return Drawing(wide, tall, "Concatenate and project as a sum over heads", desc)


# where the columns of a layout begin
WIDE: dict[str, Length] = {"head": 76, "block": 184, "written": 418, "stream": 660}
TALL: dict[str, Length] = {"head": 8, "block": 64, "written": 194, "stream": 334}


def listed(row: Tensor) -> str:
    return " ".join(printed(x) for x in row.tolist())


def stream(pen: Pen, x: Length) -> None:
    """The token's running total, which goes on downwards."""
    pen.line([(x, 22), (x, pen.height - 18)], "state k thick", "")
    pen.line([(x, pen.height - 20), (x, pen.height - 4)], "state k")
    pen.text(x, 14, "stream", "s b")


def term(
    pen: Pen,
    y: Length,
    cell: Point,
    columns: dict[str, Length],
    n: int,
    parts: tuple[Tensor, Tensor, Tensor],
) -> None:
    """One head: its two numbers, its two rows of the matrix, and the vector that it writes."""
    found, block, vector = parts
    middle, top = y + cell[1], max(float(vector.abs().max()), 2.0)
    of, to, end = columns["block"], columns["written"], columns["stream"]
    head = (columns["head"], middle - cell[1] / 2)
    pen.cells(f"head{n}", head, [found.tolist()], ROLES[n], cell, (0, top), 0)
    pen.cells(f"block{n}", (of, y), block.tolist(), ROLES[n], cell, (0, top), 0)
    pen.cells(
        f"written{n}", (to, middle - cell[1] / 2), [vector.tolist()], ROLES[n], cell, (0, top), 0
    )
    pen.line([(to + 6 * cell[0] + 3, middle), (end - 10, middle)], f"{ROLES[n]} k")
    pen.plus(end, middle, 9)
    pen.text((of + 6 * cell[0] + to) / 2, middle + 5, "=")
    if pen.width > 500:
        pen.text(columns["head"] - 8, middle + 4, f"head {n}", f"{ROLES[n]} f b s e")
        pen.text((columns["head"] + 2 * cell[0] + of) / 2, middle + 5, "·")
    else:
        pen.text(columns["head"], y - 4, f"head {n}", f"{ROLES[n]} f b s l")
    if n == 0:
        words = ("its rows of W^O", "writes") if pen.width > 500 else ("rows of W^O", "writes")
        pen.text(of + 3 * cell[0], y - 10, words[0], "s")
        pen.text(to + 3 * cell[0], y - 10, words[1], "s")


def total(pen: Pen, y: Length, cell: Point, columns: dict[str, Length], row: Tensor) -> None:
    """The sum of the three: what concatenation and one product give."""
    to = columns["written"]
    top = max(float(row.abs().max()), 2.0)
    pen.cells("sum", (to, y), [row.tolist()], "state", cell, (0, top), 0)
    pen.text(to - 8, y + cell[1] / 2 + 4, "added up", "s b e")
