"""Does what chapter 14 says of a small batch hold with four times the tokens?

    python results/batch_rate_longer.py        # resumed; about 10 minutes on one free core

Question. `batch_rate.py` read 65,536 characters: batch 64 had 32 steps. With 262,144, does the best
rate still grow fourfold from batch 1 to 16, and no further at 64? Is batch 1 still ahead?
Model, text, optimiser, schedule and measure are those of `batch_rate.py`. β₂ is kept in tokens.
Budget. 8,192 windows of 32 characters: 8,192, 512 or 128 steps of batch 1, 16 or 64.
Grid. The rate, in steps of 2: four values at batch 1, three at 16 and 64, around the best of
`batch_rate.py`; it grows where its end is best. Chosen on the first half of the held-out text, the
mean of seeds 100 and 101.
Reporting seeds 0 to 3, on the other half. Batch 1 also with the rate of batch 16; batch 64 also
with that rate, and with twice it.
Baseline. The rate of batch 16 everywhere.
What turns. The root rule, if the best rate of batch 16 is not four times that of batch 1. That the
rate grows no further, if at batch 64 the paired difference, rate of batch 16 minus twice it, has a
95 % interval above 0. That batch 16 is behind, and that its rate costs something at batch 1, if the
interval of the paired difference contains 0 or lies below it. That batch 16 is behind by about as
much as its rate costs, if the interval of the difference of these two does not contain 0.
(Made smaller once for lack of a processor, before the first reporting run: a fifth seed and β₂ 0.95
at batch 1 were dropped. The rates of batch 64 had been chosen by then.)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import batch_rate
import torch
from batch_rate import KEPT, MIDDLE, beta, trained

from attnbook import device
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "batch_rate_longer.json"
TIMES = 4
RATES = {64: (0.008, 0.016, 0.032), 16: (0.008, 0.016, 0.032), 1: (0.001, 0.002, 0.004, 0.008)}
STUDY = Study(
    name="batch_rate_longer",
    question="Does what chapter 14 says of a small batch hold with four times the tokens?",
    budget="8,192 windows of 32 characters",
    grid={str(B): rates for B, rates in RATES.items()},
    choosing_seeds=(100, 101),
    reporting_seeds=range(4),
    baselines=("the rate of batch 16 everywhere",),
    no_gain="the interval of batch 16 minus batch 1, each at its best rate, contains 0",
)


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    batch_rate.WINDOWS *= TIMES
    runs = Runs(Path(__file__).parent / "batch_rate_longer.draft", write)
    chosen, reported = tuple(STUDY.choosing_seeds), tuple(STUDY.reporting_seeds)

    def losses(B: int, asked: Sequence[tuple[str, float]], seeds: Sequence[int]) -> Any:
        """Of each way and rate the losses of these seeds; what is new is trained side by side."""

        def key(way: str, rate: float) -> str:
            return f"{B}/{way}/{rate:g}/{seeds[0]} to {seeds[-1]}"

        new = [each for each in dict.fromkeys(asked) if key(*each) not in runs.found]
        if new:
            settings = [(rate, beta(B, way), seed) for way, rate in new for seed in seeds]
            found = trained(B, settings, half=0 if seeds == chosen else 1)
            for n, each in enumerate(new):
                of_seeds = found[n * len(seeds) : (n + 1) * len(seeds)]
                runs.get(key(*each), lambda of_seeds=of_seeds: of_seeds)  # type: ignore[misc]
        return [runs.found[key(*each)] for each in asked]

    table: dict[str, Any] = {}
    for B, grid in RATES.items():
        losses(B, [(KEPT, rate) for rate in grid], chosen)

        def chosen_by(rate: float, seed: int, B: int = B) -> float:
            return losses(B, [(KEPT, rate)], chosen)[0][chosen.index(seed)]

        best, tried = STUDY.choose(str(B), chosen_by)
        shown = {f"{rate:g}": losses(B, [(KEPT, rate)], chosen)[0] for rate in tried}
        table[str(B)] = {"rate": best, "losses": shown}
    best, middle = table["1"]["rate"], table[str(MIDDLE)]["rate"]
    asked = {
        64: {
            "batch 64": (KEPT, table["64"]["rate"]),
            "batch 64, rate of 16": (KEPT, middle),
            "batch 64, twice the rate of 16": (KEPT, 2 * middle),
        },
        MIDDLE: {"batch 16": (KEPT, middle)},
        1: {
            "batch 1": (KEPT, best),
            "batch 1, rate of 16": (KEPT, middle),
        },
    }
    reached: dict[str, list[float]] = {}
    for B, ways in asked.items():
        reached |= zip(ways, losses(B, list(ways.values()), reported), strict=True)
    pairs = (
        ("batch 64", "batch 16"),
        ("batch 64, rate of 16", "batch 64, twice the rate of 16"),
        ("batch 16", "batch 1"),
        ("batch 1, rate of 16", "batch 1"),
        ("batch 1, rate of 16", "batch 16"),
    )
    compared = {
        f"{one} minus {other}": difference(reached[one], reached[other], paired=True).as_dict()
        for one, other in pairs
    }
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "table": table}
    result |= {"reached": reached, "compared": compared}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
