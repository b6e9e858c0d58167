"""Masks as pictures: who may look at whom, with the line of code that says so."""

from jaxtyping import Bool
from torch import Tensor, tensor

from attnbook.masks import (
    FunctionMask,
    Grid,
    Mask,
    as_pattern,
    causal,
    document,
    local,
    padding,
    prefix,
)
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

T, CELL = 8, 14
REAL = tensor([[True] * 6 + [False] * 2])
IDS = tensor([0] * 5 + [1] * 3)

# name: the pattern, how it is written, who uses it
MASKS: dict[str, tuple[Mask, str, str]] = {
    "everything": (FunctionMask(lambda i, j: i + j >= 0), "None", "encoders, vision"),
    "causal": (causal, "causal", "language models"),
    "padding": (padding(REAL), "padding(real)", "batches for encoders"),
    "both": (causal & padding(REAL), "causal & padding(real)", "batches for decoders"),
    "sliding window": (causal & local(3), "causal & local(3)", "Mistral, Gemma 3"),
    "prefix": (causal | prefix(3), "causal | prefix(3)", "T5's variant, PaliGemma"),
    "documents": (causal & document(IDS), "causal & document(ids)", "packed training"),
    "sink and window": (
        causal & (local(2) | prefix(1)),
        "causal & (local(2) | prefix(1))",
        "StreamingLLM",
    ),
}


def mask_gallery() -> Drawing:
    """Eight masks of eight positions: rows look, columns are looked at; filled where allowed."""
    tables = {name: table(mask) for name, (mask, _, _) in MASKS.items()}
    seen = "; ".join(f"{name}, {int(mask.sum())}" for name, mask in tables.items())
    desc = (
        f"Eight tables of {T} rows, the positions that look, and {T} columns, the positions that "
        "are looked at. A cell is filled where looking is allowed and crossed out where not. "
        f"How many of the {T * T} cells are allowed: {seen}. Under each stands the pattern that "
        "makes it, and who uses it."
    )
    wide, tall = Pen(720, 372), Pen(360, 744)
    for pen, columns in ((wide, 4), (tall, 2)):
        for n, (name, mask) in enumerate(tables.items()):
            one(pen, (n % columns * 180, n // columns * 186), name, mask)
    return Drawing(wide, tall, "A gallery of masks", desc)


def table(mask: Mask) -> Bool[Tensor, "8 8"]:
    """The pattern written out for one sequence of eight."""
    return as_pattern(mask).to_dense(Grid(1, T, T)).expand(1, 1, T, T)[0, 0]


def one(pen: Pen, place: Point, name: str, mask: Bool[Tensor, "8 8"]) -> None:
    """A mask with its name above, its code and its users below."""
    x, y = place
    pen.text(x + 90, y + 14, name, "b")
    squares(pen, x + 90 - T * CELL / 2, y + 22, mask)
    _, written, users = MASKS[name]
    if len(written) > 22:
        written = written.replace("causal & ", "")
        users = "and causal: " + users
    pen.text(x + 90, y + 22 + T * CELL + 17, written, "c")
    pen.text(x + 90, y + 22 + T * CELL + 34, users, "s muted f")


def squares(pen: Pen, x: Length, y: Length, mask: Bool[Tensor, "8 8"]) -> None:
    """All allowed cells as one shape, all forbidden ones as strokes."""
    size = CELL - 2
    allowed = "".join(
        f"M{x + j * CELL + 1:g} {y + i * CELL + 1:g}h{size}v{size}h-{size}z"
        for i, j in mask.nonzero().tolist()
    )
    forbidden = "".join(
        f"M{x + j * CELL + 4:g} {y + (i + 1) * CELL - 4:g}l{size - 6}-{size - 6}"
        for i, j in (~mask).nonzero().tolist()
    )
    pen.mark("path", "weight f", d=allowed)
    if forbidden:
        pen.mark("path", "hair", d=forbidden)
    pen.box(x, y, (T * CELL, T * CELL), "hair", 2)
