"""Do twelve blocks without residual connections learn within six times the steps?

    python results/block_parts_longer.py        # resumed; about 7 minutes on one free core a stack

Question. `block_parts.py` gave each stack 400 steps and gave up after 120 where the loss was still
nearly a guess's. Of the stacks of twelve blocks without residual connections, those with the norm
had come furthest, to 1.9 nats, at the smallest rate tried. With 2,400 steps, and none given up?
Task, model, optimiser and measure are those of `block_parts.py`: steps until the mean loss of the
last ten is below 0.23 nats.
Stacks: the norm alone, none of the three parts, norm and small start. Each is stored when it is
whole, and not run again. The small start alone stayed at a guess and is left out. (With little of
a processor free, the norm alone, which had come furthest, went first; the other two followed, by
the same declaration, after its result was known.)
Grid. The rate 0.00003, 0.0001, 0.0003, 0.001, by the mean loss after 600 steps, seeds 100 and 101;
it grows where its end is best, twice at most, and an end that is best still is stored as one.
Reporting seeds 0 to 3.
Baselines. A guess, ln 10; with residual connections and the norm alone, 85 steps.
What turns. That twelve blocks need the residual connections, if at least one seed of any stack
gets there within 2,400 steps; the budget alone was missing if all four of one stack do.
"""

import math
from pathlib import Path
from typing import Any

import block_parts
import torch
from block_parts import CAP, LOSS, Ran, Way, trained

from attnbook import device
from attnbook.provenance import provenance, write
from bookkit.results.protocol import EndOfGrid, Runs, Study, committed
from bookkit.results.stored_run import stored_run

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "block_parts_longer.json"
DEPTH, STEPS, CHOOSE = 12, 6 * CAP, 600
WAYS = (Way(False, True, False), Way(False, False, False), Way(False, True, True))
STUDY = Study(
    name="block_parts_longer",
    question="Do twelve blocks without residual connections learn within six times the steps?",
    budget="2,400 steps of 32 rows",
    grid={"rate": (0.00003, 0.0001, 0.0003, 0.001)},
    choosing_seeds=(100, 101),
    reporting_seeds=range(4),
    baselines=("a guess, ln 10", "residual connections and the norm, 85 steps"),
    no_gain="no seed of a stack reaches 0.23 nats within 2,400 steps",
)


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    block_parts.HOPELESS = math.inf  # none is given up
    runs = Runs(Path(__file__).parent / "block_parts_longer.draft", write)
    chosen, reported = tuple(STUDY.choosing_seeds), tuple(STUDY.reporting_seeds)
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}}
    stacks = stored_run("block_parts_longer")["stacks"] if STORE.exists() else {}
    result |= {"loss": LOSS, "cap": STEPS, "depth": DEPTH, "stacks": stacks}
    for way in (way for way in WAYS if str(way) not in stacks):
        tried: dict[float, float] = {}

        def ran(rate: float, seeds: tuple[int, ...], cap: int, way: Way = way) -> list[Ran]:
            key = f"{way}/{rate:g}/{seeds[0]} to {seeds[-1]}"
            return runs.get(key, lambda: trained(way, DEPTH, rate, seeds, cap))

        def chosen_by(rate: float, seed: int) -> float:
            found = ran(rate, chosen, CHOOSE)
            losses = [math.inf if one["loss"] is None else one["loss"] for one in found]
            tried[rate] = sum(losses) / len(losses)  # noqa: B023
            return losses[chosen.index(seed)]

        try:
            rate = STUDY.choose("rate", chosen_by, grow=2)[0]
        except EndOfGrid:
            rate = min(tried, key=lambda rate: tried[rate])
        found = ran(rate, reported, STEPS)
        result["stacks"][str(way)] = {
            "rate": rate,
            "inside": min(tried) < rate < max(tried),
            "rates": {f"{r:g}": round(tried[r], 4) for r in sorted(tried)},
            "steps": [one["steps"] for one in found],
            "losses": [one["loss"] for one in found],
        }
        write(STORE, result | {"provenance": provenance(device.choose(0))})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
