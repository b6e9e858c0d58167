"""With the small start offered to both, do norms gain anything in twelve blocks?

    python results/small_start.py        # resumed run by run; a few minutes on one core

Question. In `blocks.py` a stack of twelve blocks without norms learns to write six digits backwards
once the matrices that write to its stream start smaller by √(2N). Only that stack was given the
smaller start. Given it too, is the stack with norms (pre-norm) better?
Budget. 80 steps of 32 rows, Adam at a constant rate, as in `blocks.py`; the mean loss of the last
ten steps.
Grid. The rate 0.0015, 0.005, 0.015, 0.05 for each stack, by that loss, the mean of seeds 100 to
102; a grid grows where its end is best.
Reporting seeds 0 to 4. The seeds of a stack are trained side by side.
Baselines. A guess, ln 10; pre-norm with Xavier's start, stored by `blocks.py`.
No gain. Norms gain nothing beside the small start if the 95 % interval of the paired difference
contains 0.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from blocks import loss as nats
from blocks import quieter, reversing, stack
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbook import device
from attnbook.block import PreNorm
from attnbook.norms import LayerNorm
from attnbook.positions import Sinusoidal
from attnbook.provenance import provenance, write
from attnbook.transformer import Embed, MaskedLanguageModel, initialise, xavier
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "small_start.json"
STUDY = Study(
    name="small_start",
    question="With the small start on both sides, do norms gain anything in twelve blocks?",
    budget="80 steps of 32 rows",
    grid={"rate": (0.0015, 0.005, 0.015, 0.05)},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("a guess, ln 10", "pre-norm with Xavier's start"),
    no_gain="the interval of the paired difference, no norm minus pre-norm, contains 0",
)
WAYS = {
    "pre-norm": LayerNorm,
    "no norm": nn.Identity,
}
STEPS, LAST, DEPTH = 80, 10, 12


def model(way: str, seed: int) -> nn.Module:
    """Twelve blocks as `blocks.py` builds them, from the small start."""
    torch.manual_seed(seed)
    body = stack(PreNorm, WAYS[way], DEPTH, width=32, heads=4)
    made = MaskedLanguageModel(Embed(10, 32, Sinusoidal(32)), body, nn.Linear(32, 10))
    initialise(made, xavier, embedding_std=1.0)
    quieter(body)
    return made


def trained(way: str, rate: float, seeds: Sequence[int]) -> list[float]:
    """The mean loss of the last ten steps, for each seed."""
    made = [model(way, seed) for seed in seeds]
    weights = stack_module_state(made)[0]  # (seeds, …)
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    optimizer, losses = torch.optim.Adam(list(weights.values()), rate), []

    def one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):  # the one that runs with a further axis in front
            return nats(lambda x: functional_call(made[0], weights, (x,)), (x, y))  # type: ignore[arg-type]

    for _ in range(STEPS):
        x, y = (torch.stack(part) for part in zip(*map(reversing, draws), strict=True))
        each = torch.vmap(one)(weights, x, y)
        optimizer.zero_grad()
        each.sum().backward()
        with torch.no_grad():  # each seed's gradient is shortened to length 1, as `train` does it
            grads = [w.grad for w in weights.values() if w.grad is not None]
            length = sum(g.flatten(1).square().sum(1) for g in grads).sqrt()
            short = (1 / length).clamp(max=1)
            for g in grads:
                g.mul_(short.view(-1, *[1] * (g.dim() - 1)))
        optimizer.step()
        losses.append(each.detach())
    return [round(n, 4) for n in torch.stack(losses[-LAST:]).mean(0).tolist()]


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "small_start.draft", write)
    chosen, reported = tuple(STUDY.choosing_seeds), tuple(STUDY.reporting_seeds)
    table: dict[str, dict[str, Any]] = {}
    for way in WAYS:

        def seeds(rate: float, which: Sequence[int], way: str = way) -> list[float]:
            key = f"{way}/{rate:g}/{which[0]} to {which[-1]}"
            return runs.get(key, lambda: trained(way, rate, which))

        def chosen_by(rate: float, seed: int, way: str = way) -> float:
            return seeds(rate, chosen, way)[chosen.index(seed)]

        rate, tried = STUDY.choose("rate", chosen_by)
        table[way] = {
            "rate": rate,
            "rates": {
                f"{r:g}": round(n, 4) if math.isfinite(n) else "diverged" for r, n in tried.items()
            },
            "losses": seeds(rate, reported),
        }
    norm, bare = (table[way]["losses"] for way in WAYS)
    result = {"study": STUDY.declared() | {"declared": said}, "table": table}
    result["no norm minus pre-norm"] = difference(bare, norm, paired=True).as_dict()
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
