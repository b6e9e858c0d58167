"""How far a stack of layers reaches, by how many ways, and which keys it keeps."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnbook.masks import causal_mask, local, pattern_mask
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point

T, APART, RISE = 12, 24, 38
WINDOW = 3


def layer(window: int | None) -> Bool[Tensor, "T T"]:
    """Who may look at whom: the last `window` positions, or all so far."""
    return causal_mask(T) & pattern_mask(local(window), T) if window else causal_mask(T)


def ways(masks: Sequence[Bool[Tensor, "T T"]]) -> list[Int[Tensor, " T"]]:
    """In how many ways each vector reaches the last output: a row for the inputs and each layer.

    `masks` has one for each layer, the first layer first; the last row is the output itself.
    """
    rows = [torch.eye(T, dtype=torch.long)[-1]]
    for mask in reversed(masks):
        rows.insert(0, rows[0] @ mask.long())
    return rows


def window_stacks(depth: int = 4) -> Drawing:
    """Layers with windows, and the same with a full layer on top, over twelve positions.

    Beltagy et al. 2020; Jiang et al. 2023. Lines lead from the last output down to all that it
    depends on; bars are each input's share of the ways; keys in colour are kept for the next token.
    """
    if not 2 <= depth <= 4:
        raise ValueError(f"2 to 4 layers fit; got {depth}")
    stacks: dict[str, list[int | None]] = {f"{depth} windows of {WINDOW}": [WINDOW] * depth}
    stacks[f"{depth - 1} windows, 1 full layer"] = [*[WINDOW] * (depth - 1), None]
    found = []
    for name, windows in stacks.items():
        inputs = ways([layer(w) for w in windows])[0]
        found.append(
            f"{name}: the last output depends on {int((inputs > 0).sum())} of {T} inputs, by "
            f"{', '.join(str(n) for n in inputs.tolist())} ways from the oldest to the newest; "
            f"{kept(windows)} of {T * depth} keys are kept"
        )
    desc = (
        f"Two stacks of {depth} layers over {T} positions, inputs below, with lines from the last "
        f"output down to everything that it depends on. {found[0]}. {found[1]}. Bars under the "
        "inputs show their share of all ways: what is far away has few."
    )
    wide, tall = Pen(720, RISE * depth + 154), Pen(360, 2 * (RISE * depth + 154) + 16)
    for n, (name, windows) in enumerate(stacks.items()):
        stack(wide, (360 * n, 0), name, windows)
        stack(tall, (0, n * (RISE * depth + 170)), name, windows)
    return Drawing(wide, tall, "How far stacks of windows reach", desc)


def kept(windows: Sequence[int | None]) -> int:
    """How many keys all layers together keep for the next token."""
    return sum(min(window or T, T) for window in windows)


def stack(pen: Pen, place: Point, name: str, windows: Sequence[int | None]) -> None:
    """The cone of the last output, the keys that are kept, and the ways to each input."""
    masks = [layer(window) for window in windows]
    rows, floor = ways(masks), place[1] + 50 + RISE * len(windows)

    def at(row: int, i: int) -> Point:
        return place[0] + 78 + i * APART, floor - row * RISE

    pen.text(place[0] + 78 + APART * (T - 1) / 2, place[1] + 16, name, "h")
    lines = ""
    for row, mask in enumerate(masks):
        for i in (rows[row + 1] > 0).nonzero()[:, 0].tolist():
            for j in mask[i].nonzero()[:, 0].tolist():
                (a, b), (c, d) = at(row, j), at(row + 1, i)
                lines += f"M{a} {b}L{c} {d}"
    pen.mark("path", "weight k thin", d=lines)
    for row in range(len(rows)):
        last = row == len(windows)
        size = 0 if last else windows[row] or T
        words = "output" if last else "all kept" if size == T else f"{size} kept"
        pen.text(place[0] + 62, at(row, 0)[1] + 4, words, "s muted f e" if last else "key f s e")
        for i in range(T):
            dot(pen, at(row, i), key=i >= T - size, seen=bool(rows[row][i]))
    shares(pen, (place[0] + 78, floor + 16), rows[0])
    reach, keys = int((rows[0] > 0).sum()), T * len(windows)
    words = f"reach {reach} of {T}, {kept(windows)} of {keys} keys kept"
    pen.text(place[0] + 78 + APART * (T - 1) / 2, floor + 98, words, "s b")
    pen.tables[f"{name} ways"] = [[str(n) for n in rows[0].tolist()]]


def dot(pen: Pen, at: Point, key: bool, seen: bool) -> None:
    """A vector: a square if its key is kept, a full dot if the output depends on it."""
    x, y = at
    if key:
        pen.box(x - 6, y - 6, (12, 12), "key f", 2)
    else:
        pen.dot(x, y, "weight f" if seen else "hair paper", 4 if seen else 3)


def shares(pen: Pen, place: Point, counts: Int[Tensor, " T"]) -> None:
    """Bars that hang from the inputs: each one's share of all ways, and how many these are."""
    for i, count in enumerate(counts.tolist()):
        height = round(180 * count / int(counts.sum()))
        x = place[0] + i * APART
        if count:
            pen.box(x - 7, place[1], (14, max(height, 1)), "weight f", 1)
        pen.text(x, place[1] + height + 14, str(count), "s" if count else "s muted f")
    pen.text(place[0] - 16, place[1] + 14, "ways", "s weight f e")
