"""How large do scores become in training, at each width, divided by √D and by D?

    python results/score_sizes.py        # resumed run by run; a few minutes on one core

Question. Independent queries and keys of width D have a dot product of the size √D. Training makes
them alike; does their dot product then grow like D? And does division by D instead of √D make the
learning rate that is best for narrow queries and keys the best one for wide ones, as μP has it?
Task. The ring of six people (chapter 3): one attention and a linear layer. Only the width D of
queries and keys changes, from 16 to 256; values have 20 numbers at every width. Entries of q and
k have variance 1 at the start. Scores are divided by √D, or by D / 4, which is the same at D = 16.
Size of scores: of the dot products, not divided, the standard deviation over the six keys of a
query, averaged over 300 new rings; what is common to a row does not count in a softmax.
Budget. 150 steps of Adam with 64 rings, a constant rate.
Grid. The learning rate 0.001 to 0.1 in steps of about three, for each width and divisor, by the
mean loss over the 150 steps, the mean of seeds 100 to 102; a grid grows where its end is best.
Reporting seeds 0 to 4.
Baselines. The size before training; the loss of a guess, ln 8; the rate of width 16 at each width.
No gain. Training adds to scores no more than chance does if the 95 % interval of the exponent of
their change in the first ten steps, at the rate 0.003 for all widths, contains 0.5. Division by D
transfers no better if the interval of the paired difference of what the rate of width 16 costs at
width 256 contains 0.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook import device
from attnbook.data import ring
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval

Found = dict[str, list[float]]
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "score_sizes.json"
STUDY = Study(
    name="score_sizes",
    question="Do trained scores grow like D, and does division by D let the rate carry over?",
    budget="150 steps of 64 rings",
    grid={"rate": (0.001, 0.003, 0.01, 0.03, 0.1)},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("before training", "a guess, ln 8", "the rate of width 16"),
    no_gain="the interval of the exponent of the change contains 0.5",
)
WIDTHS = (16, 32, 64, 128, 256)
DIVISORS: dict[str, Callable[[int], float]] = {"√D": math.sqrt, "D": lambda D: D / 4}
STEPS, EARLY, COMMON = 150, 10, 0.003


@cache
def unseen() -> tuple[Tensor, Tensor]:
    """The rings on which all are measured."""
    return ring.ring(torch.Generator().manual_seed(99), B=300)


def trained(D: int, divisor: str, rate: float, seeds: Sequence[int], steps: int = STEPS) -> Found:
    """Loss and sizes, a list over seeds, which are trained side by side; NaN where it diverged."""
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    shapes = (ring.C, D), (ring.C, D), (ring.C, ring.C), (ring.C, ring.V)

    def drawn(C: int, width: int) -> nn.Parameter:
        each = [torch.randn(C, width, generator=draw) for draw in draws]
        return nn.Parameter(torch.stack(each)[:, None] * 3**-0.5)  # a row of x holds three ones

    to_q, to_k, to_v, read = parts = [drawn(*shape) for shape in shapes]
    optimizer, by = torch.optim.Adam(parts, rate), DIVISORS[divisor](D)

    def dots(x: Tensor) -> Tensor:
        return (x @ to_q) @ (x @ to_k).mT  # (seeds, B, 6, 6)

    def answer(x: Tensor) -> Tensor:
        return (dots(x) / by).softmax(-1) @ (x @ to_v) @ read

    @torch.no_grad()
    def scores() -> Tensor:
        s = dots(unseen()[0])
        return s - s.mean(-1, keepdim=True)

    def each(numbers: Tensor) -> list[float]:
        return [float(f"{n:.5g}") for n in numbers.tolist()]

    def size(s: Tensor) -> list[float]:
        return each(s.std(-1, unbiased=False).mean((1, 2)))

    first, losses = scores(), []
    for _ in range(steps):
        x, y = (torch.stack(part) for part in zip(*map(ring.ring, draws), strict=True))
        loss = F.cross_entropy(answer(x).movedim(-1, 1), y, reduction="none").mean((1, 2))
        optimizer.zero_grad()
        loss.sum().backward()  # each seed has weights of its own
        optimizer.step()
        losses.append(loss.detach())
    x, y = unseen()
    with torch.no_grad():
        right = (answer(x).argmax(-1) == y).float().mean((1, 2))
    found = {"start": size(first), "end": size(scores()), "change": size(scores() - first)}
    return found | {"loss": each(torch.stack(losses).mean(0)), "right": each(right)}


def exponent(sizes: list[float]) -> float:
    """The slope of log size over log D."""
    return float(np.polyfit(np.log(WIDTHS), np.log(sizes), 1)[0])


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "score_sizes.draft", write)

    def seeds(D: int, divisor: str, rate: float, which: Sequence[int], steps: int = STEPS) -> Found:
        key = f"{divisor}/{D}/{rate:g}/{which[0]} to {which[-1]}/{steps}"
        return runs.get(key, lambda: trained(D, divisor, rate, which, steps))

    chosen, reported = tuple(STUDY.choosing_seeds), tuple(STUDY.reporting_seeds)
    table: dict[str, Any] = {}
    exponents: dict[str, Any] = {}
    for divisor in DIVISORS:
        rows: dict[str, Any] = {}
        for D in WIDTHS:

            def loss(rate: float, seed: int, D: int = D, divisor: str = divisor) -> float:
                return seeds(D, divisor, rate, chosen)["loss"][chosen.index(seed)]

            rate, tried = STUDY.choose("rate", loss)
            narrow = rows["16"]["rate"] if rows else rate
            rows[str(D)] = {
                "rate": rate,
                "rates": {f"{r:g}": round(nats, 4) for r, nats in tried.items()},
                "best": seeds(D, divisor, rate, reported),
                "carried": seeds(D, divisor, narrow, reported),
                "early": seeds(D, divisor, COMMON, reported, EARLY),
            }
        table[divisor] = rows
        for what, which in (("start", "best"), ("change", "early"), ("end", "best")):
            each = [
                exponent([rows[str(D)][which][what][i] for D in WIDTHS])
                for i in range(len(reported))
            ]
            found = interval(each)
            exponents[f"{divisor}: {what}"] = {
                "each": [round(n, 4) for n in each],
                "mean": round(found.mean, 4),
                "low": round(found.low, 4),
                "high": round(found.high, 4),
            }

    def cost(divisor: str) -> list[float]:
        wide = table[divisor][str(WIDTHS[-1])]
        return [a - b for a, b in zip(wide["carried"]["loss"], wide["best"]["loss"], strict=True)]

    carried = difference(cost("√D"), cost("D"), paired=True).as_dict()
    result = {"study": STUDY.declared() | {"declared": said}, "table": table}
    result |= {"exponents": exponents, "cost of the rate of width 16, √D minus D": carried}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
