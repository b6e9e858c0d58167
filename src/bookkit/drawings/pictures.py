"""Pictures become tokens: patches, a vision transformer, a masked autoencoder."""

from collections.abc import Collection, Sequence

from jaxtyping import Float
from torch import Tensor

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.parts import bars
from bookkit.drawings.pen import Length, Pen, Point, printed

ROLES = ("query", "key", "value", "position")
KEPT = (2, 7, 9, 12)  # patches that the encoder gets


def patch_rows() -> list[list[int]]:
    """0 … 15, written in four rows and cut into 2 × 2: the rows of the patches."""
    corners = (0, 2, 8, 10)
    return [[corner + more for more in (0, 1, 4, 5)] for corner in corners]


def patches() -> Drawing:
    """A picture of 4 × 4 numbers, cut into patches and, wrongly, into its own rows. Dosovitskiy et
    al. 2021, section 3.1."""
    rows = patch_rows()
    said = "; ".join(" ".join(map(str, row)) for row in rows)
    desc = (
        "The numbers 0 to 15 in four rows of four, cut into four squares of two by two. Each of "
        f"them becomes one row: {said}. Beside it, named as wrong, what a reshape alone gives: the "
        "four rows of the picture, 0 1 2 3 and so on."
    )
    wide, tall = Pen(720, 196), Pen(360, 400)
    square(wide, (24, 40), rows)
    wide.line([(164, 98), (224, 98)])
    listed(wide, (250, 40), rows, "cut into patches")
    reshaped(wide, (500, 40), rows)
    square(tall, (16, 40), rows)
    tall.line([(146, 98), (190, 98)])
    listed(tall, (208, 40), rows, "cut into patches")
    reshaped(tall, (208, 244), rows)
    return Drawing(wide, tall, "A picture becomes rows", desc)


def owner(number: int, rows: Sequence[Sequence[int]]) -> str:
    """The colour of the patch that this number is in."""
    return next(role for role, row in zip(ROLES, rows, strict=True) if number in row)


def numbers(
    pen: Pen, at: Point, row: Sequence[int], rows: Sequence[Sequence[int]], size: Point = (30, 26)
) -> None:
    """A row of cells, each in the colour of its patch."""
    for place, n in enumerate(row):
        with pen.group(owner(n, rows)):
            pen.cell(at[0] + place * size[0], at[1], size, str(n), 0.5)


def square(pen: Pen, at: Point, rows: Sequence[Sequence[int]]) -> None:
    """The picture."""
    pen.text(at[0] + 60, at[1] - 16, "the picture", "b")
    for line in range(4):
        numbers(pen, (at[0], at[1] + 29 * line), range(4 * line, 4 * line + 4), rows)


def listed(pen: Pen, at: Point, rows: Sequence[Sequence[int]], name: str) -> None:
    """One row for each patch."""
    pen.text(at[0] + 60, at[1] - 16, name, "b")
    for line, row in enumerate(rows):
        numbers(pen, (at[0], at[1] + 34 * line), row, rows)


def reshaped(pen: Pen, at: Point, rows: Sequence[Sequence[int]]) -> None:
    """What a reshape alone gives, named as wrong."""
    pen.text(at[0] + 60, at[1] - 16, "wrong: reshape alone", "gradient b")
    for line in range(4):
        numbers(pen, (at[0], at[1] + 34 * line), range(4 * line, 4 * line + 4), rows)


