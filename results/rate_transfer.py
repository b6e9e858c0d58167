"""Does the best learning rate of a narrow model carry over to a wide one, with μP and without?

    python results/rate_transfer.py        # resumed run by run; about 15 minutes on one core

Question. The best rate of a Llama of width 32 is used at 64, 128 and 256. What does that cost
against the best rate of each width: in the standard parametrisation, and in μP?
Ways. Standard: every matrix starts with a standard deviation of 0.02 √(768 / width), all embeddings
with that of width 32, and all weights have one rate. μP: at width 256 the head starts √8 times
smaller, scores are divided by another √8 (4 heads at every width), and the rates of matrices and
head are divided by 8, those of embeddings and gains are not. At width 32 the two are one model.
Two more at width 256: the standard parametrisation with μP's rates alone, and with its start and
scores alone.
Model. 2 blocks, 4 heads, hidden width 2 × width, head not tied, on the embedded documentation.
Budget. 128 steps of 8 windows of 32 characters, Adam (0.9, 0.95) without decay and clipping, 13
steps of warm-up, then a cosine to a tenth; the last model's held-out loss.
Grid. The rate, in steps of 2, three values for each width and way: 0.004, 0.008, 0.016 at width 32
and for μP, divided by the growth in width for the standard one; a grid grows where its end is best.
Chosen by the loss on the first half of the held-out text, the mean of seeds 100 to 102. How far the
best rate moves is read off these: the lowest point of a parabola through the three losses around
the chosen rate, for each seed. (Pilots of 128 and 256 steps at widths
32 and 128 with seed 9 set the grids.)
Reporting seeds 0 to 4, at width 256 on the other half of the text.
Baselines. The best rate of width 256, looked for there; the rate of width 32 divided by the growth
in width for all weights alike, in the standard parametrisation.
No gain. μP carries the rate over no better if the 95 % interval of the paired difference of what
the rate of width 32 costs at width 256, standard minus μP, contains 0. It is not needed if the
interval of the paired difference at the rate carried over, μP minus the standard one with all rates
divided by the growth, contains 0 or lies above it.
Coordinate check. How much the first ten steps at the rate 0.008 change the residual stream behind
the last block and the logits, at each width: root mean square over a held-out batch, the reporting
seeds. (The stream was first taken behind its norm, and without the causal mask. There nothing can
be seen: unrelated vectors differ by √2 at every width.)
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam

from attnbook import device
from attnbook.data import text
from attnbook.losses import token_loss
from attnbook.models.llama import llama
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from attnbook.train.mup import maximal_update
from attnbook.train.optimizers import groups
from attnbook.transformer import LanguageModel, initialise, normal
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "rate_transfer.json"
BASE, WIDTHS, RATES = 32, (32, 64, 128, 256), (0.004, 0.008, 0.016)
STANDARD, MUP = "standard", "μP"
WAYS = {  # the start and the scores of μP, its rates
    STANDARD: (False, False),
    MUP: (True, True),
    "its rates alone": (False, True),
    "its start and scores alone": (True, False),
}
STEPS, T, B, EARLY = 128, 32, 8, 10


def grids() -> dict[str, tuple[float, ...]]:
    """Rates that each width and way begins with, in order."""
    found = {f"{STANDARD}, {C}": tuple(r * BASE / C for r in RATES) for C in WIDTHS}
    return found | {f"{MUP}, {C}": RATES for C in WIDTHS[1:]}


STUDY = Study(
    name="rate_transfer",
    question="What does the best rate of width 32 cost at width 256, standard and in μP?",
    budget="128 steps of 8 windows of 32 characters",
    grid=grids(),
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("the best rate of width 256", "the rate divided by the growth, for all weights"),
    no_gain="the interval of the difference of the costs, standard minus μP, contains 0",
)


@cache
def words() -> tuple[Tensor, list[list[Tensor]], int]:
    """The text to train on, two halves of held-out windows, and the number of characters."""
    docs = text.load("python-docs")
    unseen = text.consecutive(docs.characters.encode(docs.validation), T)
    halves = [[part[first : first + 300] for part in unseen] for first in (0, 530)]
    return docs.characters.encode(docs.train), halves, len(docs.characters)


def fresh(way: str, width: int, seed: int) -> LanguageModel:
    """A model before training."""
    torch.manual_seed(seed)
    std, standard = (0.02 * math.sqrt(768 / C) for C in (width, BASE))
    model = llama(words()[2], width, depth=2, heads=4, hidden=2 * width)
    initialise(model, partial(normal, depth=2, std=std), standard)
    return maximal_update(model, width / BASE) if WAYS[way][0] else model


def loss(model: LanguageModel, batch: tuple[Tensor, Tensor]) -> Tensor:
    return token_loss(model(batch[0]), batch[1])


def trained(
    way: str, width: int, rate: float, seed: int, steps: int = STEPS, whole: int = STEPS
) -> LanguageModel:
    """A model after some steps of a whole run."""
    model = fresh(way, width, seed)
    kinds = groups(model, rate, growth=width / BASE if WAYS[way][1] else 1.0)
    optimizer = Adam(kinds, rate, betas=(0.9, 0.95), fused=True)
    sampler, plan = text.windows(words()[0], T, B), cosine(whole, round(whole / 10))
    train(
        model, sampler, loss, steps=steps, optimizer=optimizer, schedule=plan, clip=None,
        seed=seed, progress=False,
    )  # fmt: skip
    return model


def measured(way: str, width: int, rate: float, seed: int, half: int, steps: int = STEPS) -> float:
    """The held-out loss of a whole run."""
    model = trained(way, width, rate, seed, steps, steps)
    x, y = words()[1][half]
    with torch.no_grad():
        return round(loss(model, (x, y)).item(), 4)


def activations(model: LanguageModel, x: Tensor) -> dict[str, Tensor]:
    """The residual stream behind the last block, before its norm, and the logits."""
    seen: list[Tensor] = []
    model.body.norm.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        return {"logits": model(x), "stream": seen[0]}


def moved(way: str, width: int, seed: int) -> dict[str, float]:
    """How much ten steps at one rate change the residual stream and the logits."""
    x = words()[1][0][0][:16]
    before = activations(fresh(way, width, seed), x)
    after = activations(trained(way, width, RATES[1], seed, EARLY), x)
    return {
        name: float(f"{(after[name] - before[name]).square().mean().sqrt().item():.4g}")
        for name in before
    }


def lowest(losses: Mapping[float, float], best: float) -> float:
    """log2 of the rate where a parabola through the losses at `best` and beside it is lowest."""
    rates = sorted(losses)
    at = rates.index(best)
    low, here, high = (losses[rate] for rate in rates[at - 1 : at + 2])
    bend = low - 2 * here + high
    step = (low - high) / (2 * bend) if bend > 0 else (1.0 if high < low else -1.0)
    return math.log2(best) + max(-1.0, min(1.0, step))


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "rate_transfer.draft", write)

    def run(way: str, width: int, rate: float, seed: int, half: int) -> float:
        key = f"{STANDARD if width == BASE else way}/{width}/{rate:g}/{seed}"
        return runs.get(key, lambda: measured(way, width, rate, seed, half))

    table: dict[str, dict[str, Any]] = {}
    places: dict[str, list[float]] = {}  # of the best rate, for each choosing seed
    for what in STUDY.grid:
        way, width = what.split(", ")[0], int(what.split(", ")[1])

        def chosen_by(rate: float, seed: int, way: str = way, width: int = width) -> float:
            return run(way, width, rate, seed, half=0)

        rate, tried = STUDY.choose(what, chosen_by)
        each = [{r: chosen_by(r, seed) for r in tried} for seed in STUDY.choosing_seeds]
        losses = {f"{r:g}": [of_seed[r] for of_seed in each] for r in tried}
        table.setdefault(way, {})[str(width)] = {"rate": rate, "losses": losses}
        places[what] = [lowest(of_seed, rate) for of_seed in each]
    table[MUP] = {str(BASE): table[STANDARD][str(BASE)]} | table[MUP]
    base, widest = table[STANDARD][str(BASE)]["rate"], WIDTHS[-1]

    def report(way: str, rate: float) -> list[float]:
        return STUDY.report(lambda seed: run(way, widest, rate, seed, half=1))

    best = {way: report(way, table[way][str(widest)]["rate"]) for way in (STANDARD, MUP)}
    kept = {way: report(way, base) for way in WAYS}
    divided = report(STANDARD, base * BASE / widest)
    shift, costs = {}, {}
    for way in (STANDARD, MUP):
        ends = zip(places[f"{STANDARD}, {BASE}"], places[f"{way}, {widest}"], strict=True)
        shift[way] = asdict(interval([wide - narrow for narrow, wide in ends]))
        costs[way] = [a - b for a, b in zip(kept[way], best[way], strict=True)]
    compared = {f"cost, {way}": asdict(interval(cost)) for way, cost in costs.items()}
    for name, one, other in (
        ("cost, standard minus μP", costs[STANDARD], costs[MUP]),
        ("μP minus rate / growth", kept[MUP], divided),
        ("μP minus the best of standard", kept[MUP], best[STANDARD]),
        ("best of μP minus the best of standard", best[MUP], best[STANDARD]),
        ("its rates alone minus μP", kept["its rates alone"], kept[MUP]),
        ("its start and scores alone minus μP", kept["its start and scores alone"], kept[MUP]),
    ):
        compared[name] = difference(one, other, paired=True).as_dict()
    check = {
        f"{way}, {C}": [
            runs.get(f"moved/{way}/{C}/{seed}", partial(moved, way, C, seed))
            for seed in STUDY.reporting_seeds
        ]
        for way in (STANDARD, MUP)
        for C in WIDTHS
    }
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "table": table}
    result |= {"shift": shift, "carried over": kept, "best": best, "rate / growth": divided}
    result |= {"compared": compared, "coordinate check": check}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
