"""Is μP behind the simple rule still, after six times the steps?

    python results/rate_transfer_longer.py        # resumed run by run; about 7 minutes on one core

Question. After 128 steps the standard parametrisation, with the rate of width 32 divided by the
growth in width, was ahead of μP at width 256 (`rate_transfer.py`). After 768 steps?
Model, text, optimiser and ways: those of `rate_transfer.py`.
Budget. 768 steps of 8 windows of 32 characters, 77 of them warm-up.
Grid. The rate at width 32, in steps of 2: 0.004, 0.008, 0.016; it grows where its end is best.
Chosen by the loss on the first half of the held-out text, the mean of seeds 100 to 102. At width
256 no rate is looked for: each way has the rate carried over.
Reporting seeds 0 to 2, on the other half. With the spread of 128 steps, 0.03 nats, an interval of
three seeds is 0.07 wide on either side: what differs by less stays open.
Baseline. The standard parametrisation, all rates divided by the growth.
No gain. The ranking of 128 steps does not hold beyond them if the 95 % interval of the paired
difference, μP minus the standard one with all rates divided, contains 0 or lies below it.
"""

from pathlib import Path
from typing import Any

import torch
from rate_transfer import BASE, MUP, STANDARD, WIDTHS, measured

from attnbook import device
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "rate_transfer_longer.json"
STEPS, WIDEST = 768, WIDTHS[-1]
RATE, DIVIDED, ALONE = "rate of width 32", "rate / growth", "its rates alone"
STUDY = Study(
    name="rate_transfer_longer",
    question="Is μP behind the standard one with all rates divided still, after 768 steps?",
    budget="768 steps of 8 windows of 32 characters",
    grid={RATE: (0.004, 0.008, 0.016)},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(3),
    baselines=("standard, the rate divided by the growth, for all weights",),
    no_gain="the interval of μP minus rate / growth contains 0 or lies below it",
)


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "rate_transfer_longer.draft", write)

    def run(way: str, width: int, rate: float, seed: int, half: int) -> float:
        key = f"{way}/{width}/{rate:g}/{seed}"
        return runs.get(key, lambda: measured(way, width, rate, seed, half, STEPS))

    rate, tried = STUDY.choose(RATE, lambda rate, seed: run(STANDARD, BASE, rate, seed, half=0))
    ways = {MUP: (MUP, rate), DIVIDED: (STANDARD, rate * BASE / WIDEST), ALONE: (ALONE, rate)}

    def report(seed: int) -> dict[str, float]:
        return {name: run(way, WIDEST, r, seed, half=1) for name, (way, r) in ways.items()}

    of_seeds = STUDY.report(report)
    losses = {name: [of_seed[name] for of_seed in of_seeds] for name in ways}
    compared = {
        f"{one} minus {other}": difference(losses[one], losses[other], paired=True).as_dict()
        for one, other in ((MUP, DIVIDED), (ALONE, MUP), (ALONE, DIVIDED))
    }
    table = {
        f"{r:g}": [run(STANDARD, BASE, r, seed, half=0) for seed in STUDY.choosing_seeds]
        for r in tried
    }
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "rate": rate}
    result |= {"table": table, "carried over": losses, "compared": compared}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