def digit(
    pen: Pen,
    at: Point,
    picture: Float[Tensor, "8 8"],
    cell: Length = 12,
    kept: Collection[int] | None = None,
) -> None:
    """A digit of 8 × 8 with the cuts between its patches; those that are not `kept` are hatched."""
    x, y = at
    for n in range(16):
        corner = x + n % 4 * 2 * cell, y + n // 4 * 2 * cell
        pen.box(*corner, (2 * cell, 2 * cell), "query edge", 0)
        if kept is not None and n not in kept:
            pen.hatch(*corner, (2 * cell, 2 * cell))
    with pen.group("weight"):
        for i, row in enumerate((picture / picture.max()).tolist()):
            for j, dark in enumerate(row):
                if dark and (kept is None or i // 2 * 4 + j // 2 in kept):
                    left, top, side = x + j * cell + 0.5, y + i * cell + 0.5, cell - 1
                    look = f"--v:{printed(dark)}"
                    pen.mark("rect", "v", x=left, y=top, width=side, height=side, style=look)


def tokens(
    pen: Pen, at: Point, roles: Sequence[str], width: Length = 9, height: Length = 36
) -> None:
    """Tokens side by side; no role is a gap that waits to be painted."""
    for n, role in enumerate(roles):
        place = at[0] + n * (width + 4), at[1]
        if role:
            pen.box(*place, (width, height), f"{role} f", 2)
        else:
            pen.hatch(*place, (width, height))
            pen.box(*place, (width, height), "box", 2)


def vision_transformer(picture: Float[Tensor, "8 8"]) -> Drawing:
    """A digit, 16 patches of four numbers, one map for all, a class token in front, positions, the
    encoder; the first row tells the class. Dosovitskiy et al. 2021, figure 1."""
    desc = (
        "From left to right: a digit of 8 by 8 pixels with the cuts between its 16 patches. Each "
        "patch, four numbers, is mapped by the same matrix E to a token of width C. In front of "
        "the 16 tokens stands a class token, the same for every picture; to each of the 17 a "
        "position is added. They pass through N encoder blocks without a mask. Of the 17 rows that "
        "come out only the first is read: a linear map makes ten logits of it, drawn as bars."
    )
    wide, tall = Pen(720, 172), Pen(360, 420)
    digit(wide, (8, 40), picture)
    flow(wide, [(112, 88), (140, 88)])
    stage(wide, (140, 62), (44, 52), "E")
    flow(wide, [(184, 88), (210, 88)])
    tokens(wide, (214, 70), ["weight"] + ["query"] * 16)
    names(wide, (214, 128))
    flow(wide, [(438, 88), (466, 88)])
    stage(wide, (466, 48), (96, 80), "encoder", more=True)
    wide.text(514, 110, "N blocks", "s")
    flow(wide, [(562, 70), (598, 70)], "weight k")
    ten(wide, (608, 88))
    digit(tall, (20, 24), picture)
    flow(tall, [(124, 72), (160, 72)])
    stage(tall, (160, 46), (44, 52), "E")
    flow(tall, [(182, 98), (182, 136)])
    tokens(tall, (70, 142), ["weight"] + ["query"] * 16)
    names(tall, (70, 200))
    flow(tall, [(182, 226), (182, 258)])
    stage(tall, (122, 258), (120, 64), "encoder", more=True)
    tall.text(182, 310, "N blocks", "s")
    flow(tall, [(142, 322), (142, 360)], "weight k")
    ten(tall, (98, 396))
    return Drawing(wide, tall, "A vision transformer", desc)


def flow(pen: Pen, points: Sequence[Point], look: str = "muted k") -> None:
    pen.line(points, look)


def stage(pen: Pen, at: Point, size: Point, words: str, more: bool = False) -> None:
    """A part with its name, in its middle unless more is said below."""
    pen.box(*at, size, "weight t" if words != "E" else "box", 8)
    pen.text(at[0] + size[0] / 2, at[1] + (38 if more else size[1] / 2 + 5), words, "b")


def names(pen: Pen, at: Point) -> None:
    """What stands below the tokens."""
    pen.text(*at, "class token", "weight f s l")
    pen.text(at[0] + 216, at[1], "16 patches", "query f s e")
    pen.text(at[0] + 108, at[1] + 18, "+ 17 positions", "position f s")


def ten(pen: Pen, at: Point) -> None:
    """Ten bars, the fourth the highest."""
    bars(pen, *at, [6, 4, 9, 34, 5, 8, 3, 6, 10, 5])
    pen.text(at[0] + 44, at[1] + 18, "ten classes", "output f s")


def masked(picture: Float[Tensor, "8 8"]) -> Drawing:
    """Four patches of sixteen are encoded; a small decoder paints the others. He et al. 2022,
    figure 1."""
    desc = (
        "A digit of which 12 of 16 patches are hidden. The encoder, a vision transformer, gets "
        "four tokens and nothing else. What it makes of them is put back in its places among 16, "
        "with the same learned mask token everywhere else, and a small decoder makes all 16 "
        "patches. The loss counts the twelve hidden ones. Afterwards the decoder is thrown away."
    )
    wide, tall = Pen(720, 114), Pen(360, 338)
    rows = ["query" if n in KEPT else "" for n in range(16)]
    digit(wide, (4, 8), picture, kept=KEPT)
    flow(wide, [(106, 56), (130, 56)])
    tokens(wide, (136, 38), ["query"] * 4)
    flow(wide, [(192, 56), (216, 56)])
    stage(wide, (216, 16), (80, 80), "encoder")
    flow(wide, [(296, 56), (320, 56)])
    tokens(wide, (326, 38), rows, 7)
    wide.text(412, 104, "16 places, 12 masked", "s")
    flow(wide, [(504, 56), (526, 56)])
    stage(wide, (526, 26), (76, 60), "decoder")
    flow(wide, [(602, 56), (620, 56)])
    digit(wide, (624, 8), picture)
    digit(tall, (20, 16), picture, kept=KEPT)
    flow(tall, [(124, 64), (164, 64)])
    tokens(tall, (172, 46), ["query"] * 4)
    flow(tall, [(228, 64), (262, 64)])
    stage(tall, (262, 24), (80, 80), "encoder")
    flow(tall, [(302, 104), (302, 142)])
    tokens(tall, (166, 148), rows, 7)
    tall.text(256, 212, "16 places, 12 masked", "s")
    flow(tall, [(254, 222), (254, 250)])
    stage(tall, (218, 250), (72, 52), "decoder")
    flow(tall, [(218, 276), (128, 276)])
    digit(tall, (24, 228), picture)
    return Drawing(wide, tall, "A masked autoencoder", desc)
