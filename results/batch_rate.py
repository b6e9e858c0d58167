"""At equal tokens, which learning rate and which β₂ go with a small batch?

    python results/batch_rate.py        # resumed run by run; about 10 minutes on one core

Question. The same 65,536 characters are read in batches of 1, 4, 16 or 64 windows. Does Adam's best
rate grow like the root of the batch? Does a small batch gain if β₂ keeps its half-life in tokens,
that is β₂ = 0.95^(batch / 16), rather than its value?
Model. The Llama of width 32 of `rate_transfer.py`, on the embedded documentation.
Budget. 2,048 windows of 32 characters: 2,048, 512, 128 or 32 steps of Adam (0.9, β₂) without decay
and clipping, a tenth of warm-up, then a cosine to a tenth; the last model's held-out loss.
Ways. β₂ 0.95 at every batch; kept in tokens; 0.999, torch's default, at every batch.
Grid. The rate, in steps of 2, for each batch and way: 0.001, 0.002, 0.004 at batch 1 and twice as
much at each following batch; a grid grows where its end is best. Chosen by the loss on the first
half of the held-out text, the mean of seeds 100 to 102. The power of the batch by which the best
rate grows is read off these: a straight line through the lowest points of parabolas, for each seed.
Reporting seeds 0 to 4, on the other half of the text. Models of one batch are trained side by side.
Baselines. β₂ 0.999 everywhere; the rate of batch 16 left as it is at batch 1 and 64.
No gain. Keeping β₂'s half-life gains nothing if the 95 % interval of the paired difference at batch
1, 0.95 minus kept, contains 0. The root rule gains nothing if the interval of the paired difference
at batch 1, rate of batch 16 minus a fourth of it, both with β₂ kept, contains 0. A small batch is
no worse at equal tokens if the interval of batch 1 minus batch 16, both with β₂ kept and at their
best rates, contains 0 or lies below it.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rate_transfer import STANDARD, T, fresh, lowest, words
from torch import Tensor
from torch.func import functional_call, stack_module_state
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbook import device
from attnbook.data import text
from attnbook.losses import token_loss
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "batch_rate.json"
WINDOWS, MIDDLE = 2048, 16
RATES = {1: (0.001, 0.002, 0.004), 4: (0.002, 0.004, 0.008)}
RATES |= {16: (0.004, 0.008, 0.016), 64: (0.008, 0.016, 0.032)}
KEPT = "kept in tokens"
WAYS = ("0.95", KEPT, "0.999")
STUDY = Study(
    name="batch_rate",
    question="At equal tokens, which rate and which β₂ go with a small batch?",
    budget="2,048 windows of 32 characters",
    grid={f"{B}, {way}": RATES[B] for B in RATES for way in WAYS},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("β₂ 0.999 everywhere", "the rate of batch 16 everywhere"),
    no_gain="the interval of the difference at batch 1, β₂ 0.95 minus kept in tokens, contains 0",
)
Setting = tuple[float, float, int]  # rate, β₂, seed


def beta(B: int, way: str) -> float:
    """β₂ of this batch."""
    return 0.95 ** (B / MIDDLE) if way == KEPT else float(way)


def trained(B: int, settings: Sequence[Setting], half: int, steps: int = 0) -> list[float]:
    """The held-out loss of one model for each setting, all trained side by side."""
    rates, betas, seeds = zip(*settings, strict=True)
    models = [fresh(STANDARD, 32, seed) for seed in seeds]
    weights = list((named := stack_module_state(models)[0]).values())  # (models, …)
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    lr, beta2 = torch.tensor(rates), torch.tensor(betas)
    draws = {seed: torch.Generator().manual_seed(seed) for seed in seeds}
    sampler, total = text.windows(words()[0], T, B), WINDOWS // B
    schedule = cosine(total, total // 10)

    def loss(w: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):  # the one that runs with a further axis in front
            return token_loss(functional_call(models[0], w, (x,)), y)

    for step in range(steps or total):
        drawn = {seed: sampler(draw) for seed, draw in draws.items()}
        x, y = (torch.stack([drawn[seed][n] for seed in seeds]) for n in (0, 1))
        gradients = torch.autograd.grad(torch.vmap(loss)(named, x, y).sum(), weights)
        with torch.no_grad():
            for w, g, (m, v) in zip(weights, gradients, moments, strict=True):
                b, pace = (n.view(-1, *[1] * (w.dim() - 1)) for n in (beta2, lr * schedule(step)))
                m.lerp_(g, 0.1)
                v.mul_(b).addcmul_(g * (1 - b), g)
                size = (v / (1 - b ** (step + 1))).sqrt_().add_(1e-8)
                w.sub_(pace / (1 - 0.9 ** (step + 1)) * m / size)
    with torch.no_grad():
        held_out = torch.vmap(loss, (0, None, None), chunk_size=4)(named, *words()[1][half])
    return [round(n, 4) for n in held_out.tolist()]


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "batch_rate.draft", write)
    chosen, reported = tuple(STUDY.choosing_seeds), tuple(STUDY.reporting_seeds)

    def found(B: int, asked: Sequence[tuple[str, float]], seeds: Sequence[int]) -> None:
        """Train what is not there yet of these ways and rates, with all these seeds."""
        new = [(way, r) for way, r in asked if f"{B}/{way}/{r:g}/{seeds[0]}" not in runs.found]
        if not new:
            return
        settings = [(r, beta(B, way), seed) for way, r in new for seed in seeds]
        losses = trained(B, settings, half=0 if seeds == chosen else 1)
        keys = [f"{B}/{way}/{r:g}/{seed}" for way, r in new for seed in seeds]
        runs.found |= dict(zip(keys, losses, strict=True))
        write(runs.draft, runs.found)
        print(B, new, losses, flush=True)

    table: dict[str, dict[str, Any]] = {}
    places: dict[str, list[float]] = {}
    for B, rates in RATES.items():
        found(B, [(way, r) for way in WAYS for r in rates], chosen)
        for way in WAYS:
            what = f"{B}, {way}"

            def chosen_by(rate: float, seed: int, B: int = B, way: str = way) -> float:
                found(B, [(way, rate)], chosen)
                return runs.found[f"{B}/{way}/{rate:g}/{seed}"]

            rate, tried = STUDY.choose(what, chosen_by)
            each = [{r: chosen_by(r, seed) for r in tried} for seed in chosen]
            losses = {f"{r:g}": [of_seed[r] for of_seed in each] for r in tried}
            table.setdefault(way, {})[str(B)] = {"rate": rate, "losses": losses}
            places[what] = [lowest(of_seed, rate) for of_seed in each]
    middle = table[KEPT][str(MIDDLE)]["rate"]
    rules = {1: (middle, middle / 4), 64: (middle, middle * 2)}
    for B in RATES:
        asked = [(way, table[way][str(B)]["rate"]) for way in WAYS]
        asked += [(KEPT, r) for r in rules.get(B, ()) if (KEPT, r) not in asked]
        found(B, asked, reported)

    def report(B: int, way: str, rate: float | None = None) -> list[float]:
        r = table[way][str(B)]["rate"] if rate is None else rate
        return STUDY.report(lambda seed: runs.found[f"{B}/{way}/{r:g}/{seed}"])

    best = {way: {str(B): report(B, way) for B in RATES} for way in WAYS}
    ruled = {
        str(B): {"rate of 16": report(B, KEPT, same), "root rule": report(B, KEPT, root)}
        for B, (same, root) in rules.items()
    }
    powers = {}
    for way in WAYS:
        lines = zip(*(places[f"{B}, {way}"] for B in RATES), strict=True)
        slopes = [float(np.polyfit([math.log2(B) for B in RATES], line, 1)[0]) for line in lines]
        powers[way] = asdict(interval(slopes)) | {"each": [round(n, 4) for n in slopes]}
    compared = {
        f"batch {B}, {way} minus kept": difference(
            best[way][str(B)], best[KEPT][str(B)], paired=True
        ).as_dict()
        for B in RATES
        for way in WAYS
        if way != KEPT and (B, way) != (MIDDLE, "0.95")
    }
    for size, losses in ruled.items():
        for rule, of_seed in losses.items():
            name = f"batch {size}, {rule} minus best"
            if of_seed != best[KEPT][size]:
                compared[name] = difference(of_seed, best[KEPT][size], paired=True).as_dict()
        compared[f"batch {size}, rate of 16 minus root rule"] = difference(
            losses["rate of 16"], losses["root rule"], paired=True
        ).as_dict()
    for B in RATES:
        if B != MIDDLE:
            compared[f"batch {B} minus batch {MIDDLE}, kept"] = difference(
                best[KEPT][str(B)], best[KEPT][str(MIDDLE)], paired=True
            ).as_dict()
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "table": table}
    result |= {"best": best, "rules": ruled, "powers": powers, "compared": compared}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
