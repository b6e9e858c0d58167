"""Residual connection, norm and small start: which does a stack need, and at which depth?

    python results/block_parts.py        # resumed run by run; about half an hour on one free core

Question. Chapter 6 takes parts of a block away. Which of three does a stack need to learn: the
residual connection, the norm in front of a sublayer, matrices that write to the stream and start
smaller by √(2N) for N blocks? All eight combinations. With all but the small start it is pre-norm.
Task. That of `blocks.py`: six digits are written backwards; width 32, Adam at a constant rate.
Measure. Steps until the mean loss of the last ten is below 0.23 nats, a tenth of a guess (ln 10):
most digits are then right. After 400 steps of 32 rows, five times the 80 of `blocks.py`, a run has
not reached it. A run ends earlier where its loss is not finite, or where after 120 steps or more it
is above 2.2 nats, nearly a guess: it has not reached the loss either. Its last loss is kept.
Depths 2, 12 and 6, in this order, each stored when it is whole. 24 blocks would take as long as the
three together and are left out.
Grid. The rate 0.0015, 0.005, 0.015 for each stack and depth, by the mean of seeds 100 to 102 over
120 steps: the steps to the loss, or where it is not reached 120 times one and the loss as a share
of a guess, two at most. A grid grows where its end is best, twice at most; where an end is best
still, that is stored.
Reporting seeds 0 to 5. The seeds of a stack are trained side by side: the book's modules, mapped
over the weights of all seeds by `vmap` (a test compares them with one alone). The stored runs had
the same arithmetic written out for several seeds.
Baselines. A guess, ln 10; pre-norm from Xavier's start.
No gain. A part gains nothing at a depth, the other two given, if the 95 % interval of the paired
difference in steps, without it minus with it, contains 0, or if no seed reaches the loss either
way. A run that does not reach it counts as 400, so such a difference is a lower bound.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from blocks import Bare, quieter, reversing, stack
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from attnbook import device
from attnbook.block import PreNorm
from attnbook.norms import LayerNorm
from attnbook.positions import Sinusoidal
from attnbook.provenance import provenance, write
from attnbook.transformer import Embed, MaskedLanguageModel, initialise, xavier
from bookkit.results.protocol import EndOfGrid, Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "block_parts.json"
STUDY = Study(
    name="block_parts",
    question="Which of residual, norm and small start does a stack need, at which depth?",
    budget="400 steps of 32 rows",
    grid={"rate": (0.0015, 0.005, 0.015)},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(6),
    baselines=("a guess, ln 10", "pre-norm from Xavier's start"),
    no_gain="the interval of the paired difference in steps, without the part minus with it, "
    "contains 0, or no seed reaches the loss either way",
)
DEPTHS, WIDTH, HEADS, V, LAST = (2, 12, 6), 32, 4, 10, 10
CAP, CHOOSE, GUESS = 400, 120, math.log(V)
LOSS, HOPELESS = round(GUESS / 10, 2), 2.2
Ran = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """Which of the three parts a stack has."""

    residual: bool
    norm: bool
    small: bool

    def __str__(self) -> str:
        parts = {"residual": self.residual, "norm": self.norm, "small start": self.small}
        return ", ".join(part for part, there in parts.items() if there) or "none of them"


WAYS = [Way(*parts) for parts in product((True, False), repeat=3)]


def model(way: Way, depth: int, seed: int) -> nn.Module:
    """A stack of the book's own modules."""
    torch.manual_seed(seed)
    wrap, norm = PreNorm if way.residual else Bare, LayerNorm if way.norm else nn.Identity
    body = stack(wrap, norm, depth, WIDTH, HEADS)
    made = MaskedLanguageModel(Embed(V, WIDTH, Sinusoidal(WIDTH)), body, nn.Linear(WIDTH, V))
    initialise(made, xavier, embedding_std=1.0)
    if way.small:
        quieter(body)
    return made


