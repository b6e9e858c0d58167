"""Sparse attention: which pairs are left, and after how many layers all have heard of all."""

import torch
from jaxtyping import Bool
from torch import Tensor

from attnbook.efficient.indexer import best, only
from attnbook.efficient.sparse import hubs, strided
from attnbook.masks import And, Or, causal, local, pattern_mask, prefix
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

T, CELL = 16, 9
EACH = 4  # keys that the indexer chooses

Table = Bool[Tensor, "16 16"]


def chosen() -> Table:
    """A choice that depends on the content: here of scores drawn by chance."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(1, T, T, generator=generator, dtype=torch.float)
    return only(best(scores, EACH, pattern_mask(causal, T)), T)[0]


# name: the table, what it is for
PATTERNS: dict[str, tuple[Table, str]] = {
    "local(3)": (pattern_mask(local(3), T), "Longformer"),
    "strided(4), local(4)": (
        pattern_mask(Or(strided(4), local(4)), T),
        "Sparse Transformer",
    ),
    "hubs(2)": (pattern_mask(hubs(2), T), "global tokens"),
    "all three": (pattern_mask(Or(local(3), strided(4), hubs(2)), T), "BigBird, nearly"),
    "window and sink": (pattern_mask(And(causal, Or(local(4), prefix(1))), T), "StreamingLLM"),
    "chosen, 4 each": (chosen(), "DeepSeek-V3.2"),
}


def layers_until_all(table: Table) -> int | None:
    """After how many layers every position that may be heard of was heard of; None: never."""
    wanted = pattern_mask(causal, T) if not table.triu(1).any() else torch.ones_like(table)
    step, reached = table.double(), table.double()
    for layers in range(1, T + 1):
        if bool((reached > 0)[wanted].all()):
            return layers
        reached = reached @ step
    return None


def sparse_patterns() -> Drawing:
    """Six ways to leave pairs out among 16 positions: four fixed, one with a sink, one chosen."""
    found = {name: (int(table.sum()), says(name, table)) for name, (table, _) in PATTERNS.items()}
    said = "; ".join(f"{name}, {pairs} pairs, {layers}" for name, (pairs, layers) in found.items())
    desc = (
        f"Six tables of {T} positions that look, the rows, and {T} that are looked at, the "
        "columns. The first four look both ways, the last two back only. How many of the "
        f"{T * T} pairs are left, and after how many layers every position has heard of every "
        f"other that it may hear of: {said}."
    )
    wide, tall = Pen(720, 452), Pen(360, 680)
    for pen, columns in ((wide, 3), (tall, 2)):
        apart = pen.width / columns
        for n, (name, (table, users)) in enumerate(PATTERNS.items()):
            one(pen, (n % columns * apart + apart / 2, n // columns * 228), name, table, users)
    return Drawing(wide, tall, "Which pairs sparse attention leaves", desc)


def says(name: str, table: Table) -> str:
    """What is left of a pattern, and how far it reaches; a choice is another one in each layer."""
    layers = layers_until_all(table)
    if name.startswith("chosen"):
        return "by content"
    return "never all" if layers is None else f"all after {layers} layer" + "s" * (layers > 1)


def one(pen: Pen, place: Point, name: str, table: Table, users: str) -> None:
    """A pattern with its name above; below, what is left and how far it reaches."""
    x, y = place
    pen.text(x, y + 14, name, "b")
    runs(pen, x - T * CELL / 2, y + 22, table)
    low = y + 22 + T * CELL
    pen.text(x, low + 17, f"{int(table.sum())} pairs, {says(name, table)}", "s")
    pen.text(x, low + 34, users, "s muted f")


def runs(pen: Pen, x: Length, y: Length, table: Table) -> None:
    """Neighbouring cells of a row as one bar each."""
    path = ""
    for i, row in enumerate(table.tolist()):
        start = None
        for j, seen in enumerate([*row, False]):
            if seen and start is None:
                start = j
            elif not seen and start is not None:
                width = (j - start) * CELL - 1
                path += f"M{x + start * CELL:g} {y + i * CELL:g}h{width}v{CELL - 1}h-{width}z"
                start = None
    pen.box(x - 2, y - 2, (T * CELL + 3, T * CELL + 3), "hair", 2)
    pen.mark("path", "weight f", d=path)
