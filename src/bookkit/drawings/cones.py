"""What an output can hear through two layers: with the causal mask, and forgotten once."""

from collections.abc import Sequence

from jaxtyping import Bool
from torch import Tensor, ones_like

from attnbook.masks import causal_mask
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

T, APART, RISE = 5, 56, 84
ROWS = ("inputs", "after layer 1", "outputs")
Masks = Sequence[Bool[Tensor, "T T"]]


def heard(masks: Masks, output: int) -> list[set[int]]:
    """Of each row of vectors, inputs first, those that the output depends on.

    `masks` has one (T, T) mask for each layer, the first layer first; True is allowed.
    """
    rows = [{output}]
    for mask in reversed(masks):
        rows.insert(0, {j for i in rows[0] for j in mask[i].nonzero()[:, 0].tolist()})
    return rows


def nothing_leaks(output: int = 2) -> Drawing:
    """Two layers of five positions, masked in both and in the first alone; one output's cone."""
    if not 0 <= output < T:
        raise ValueError(f"outputs are 0 to {T - 1}; got {output}")
    mask = causal_mask(T)
    cases = {"the mask in both layers": (mask, mask)}
    cases["forgotten in layer 2"] = (mask, ones_like(mask))
    found = [says(masks, output) for masks in cases.values()]
    desc = (
        f"Twice three rows of {T} dots, inputs below, outputs above, with a line for each step "
        "that attention may take. Left, with the causal mask in both layers, every line goes "
        "straight up or up from the left, so no way leads from a later input to an earlier "
        f"output: {found[0]}. Right the mask is forgotten in the second layer, lines come from "
        f"the right, too, and what lies ahead gets in: {found[1]}."
    )
    wide, tall = Pen(720, 320), Pen(360, 636)
    for pen, places in ((wide, ((110, 36), (450, 36))), (tall, ((110, 36), (110, 352)))):
        for name, place, (title, masks) in zip("ab", places, cases.items(), strict=True):
            panel(pen, place, name, title, masks, output)
        pen.text(pen.width - 8, pen.height - 6, "Point at an output", "s muted f e hint")
    return Drawing(wide, tall, "What an output can hear through two layers", desc)


def says(masks: Masks, output: int) -> str:
    """In words, counted from 1: what reaches the output."""
    inputs = heard(masks, output)[0]
    return f"output {output + 1} hears inputs {min(inputs) + 1} to {max(inputs) + 1}"


def at(place: Point, row: int, position: int) -> Point:
    """Where a vector's dot is: row 0, the inputs, lowest."""
    return place[0] + position * APART, place[1] + 24 + (len(ROWS) - 1 - row) * RISE


def panel(pen: Pen, place: Point, name: str, title: str, masks: Masks, output: int) -> None:
    """All allowed steps; the cone of one output; and what each output hears, if one asks it."""
    x, below = place[0] + 2 * APART, place[1] + 24 + 2 * RISE
    pen.text(x, place[1] - 12, title, "b")
    if name == "a" or pen.width == 360:
        for row, words in enumerate(ROWS):
            pen.text(place[0] - 18, at(place, row, 0)[1] + 4, words, "s muted f e")
    for row in range(len(ROWS)):
        for i in range(T):
            node(pen, place, name, masks, (row, i))
    with pen.group("rest"):
        cone(pen, place, masks, output)
        pen.text(x, below + 48, says(masks, output), "s")
    for i in range(T):
        pen.text(at(place, 0, i)[0], below + 24, str(i + 1), "s muted f")
        with pen.group("note", part=f"{name}n{i}"):
            pen.text(x, below + 48, says(masks, i), "s")


def node(pen: Pen, place: Point, name: str, masks: Masks, which: tuple[int, int]) -> None:
    """A vector and the steps that lead to it; an output can be asked what it hears."""
    (row, i), on = which, ""
    if row == len(masks):
        rows = heard(masks, i)
        names = [f"{name}{r}{j}" for r, seen in enumerate(rows) for j in sorted(seen)]
        on = " ".join([*names, f"{name}n{i}"])
    with pen.group(part=f"{name}{row}{i}", on=on, says=says(masks, i) if on else ""):
        pen.dot(*at(place, row, i), "muted f", 4)
        if on:
            pen.dot(*at(place, row, i), "clear", 14)
        for j in sources(masks, row, i):
            pen.line([at(place, row - 1, j), at(place, row, i)], "hair", "")


def sources(masks: Masks, row: int, i: int) -> list[int]:
    return masks[row - 1][i].nonzero()[:, 0].tolist() if row else []


def cone(pen: Pen, place: Point, masks: Masks, output: int) -> None:
    """What one output depends on; a step that comes from the right is drawn in ink."""
    for row, seen in enumerate(heard(masks, output)):
        for i in sorted(seen):
            for j in sources(masks, row, i):
                look = "mark" if j > i else "weight k"
                pen.line([at(place, row - 1, j), at(place, row, i)], look, "")
            size: Length = 6 if (row, i) == (len(masks), output) else 5
            pen.dot(*at(place, row, i), "weight f", size)