def trained(way: Way, depth: int, rate: float, seeds: Sequence[int], cap: int) -> list[Ran]:
    """For each seed the steps to the loss, None if it was not reached, and the last loss."""
    models = [model(way, depth, seed) for seed in seeds]
    weights = stack_module_state(models)[0]  # (seeds, …)
    logits = vmap(partial(functional_call, models[0]))
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    optimizer = torch.optim.Adam(list(weights.values()), rate, fused=True)
    last: list[Tensor] = []
    found: dict[int, Ran] = {}
    for step in range(1, cap + 1):
        x, y = (torch.stack(part) for part in zip(*map(reversing, draws), strict=True))
        scores = logits(weights, x).flatten(0, 2)  # (seeds·B·T, V)
        each = F.cross_entropy(scores, y.flatten(), reduction="none").view(len(seeds), -1).mean(1)
        last = [*last[1 - LAST :], each.detach()]
        for at, mean in enumerate(torch.stack(last).mean(0).tolist()):
            there, finite = step >= LAST and mean < LOSS, math.isfinite(mean)
            over = step == cap or not finite or (step >= CHOOSE and mean > HOPELESS)
            if at not in found and (there or over):
                loss = round(mean, 4) if finite else None
                found[at] = {"steps": step if there else None, "loss": loss}
        if len(found) == len(seeds):
            break
        optimizer.zero_grad()
        each.sum().backward()
        shorten([w.grad for w in weights.values() if w.grad is not None])
        optimizer.step()
    return [found[at] for at in range(len(seeds))]


@torch.no_grad()
def shorten(grads: Sequence[Tensor]) -> None:
    """Each seed's gradient is shortened to length 1, as `train` does it."""
    length = torch.stack([g.flatten(1).square().sum(1) for g in grads]).sum(0).sqrt()
    short = (1 / length).clamp(max=1)
    for g in grads:
        g.mul_(short.view(-1, *[1] * (g.dim() - 1)))


def score(ran: Ran) -> float:
    """What a rate is chosen by, in steps: fewer are better."""
    if ran["steps"] is not None:
        return ran["steps"]
    share = 1.0 if ran["loss"] is None else min(1.0, ran["loss"] / GUESS)
    return CHOOSE * (1 + share)


def at_depth(depth: int, runs: Runs) -> dict[str, Any]:
    """Of each stack the rates that were tried, the best, and what six seeds reach with it."""
    table: dict[str, Any] = {}
    for way in WAYS:

        def seeds(rate: float, which: Sequence[int], cap: int, way: Way = way) -> list[Ran]:
            key = f"{depth}/{way}/{rate:g}/{which[0]} to {which[-1]}"
            return runs.get(key, lambda: trained(way, depth, rate, which, cap))

        chosen, tried = tuple(STUDY.choosing_seeds), dict[float, float]()

        def chosen_by(rate: float, seed: int) -> float:
            found = [score(ran) for ran in seeds(rate, chosen, CHOOSE)]  # noqa: B023
            tried[rate] = round(sum(found) / len(found), 1)  # noqa: B023
            return found[chosen.index(seed)]  # noqa: B023

        try:
            rate = STUDY.choose("rate", chosen_by, grow=2, baseline=2 * CHOOSE)[0]
        except EndOfGrid:
            rate = min(tried, key=lambda rate: tried[rate])
        reported = seeds(rate, tuple(STUDY.reporting_seeds), CAP)
        table[str(way)] = {
            "rate": rate,
            "inside": min(tried) < rate < max(tried),
            "rates": {f"{rate:g}": tried[rate] for rate in sorted(tried)},
            "steps": [ran["steps"] for ran in reported],
            "losses": [ran["loss"] for ran in reported],
        }
    return table


def gains(table: dict[str, Any]) -> dict[str, Any]:
    """Steps without a part minus steps with it, the other two given; None if nobody arrives."""

    def steps(way: Way) -> list[int]:
        return [CAP if found is None else found for found in table[str(way)]["steps"]]

    found: dict[str, Any] = {}
    for way, part in product(WAYS, ("residual", "norm", "small")):
        if getattr(way, part):
            less = replace(way, **{part: False})
            given = steps(less), steps(way)
            apart = None if min(map(min, given)) == CAP else difference(*given, paired=True)
            found[f"{less} minus {way}"] = None if apart is None else apart.as_dict()
    return found


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "block_parts.draft", write)
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}}
    result |= {"loss": LOSS, "cap": CAP, "depths": {}, "gains": {}}
    for depth in DEPTHS:
        table = at_depth(depth, runs)
        result["depths"][str(depth)], result["gains"][str(depth)] = table, gains(table)
        write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
