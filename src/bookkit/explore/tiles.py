"""Explorable: softmax and weighted mean in one pass, tile by tile."""

import math
import random
from collections.abc import Iterator, Sequence

import torch

from attnbook.attention import masked_softmax
from attnbook.masks import causal_mask
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

POWERS = (1, 4, 2, 8, 1, 16, 2, 4)
VALUES = (30, 0, 15, 45, 20, 5, 60, 10)


class Tiles(Explorable):
    """One query reads keys and values tile by tile and keeps three numbers, as FlashAttention does.

    `powers` are e to the power of its scores, 0 to 16 (0: not looked at), `values` are 0 to 60,
    eight of each; `T` (4, 6 or 8) are used. Shown are the first `tile` tiles of `block` keys.
    Without arguments: the case on paper of chapter 10.
    """

    tag = "tiles"
    needs = ("maths", "axis", "stepper")
    question = "Can a softmax be computed without seeing all scores?"

    def __init__(
        self,
        powers: Sequence[int] = POWERS,
        values: Sequence[int] = VALUES,
        T: int = 4,
        block: int = 1,
        tile: int = 3,
    ):
        self.powers, self.values = list(map(int, powers)), list(map(int, values))
        if len(self.powers) != 8 or len(self.values) != 8:
            raise ValueError(
                f"8 powers and 8 values; got {len(self.powers)} and {len(self.values)}"
            )
        if not 0 <= min(self.powers) <= max(self.powers) <= 16:
            raise ValueError(f"powers are 0 to 16; got {self.powers}")
        if not 0 <= min(self.values) <= max(self.values) <= 60:
            raise ValueError(f"values are 0 to 60; got {self.values}")
        if T not in (4, 6, 8) or not 1 <= block <= T or not 1 <= tile <= math.ceil(T / block):
            raise ValueError(
                f"T is 4, 6 or 8, block 1 to T, tile 1 to T/block; got {T}, {block}, {tile}"
            )
        self.T, self.block, self.tile = T, block, tile

    def start(self) -> dict:
        sizes = {"T": self.T, "block": self.block, "tile": self.tile, "row": self.T - 1}
        return {**sizes, "causal": False, "powers": self.powers, "values": self.values}

    def result(self, state: dict) -> dict:
        """The three numbers after each tile are softmax and mean over the keys read so far."""
        T, block = state["T"], state["block"]
        row = min(state["row"], T - 1)
        scores = torch.tensor(state["powers"][:T], dtype=torch.float64).log()
        values = torch.tensor(state["values"][:T], dtype=torch.float64)
        allowed = causal_mask(T) if state["causal"] else torch.ones(T, T, dtype=torch.bool)
        mask = allowed[row] & (scores > -math.inf)
        ends = [min(end, T) for end in range(block, T + block, block)]
        read = [mask & upto(end, T) for end in ends]
        answers = [(masked_softmax(scores[None], seen) @ values).item() for seen in read]
        place = min(state["tile"], len(ends)) - 1
        seen = scores.masked_fill(~read[place], -math.inf)
        top = seen.max()
        weights = torch.exp(seen - top) if top > -math.inf else torch.zeros(T)
        sums = {"z": weights.sum().item(), "u": (weights.to(values) @ values).item()}
        tiles = [tile for rows in allowed.split(block) for tile in rows.split(block, 1)]
        sizes = [tile.numel() for tile in tiles if tile.any()]
        counts = {"tiles": len(sizes), "skipped": len(tiles) - len(sizes)}
        counts |= {"scored": sum(sizes), "held": max(sizes)}
        now = {"top": top.exp().item(), **sums, "answer": answers[place], "answers": answers}
        return {**now, **counts}

    def cases(self) -> Iterator[dict]:
        yield {"tile": 4}
        pick = random.Random(0)
        for _ in range(80):
            T = pick.choice((4, 6, 8))
            yield {
                "T": T,
                "block": pick.randint(1, T),
                "tile": pick.randint(1, 8),
                "row": pick.randrange(T),
                "causal": pick.random() < 0.5,
                "powers": [pick.randrange(17) for _ in range(8)],
                "values": [pick.randrange(61) for _ in range(8)],
            }
        yield {"powers": [0] * 8}

    def picture(self) -> str:
        """The row of the query, the three numbers, the answers after each tile."""
        now, T = self.result(self.start()), self.T
        label = "answers after each tile: " + ", ".join(f"{x:.2f}" for x in now["answers"])
        picture = Still(400, 198, label)
        for y, (name, row, role, most) in enumerate(
            (("exp(s)", self.powers, "weight", 16), ("value", self.values, "value", 60))
        ):
            picture.text(72, 36 * y + 22, name, role, "end", bold=True)
            for j, x in enumerate(row[:T]):
                picture.cell(80 + 40 * j, 36 * y, 36, 32, role, x / most, number(x))
        kept = {"largest": now["top"], "z": now["z"], "u": now["u"], "u / z": now["answer"]}
        for n, (name, x) in enumerate(kept.items()):
            picture.text(60 + 90 * n, 98, name, "muted", size=12)
            picture.cell(20 + 90 * n, 104, 80, 32, "state" if n < 3 else "output", 0.5, number(x))
        place = lambda x: 20 + 360 * x / max(self.values)  # noqa: E731
        picture.line([(20, 164), (380, 164)])
        for n, x in enumerate(now["answers"][: self.tile], 1):
            picture.bar(place(x) - 4, 160, 8, 8, "output" if n == self.tile else "line")
        exact = place(now["answers"][-1])
        picture.line([(exact, 152), (exact, 176)], "ink", 2)
        picture.text(exact, 188, f"exact {number(now['answers'][-1])}", size=12)
        return picture.svg()

    def sentence(self) -> str:
        now, last = self.result(self.start()), math.ceil(self.T / self.block)
        answer, exact = (f"{x:.2f}".replace(".00", "") for x in (now["answer"], now["answers"][-1]))
        verb = "are" if now["held"] > 1 else "is"
        kept = f"Only {now['held']} of the {self.T**2} scores {verb} held at a time."
        if self.tile == last:
            return f"After the last tile the answer is exact: {exact}. {kept}"
        stop = f"After {self.tile} of {last} tiles the answer would be {answer}"
        return f"{stop}, the exact one is {exact}. {kept}"


def upto(end: int, T: int) -> torch.Tensor:
    """True for the first `end` of T places."""
    return torch.arange(T) < end
