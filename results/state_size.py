"""Do the numbers in a memory decide how many pairs it recalls, or its shape, or its rule?

    python results/state_size.py        # resumed run by run; about 16 minutes on one core

Question. What can be recalled is said to be bounded by the size of the state, and architectures to
lie on different curves of recall against size (Arora et al. 2024, Based). Do memories of equally
many numbers, D rows × Dv columns, recall equally much whatever their shape? Does a rule, or do
features, lie on another curve?
Task. Chapter 15's: 64 pairs of 64 names, each once, and 16 numbers; right answers after 61 to 64
pairs. All 64 numbers are 256 bits, so no memory here is too small to store them.
Memories. Sums with elu + 1 and the denominator (which keeps D more numbers), sums with unit keys,
the delta rule. Each with 64 numbers (8 × 8, 16 × 4), 128 (8 × 16, 16 × 8, 32 × 4, 64 × 2), 256
(16 × 16, 32 × 8, 64 × 4) and 512 (32 × 16). A gate is left out: where each name comes once nothing
should be forgotten, and `recurrence.py` found no difference.
Budget. 400 steps of 32 lists of 64 pairs, Adam with a cosine.
Grid. The rate, three values for each memory, in the mean of the shapes 8 × 16 and 32 × 4, by right
answers with seeds 100 and 101; a grid grows where its end is best. (Pilots with seed 9 set the
grids; there a rate three times as large or small moved the answers by 0.02 at most.)
Reporting seeds 0 to 4.
Baselines. A guess; a window: softmax attention over the newest pairs, as many as fit into the same
numbers. With keys of 4 and values of 2, the narrowest of those piloted that suffice, it keeps 6
numbers for a pair; trained on the whole list here, it has to be right with 0.99. Then the window's
answers are counted, not trained: right within its reach, a guess beyond.
No gain. The shape does not matter if, with fewer rows than names, any two shapes of equally many
numbers differ by less than a quarter of what twice the numbers bring (16 × 16 less 8 × 16). Rows
for all 64 names bring nothing beyond their numbers if the 95 % interval of the paired difference
between 64 × 4 and 16 × 16 contains 0. Two memories lie on one curve if at 128 and at 256 numbers
(8 × 16, 16 × 16) the interval of their paired difference contains 0 or lies within 0.03 of it.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data.recall import NUMBERS, newest_of, pairs
from attnbook.masks import causal_mask
from attnbook.provenance import provenance, write
from attnbook.recurrence.layer import unit
from attnbook.train.loop import cosine, train
from bookkit.experiments import recalling
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "state_size.json"
ELU, SUM, DELTA, KEPT = "linear, elu + 1", "linear, unit keys", "delta", "softmax"
SHAPES = (  # rows, columns
    (8, 8), (16, 4), (8, 16), (16, 8), (32, 4), (64, 2), (16, 16), (32, 8), (64, 4), (32, 16),
)  # fmt: skip
TUNED, NARROW, STEPS = ((8, 16), (32, 4)), (4, 2), 400
STUDY = Study(
    name="state_size",
    question="Do the numbers in a memory, its shape or its rule decide what it recalls?",
    budget="400 steps of 32 lists of 64 pairs",
    grid={ELU: (0.1, 0.3, 1.0), SUM: (0.03, 0.1, 0.3), DELTA: (0.03, 0.1, 0.3)},
    choosing_seeds=(100, 101),
    reporting_seeds=range(5),
    baselines=("a guess", "a window of as many numbers"),
    no_gain="shapes of equally many numbers differ by under a quarter of what doubling brings",
)
Look = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def summed(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """`recalling.added` as one product of matrices."""
    return (unit(q) @ unit(k).mT * causal_mask(q.shape[1])) @ v


def corrected(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """`recalling.corrected`, the delta rule, as one triangular system."""
    q, k, beta = unit(q), unit(k), beta[..., None]
    system = beta * (k @ k.mT).tril(-1)
    new = torch.linalg.solve_triangular(system, beta * v, upper=False, unitriangular=True)
    return (q @ k.mT).tril() @ new


LOOKS: dict[str, Look] = {
    ELU: recalling.positive,
    SUM: summed,
    DELTA: corrected,
    KEPT: recalling.exact,
}


class Shaped(recalling.Recall):
    """The chapter's model with a memory of D rows and Dv columns."""

    def __init__(self, look: Look, D: int, Dv: int) -> None:
        super().__init__(look, D)
        self.to_v, self.to_out = nn.Embedding(NUMBERS, Dv), nn.Linear(Dv, NUMBERS)
        nn.init.normal_(self.to_v.weight, std=Dv**-0.5)


