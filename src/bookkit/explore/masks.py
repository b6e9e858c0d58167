"""Explorable: a mask to paint, and who hears of whom after some layers."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attnbook.efficient.sparse import hubs, strided
from attnbook.masks import And, Or, Rule, causal, local, pattern_mask
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still

LAYERS = 4


def first(w: int) -> Rule:
    """Everybody looks at the first `w` places."""
    return lambda i, j: (i >= 0) & (j < w)


# name: the pattern of a width w, and how it is written in Python with indices i and j
PATTERNS: dict[str, tuple[Callable[[int], Rule], str]] = {
    "all": (lambda w: lambda i, j: i + j >= 0, "i + j >= 0"),
    "causal": (lambda w: causal, "i >= j"),
    "window": (lambda w: And(causal, local(w)), "(i >= j) & (i - j < w)"),
    "blocks": (lambda w: lambda i, j: i // w == j // w, "i // w == j // w"),
    "hubs": (hubs, "(i < w) | (j < w)"),
    "global": (
        lambda w: And(causal, Or(first(1), local(1))),
        "(i >= j) & ((j == 0) | (i == j))",
    ),
    "prefix": (lambda w: Or(causal, first(w)), "(i >= j) | (j < w)"),
    "documents": (
        lambda w: And(causal, lambda i, j: (i < w) == (j < w)),
        "(i >= j) & ((i < w) == (j < w))",
    ),
    "strided": (strided, "(i - j) % w == 0"),
}


class MaskPainter(Explorable):
    """A mask of T × T cells, True where row i may look at column j, which the reader paints.

    It starts with a `pattern` of PATTERNS and its `width`, and the cells of `flips` turned over.
    `row` is the one that is followed over four layers; dots show who hears of whom after `layers`.
    """

    tag = "masks"
    needs = ("stepper",)
    target = 26  # thirteen columns on a phone of 390 pixels; WCAG 2.2 asks for 24
    question = "Who hears of whom?"

    def __init__(
        self,
        pattern: str = "causal",
        width: int = 3,
        flips: Sequence[tuple[int, int]] = ((2, 9),),
        row: int = 4,
        layers: int = 2,
        T: int = 12,
    ):
        if pattern not in PATTERNS:
            raise ValueError(f"pattern is one of {', '.join(PATTERNS)}; got {pattern!r}")
        if not 4 <= T <= 12 or not 1 <= width <= T or not 1 <= layers <= LAYERS:
            raise ValueError(
                f"T is 4 to 12, width 1 to T, layers 1 to {LAYERS}; got {T}, {width}, {layers}"
            )
        if any(not 0 <= place < T for place in (row, *itertools.chain(*flips))):
            raise ValueError(f"row and flips are places from 0 to {T - 1}; got {row} and {flips}")
        self.begin: dict[str, Any] = {
            "pattern": pattern,
            "width": width,
            "row": row,
            "layers": layers,
        }
        self.flips, self.T = sorted([i, j] for i, j in flips), T

    def start(self) -> dict:
        return {**self.begin, "flips": self.flips}

    def fixed(self) -> dict:
        return {"T": self.T, "python": {name: line for name, (_, line) in PATTERNS.items()}}

    def masks(self, state: dict) -> tuple[Tensor, Tensor]:
        """The pattern, and the mask: the pattern with its flips."""
        pattern: Rule = PATTERNS[state["pattern"]][0](state["width"])
        base = pattern_mask(pattern, self.T)
        mask = base.clone()
        for i, j in state["flips"]:
            mask[i, j] ^= True
        return base, mask

    def result(self, state: dict) -> dict:
        """The mask, what the row hears of after each layer, which rows hear of something new."""
        base, mask = self.masks(state)
        before, after = (reaches(m) for m in (base, mask))
        new = (after & ~before).any(-1)
        return {
            "mask": mask.tolist(),
            "reach": after[:, state["row"]].tolist(),
            "told": [rows.nonzero()[:, 0].tolist() for rows in new],
            "pairs": int(mask.sum()),
            "complete": after.flatten(1).all(1).tolist(),
        }

    def cases(self) -> Iterator[dict]:
        yield {"flips": [], "row": self.T - 1}
        pick = random.Random(0)
        place = lambda: pick.randrange(self.T)  # noqa: E731
        for name in PATTERNS:
            for width in (1, 2, 3, 5, self.T):
                cells = {(place(), place()) for _ in range(pick.randrange(3))}
                flips = sorted([i, j] for i, j in cells)
                yield {"pattern": name, "width": width, "flips": flips, "row": place()}
        yield {"pattern": "all", "flips": [[3, j] for j in range(self.T)], "row": 3}

    def picture(self) -> str:
        """The mask; dots where somebody hears of somebody by a detour."""
        _, mask = self.masks(self.start())
        heard = reaches(mask)[self.begin["layers"] - 1]
        label = f"mask of {self.T} rows: " + "; ".join(
            f"row {i} looks at {', '.join(str(j) for j in range(self.T) if mask[i, j])}"
            for i in range(self.T)
        )
        picture = Still(26 * (self.T + 1), 26 * (self.T + 1), label)
        for i in range(self.T):
            picture.text(26 * i + 38, 18, i, "muted", size=12)
            picture.text(12, 26 * i + 44, i, "muted", size=12)
        squares(picture, mask, 24, "weight")
        squares(picture, heard & ~mask, 8, "ink")
        for i, j in self.flips:
            x, y = 26 * (j + 1), 26 * (i + 1)
            corners = [(x, y), (x + 24, y), (x + 24, y + 24), (x, y + 24), (x, y)]
            picture.line(corners, "ink", 2.5)
        return picture.svg()

    def sentence(self) -> str:
        now, layers, flips = self.result(self.start()), self.begin["layers"], self.flips
        counts = [sum(line) for line in now["reach"]]
        seen = f"hears of {', '.join(map(str, counts))} places after 1, 2, 3, 4 layers"
        here = f"Row {self.begin['row']} {seen if counts[0] else 'sees nothing and gets zeros'}."
        if not flips:
            first = now["complete"].index(True) + 1 if any(now["complete"]) else 0
            whole = f" All hear of all after {first} layer{'s' if first > 1 else ''}."
            return here + (whole if first else "")
        cells = "One flipped cell tells" if len(flips) == 1 else f"{len(flips)} flipped cells tell"
        first, then = now["told"][0], now["told"][layers - 1]
        if not then:
            return f"{cells} nobody anything new. {here}"
        later = f", and after {layers} layers {named(then)}" if layers > 1 else ""
        return f"{cells} {named(first) if first else 'nobody'} something new{later}. {here}"


def squares(picture: Still, cells: Tensor, side: int, role: str) -> None:
    """Draw a square in each cell that is True, all as one shape."""
    edge = (24 - side) // 2 + 26
    shape = "".join(
        f"M{26 * j + edge} {26 * i + edge}h{side}v{side}h-{side}z"
        for i, j in cells.nonzero().tolist()
    )
    picture.add(f'<path d="{shape}" style="fill:var(--d-{role})"/>')


def reaches(mask: Tensor) -> Tensor:
    """Who hears of whom after 1 … 4 layers (layers, T, T): the powers of the mask."""
    powers = [torch.linalg.matrix_power(mask.double(), n) > 0 for n in range(1, LAYERS + 1)]
    return torch.stack(powers)


def named(rows: list[int]) -> str:
    """ "row 2", "rows 2 to 8", "rows 1, 4", "5 rows"."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    if rows[-1] - rows[0] == len(rows) - 1:
        return f"rows {rows[0]} to {rows[-1]}"
    return f"{len(rows)} rows" if len(rows) > 3 else f"rows {', '.join(map(str, rows))}"
