"""Does what chapter 15 says of a memory's size and shape hold after four times the training?

    python results/state_size_longer.py        # resumed; about 12 minutes on one free core

Question. `state_size.py` trained every memory for 400 steps. With 1,600, do shapes of equally many
numbers with 8 to 32 rows still recall alike? Do positive features still lie below unit keys, or
were they merely slower?
Task, model, optimiser, schedule and measure are those of `state_size.py`.
Memories, each stored when it is whole: the delta rule with 8 × 16, 32 × 4 and 16 × 16; elu + 1 with
16 × 16 and 64 × 2; the sum with unit keys and the shapes of the delta rule. (With little of a
processor free, the delta rule went first; said before the first reporting run.)
Grid. The rate 0.03, 0.1, 0.3 for each memory, around the best after 400 steps; by the shape
16 × 16, seed 100 (within this grid the rates differed by 0.06 at most). It grows where its end is
best.
Reporting seeds 0 to 2. Scattered as after 400 steps, the interval of a paired difference is about
± 0.025, and one of 0.035 would be found with 80 % power; a quarter of a doubling was 0.083.
Baselines. A guess; the window of `state_size.py`, which is counted, not trained; 400 steps.
What turns. That the shape hardly counts, for the sum or the delta rule, if the interval of 32 × 4
minus 8 × 16 lies above a quarter of what twice the numbers bring, 16 × 16 less 8 × 16; it holds if
the interval lies below, and is undecided otherwise. That positive features matter, if at 16 × 16
the interval of unit keys minus elu + 1 (two sums) contains 0; by how much is what is left of the
0.32 after 400 steps. That 64 × 2 does not answer everything with elu + 1, if a seed has 0.99. That
delta rule and sum lie on one curve, if at 8 × 16 or 16 × 16 the interval of their difference lies
outside ± 0.03. That the window is behind, if delta minus window at 8 × 16 or 16 × 16 has an
interval that reaches 0.
"""

import math
from functools import partial
from pathlib import Path
from typing import Any

import state_size
import torch
from state_size import DELTA, ELU, SUM, TUNED, name, recalled

from attnbook import device
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval
from bookkit.results.stored_run import stored_run

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "state_size_longer.json"
STEPS, GRID, BOTH = 4 * state_size.STEPS, (0.03, 0.1, 0.3), (*TUNED, (16, 16))
SHAPES = {DELTA: BOTH, ELU: ((16, 16), (64, 2)), SUM: BOTH}
STUDY = Study(
    name="state_size_longer",
    question="Does what was said of a memory's size and shape hold after four times the training?",
    budget="1,600 steps of 32 lists of 64 pairs",
    grid=dict.fromkeys(SHAPES, GRID),
    choosing_seeds=(100,),
    reporting_seeds=range(3),
    baselines=("a guess", "a window of as many numbers", "400 steps"),
    no_gain="32 × 4 minus 8 × 16 lies above a quarter of what doubling brings, or unit keys minus "
    "elu + 1 contains 0",
)


def compared(ends: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """The declared differences between what is there, and each memory's to its 400 steps."""
    before = stored_run("state_size")
    pairs = {}
    for memory, found in ends.items():
        for shape, right in found.items():
            short = before["right"][memory][shape][: len(right)]
            pairs[f"{memory}: {shape}, 1,600 minus 400 steps"] = right, short
        for one in ("32 × 4", "16 × 16"):
            if "8 × 16" in found:
                pairs[f"{memory}: {one} minus 8 × 16"] = found[one], found["8 × 16"]
    for one, other in ((SUM, ELU), (DELTA, SUM)):
        for shape in ends.get(one, {}):
            if shape in ends.get(other, {}):
                pairs[f"{one} minus {other}: {shape}"] = ends[one][shape], ends[other][shape]
    apart = {what: difference(*two, paired=True).as_dict() for what, two in pairs.items()}
    for memory, shape in ((m, s) for m in ends if m != ELU for s in ("8 × 16", "16 × 16")):
        window = before["window"][str(math.prod(map(int, shape.split(" × "))))]
        ahead = interval([right - window for right in ends[memory][shape]])
        apart[f"{memory} minus window: {shape}"] = {
            "mean": round(ahead.mean, 4), "low": round(ahead.low, 4), "high": round(ahead.high, 4),
        }  # fmt: skip
    return apart


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    state_size.STEPS = STEPS
    runs = Runs(Path(__file__).parent / "state_size_longer.draft", write)

    def run(memory: str, shape: tuple[int, int], rate: float, seed: int) -> list[float]:
        key = f"{memory}/{name(shape)}/{rate:g}/{seed}"
        return runs.get(key, partial(recalled, memory, shape, rate, seed))

    rates: dict[str, Any] = {}
    ends: dict[str, dict[str, list[float]]] = {}  # right after 64 pairs, each seed
    for memory, shapes in SHAPES.items():

        def chosen_by(rate: float, seed: int, memory: str = memory) -> float:
            return run(memory, (16, 16), rate, seed)[-1]

        rate, tried = STUDY.choose(memory, chosen_by, higher=True)
        rates[memory] = {"rate": rate, "tried": {f"{r:g}": tried[r] for r in sorted(tried)}}
        ends[memory] = {
            name(shape): STUDY.report(
                lambda seed, m=memory, s=shape, r=rate: run(m, s, r, seed)[-1]  # type: ignore[misc]
            )
            for shape in shapes
        }
        result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "rates": rates}
        result |= {"right": ends, "compared": compared(ends), "runs": runs.found}
        write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
