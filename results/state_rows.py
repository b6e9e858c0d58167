"""Recall of equally many numbers in very few rows, and in nearly as many rows as names.

    python results/state_rows.py        # resumed run by run; about three minutes on one free core

Question. `state_size.py` compared memories of 8 to 32 rows for 64 names, and of 64, and found that
recall follows the numbers where rows are fewer than names. Does it with 4 rows, and with 48 or 56?
Task, model and budget are those of `state_size.py`: the delta rule, 400 steps of 32 lists.
Shapes. 4 × 32 against 8 × 16, and 56 × 2, which is 16 numbers fewer, against 32 × 4 (128 numbers);
4 × 64 against 16 × 16 (256); 48 × 4 against 16 × 12 (192). Runs of `state_size.py` with the same
seeds are the other side where it has the shape. (A pilot with seed 9 chose the shapes: it had .23
with 4 × 32, .69 with 56 × 2, .87 with 48 × 4, .66 with 16 × 12.)
Grid. The rate 0.03, 0.1, 0.3 in the mean of 4 × 32 and 56 × 2, seeds 100 and 101; a grid grows
where its end is best.
Reporting seeds 0 to 4.
Baselines. A guess; the shape of equally many numbers, or more, with 8 to 32 rows.
No gain. Rows do not matter beyond their numbers if each paired difference is less than a quarter of
what twice the numbers bring, 16 × 16 less 8 × 16, as in `state_size.py`.
"""

from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from state_size import DELTA, name, recalled

from attnbook import device
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference
from bookkit.results.stored_run import stored_run

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "state_rows.json"
SHAPES, TUNED = ((4, 32), (56, 2), (4, 64), (48, 4), (16, 12)), ((4, 32), (56, 2))
AGAINST = (("4 × 32", "8 × 16"), ("56 × 2", "32 × 4"), ("4 × 64", "16 × 16"), ("48 × 4", "16 × 12"))
STUDY = Study(
    name="state_rows",
    question="Does recall follow a memory's numbers with few rows, and with nearly one per name?",
    budget="400 steps of 32 lists of 64 pairs",
    grid={"rate": (0.03, 0.1, 0.3)},
    choosing_seeds=(100, 101),
    reporting_seeds=range(5),
    baselines=("a guess", "8 to 32 rows of as many numbers or more"),
    no_gain="each difference is less than a quarter of what twice the numbers bring",
)


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "state_rows.draft", write)

    def right(shape: tuple[int, int], rate: float, seed: int) -> float:
        key = f"{name(shape)}/{rate:g}/{seed}"
        return runs.get(key, partial(recalled, DELTA, shape, rate, seed))[-1]

    rate, tried = STUDY.choose(
        "rate", lambda r, seed: fmean(right(shape, r, seed) for shape in TUNED), higher=True
    )
    found = {
        name(shape): STUDY.report(lambda seed, shape=shape: right(shape, rate, seed))  # type: ignore[misc]
        for shape in SHAPES
    }
    every = stored_run("state_size")["right"][DELTA] | found
    compared = {
        f"{one} minus {other}": difference(every[one], every[other], paired=True).as_dict()
        for one, other in (*AGAINST, ("16 × 16", "8 × 16"))
    }
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "rate": rate}
    result |= {"tried": {f"{r:g}": share for r, share in tried.items()}, "right": found}
    write(
        STORE, result | {"compared": compared, "provenance": provenance(device.choose(0), "scipy")}
    )
    runs.draft.unlink()


if __name__ == "__main__":
    main()