def recalled(memory: str, shape: tuple[int, int], rate: float, seed: int) -> list[float]:
    """Right answers by pairs read, four neighbouring counts together."""
    torch.manual_seed(seed)
    model = Shaped(LOOKS[memory], *shape)
    train(
        model, partial(pairs(), B=32), recalling.loss, steps=STEPS, lr=rate,
        schedule=cosine(STEPS), seed=seed, progress=False, every=STEPS,
    )  # fmt: skip
    return [round(share, 4) for share in recalling.right(model, recalling.unseen())]


def numbers(memory: str, shape: tuple[int, int]) -> int:
    """How many numbers a memory keeps."""
    D, Dv = shape
    return D * Dv + D * (memory == ELU)


def name(shape: tuple[int, int]) -> str:
    return f"{shape[0]} × {shape[1]}"


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "state_size.draft", write)

    def run(memory: str, shape: tuple[int, int], rate: float, seed: int) -> list[float]:
        key = f"{memory}/{name(shape)}/{rate:g}/{seed}"
        return runs.get(key, partial(recalled, memory, shape, rate, seed))

    rates: dict[str, Any] = {}
    ends: dict[str, dict[str, list[float]]] = {}  # right after 64 pairs, each seed
    for memory in STUDY.grid:

        def chosen_by(rate: float, seed: int, memory: str = memory) -> float:
            return fmean(run(memory, shape, rate, seed)[-1] for shape in TUNED)

        rate, tried = STUDY.choose(memory, chosen_by, higher=True)
        rates[memory] = {"rate": rate, "tried": {f"{r:g}": right for r, right in tried.items()}}
        ends[memory] = {
            name(shape): STUDY.report(
                lambda seed, m=memory, s=shape, r=rate: run(m, s, r, seed)[-1]  # type: ignore[misc]
            )
            for shape in SHAPES
        }
    kept = STUDY.report(lambda seed: run(KEPT, NARROW, 0.1, seed)[-1])
    x, _ = recalling.unseen()
    reach = {size: size // sum(NARROW) for size in (64, 128, 256, 384, 512)}
    window = {
        str(size): round(newest_of(x, last)[-4:].mean().item(), 4) for size, last in reach.items()
    }
    compared: dict[str, Any] = {}

    def compare(what: str, one: list[float], other: list[float]) -> None:
        compared[what] = difference(one, other, paired=True).as_dict()

    for memory, found in ends.items():
        compare(f"{memory}: 16 × 16 minus 8 × 16", found["16 × 16"], found["8 × 16"])
        for a, b in combinations(SHAPES, 2):
            if a[0] * a[1] == b[0] * b[1]:
                compare(f"{memory}: {name(b)} minus {name(a)}", found[name(b)], found[name(a)])
    for shape in map(name, SHAPES):
        compare(f"{SUM} minus {ELU}: {shape}", ends[SUM][shape], ends[ELU][shape])
        compare(f"{DELTA} minus {SUM}: {shape}", ends[DELTA][shape], ends[SUM][shape])
    for size, shape in ((128, "8 × 16"), (256, "16 × 16"), (512, "32 × 16")):
        ahead = interval([right - window[str(size)] for right in ends[DELTA][shape]])
        compared[f"{DELTA} minus window: {shape}"] = {
            "mean": round(ahead.mean, 4), "low": round(ahead.low, 4), "high": round(ahead.high, 4),
        }  # fmt: skip
    sizes = {memory: {name(s): numbers(memory, s) for s in SHAPES} for memory in ends}
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "rates": rates}
    result |= {"right": ends, "numbers": sizes, "softmax, 4 + 2": kept, "window": window}
    result |= {"compared": compared, "runs": runs.found}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
