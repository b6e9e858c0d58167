"""Explorable: how much of a change a product of two thin matrices keeps, rank by rank."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch

from bookkit.explore.element import Explorable
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

MOST = 48  # ranks that are shown
WHAT = ("change", "model")


class LowRankChange(Explorable):
    """A corner of one matrix of the book's language model, and its best approximation of a rank.

    `what` is the change that fine-tuning with all weights has made to it, or the matrix as it was
    before. From the stored run of `results/low_rank.py`.
    """

    tag = "low-rank"
    needs = ("axis", "maths")
    question = "How many ranks does a change need?"

    def __init__(self, rank: int = 4, what: str = "change"):
        if not 1 <= rank <= MOST or what not in WHAT:
            raise ValueError(
                f"ranks are 1 to {MOST}, and what is shown is change or model; got {rank} and "
                f"{what!r}"
            )
        self.begin: dict[str, Any] = {"rank": rank, "what": what}
        self.run: dict[str, Any] = stored_run("low_rank")["shown"]

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {name: self.run[name] for name in (*WHAT, "shape")}

    def result(self, state: dict) -> dict:
        """Shares kept of the change and of the matrix, how many numbers, and the corner."""
        rank, one = state["rank"], self.run[state["what"]]
        left, right = (torch.tensor(one[side], dtype=torch.float64) for side in ("left", "right"))
        return {
            "kept": [self.run[what]["kept"][rank - 1] for what in WHAT],
            "numbers": rank * sum(self.run["shape"]),
            "corner": (left[:, :rank] @ right[:rank]).tolist(),
        }

    def cases(self) -> Iterator[dict]:
        for rank, what in product((1, 2, 3, 8, 17, 48), WHAT):
            yield {"rank": rank, "what": what}

    def picture(self) -> str:
        """The two curves, with a dot at the rank."""
        rank, picture = self.begin["rank"], Still(430, 220, self.sentence())
        for n, (what, role) in enumerate(zip(WHAT, ("output", "state"), strict=True)):
            points = [
                (58 + 360 * i / (MOST - 1), 180 - 160 * share)
                for i, share in enumerate(self.run[what]["kept"])
            ]
            picture.line(points, role, 2.4)
            x, y = points[rank - 1]
            picture.bar(x - 4, y - 4, 8, 8, role)
            words = "of the change" if what == "change" else "of the matrix itself"
            picture.text(
                418, points[-1][1] + (20 if n == 0 else -12), words, role, "end", bold=True
            )
        for share in (0, 50, 100):
            picture.text(50, 184 - 1.6 * share, f"{share} %", "muted", "end", 13)
        for mark in (1, 12, 24, 36, MOST):
            picture.text(58 + 360 * (mark - 1) / (MOST - 1), 198, mark, "muted", size=13)
        picture.text(238, 214, "rank", "muted", size=13)
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        rows, columns = self.run["shape"]
        change, model = (f"{100 * share:.0f} %" for share in now["kept"])
        return (
            f"Rank {state['rank']} keeps {change} of the change, with {now['numbers']:,} numbers "
            f"instead of {rows * columns:,}. Of the matrix itself it would keep {model}."
        )
