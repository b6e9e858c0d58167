"""Does depth pay when steps build on steps: how long do one and two blocks need?

    python results/hops.py        # resumed run by run; half an hour on one core

Question. `blocks.py` found that after 500 steps of training one block follows three steps along a
ring of six people in 0.70 of the cases, two blocks in 0.99. Can one block not do it, or does it
learn more slowly? How many steps of training until 0.95 are right, for one block and for two of as
many parameters?
Budget. At most 4,000 steps of 64 rings, a constant rate after 30 steps of warm-up; 500 new rings
are asked every 50 steps. A run ends when 0.95 are right.
Grid. The rate 0.0015, 0.003, 0.006 for each model, by the share right after 600 steps, the mean of
seeds 100 to 102; a grid grows where its end is best.
Reporting seeds 0 to 4.
Baselines. A guess, 1 in 8; one block.
No gain. Depth does not decide whether it is learned if one block reaches 0.95 within the budget
with every reporting seed; it saves no training if the interval of the difference of log steps
contains 0.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from blocks import SHAPES as ALL
from blocks import stack
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import one_hot

from attnbook import device
from attnbook.block import PreNorm
from attnbook.losses import parameters
from attnbook.norms import LayerNorm
from attnbook.provenance import provenance, write
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "hops.json"
STUDY = Study(
    name="hops",
    question="Does depth decide whether steps along a ring are learned, or how fast?",
    budget="at most 4,000 steps of 64 rings",
    grid={"rate": (0.0015, 0.003, 0.006)},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("a guess, 1 in 8", "one block"),
    no_gain="one block reaches 0.95 within the budget with every reporting seed",
)
MOST, EVERY, ENOUGH, V = 4000, 50, 0.95, 8
SHAPES = dict(list(ALL.items())[:2])
CHOOSE = 600  # steps after which a rate is judged
TASKS = ((6, 3),)  # people in the ring, steps along it


def rings(people: int, hops: int, B: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows of name, name of the one to ask and number; the number of the person `hops` along."""
    names, order = (torch.rand(B, people, generator=draw).argsort(-1) for _ in range(2))
    asked, to = (torch.empty_like(order).scatter_(1, order, order.roll(-n, 1)) for n in (1, hops))
    numbers = torch.randint(V, (B, people), generator=draw)
    rows = one_hot(names, people), one_hot(names.gather(1, asked), people), one_hot(numbers, V)
    return torch.cat(rows, -1).float(), numbers.gather(1, to)


class Walker(nn.Module):
    """Blocks over the people of a ring, and a layer that reads the number off."""

    def __init__(self, people: int, depth: int, width: int) -> None:
        super().__init__()
        self.embed, self.read = nn.Linear(2 * people + V, width), nn.Linear(width, V)
        self.body = stack(PreNorm, LayerNorm, depth, width, heads=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.body(self.embed(x)))


def learned(
    people: int, hops: int, shape: str, rate: float, seed: int, most: int
) -> dict[str, Any]:
    """Steps until 0.95 are right, None if they never are, and the share right on the way."""
    torch.manual_seed(seed)
    model = Walker(people, *SHAPES[shape])
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    draw = torch.Generator().manual_seed(seed)
    x_test, y_test = rings(people, hops, 500, torch.Generator().manual_seed(99))
    curve = []
    for step in range(1, most + 1):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / 30)
        x, y = rings(people, hops, 64, draw)
        nats = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        nats.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % EVERY == 0:
            with torch.no_grad():
                right = (model(x_test).argmax(-1) == y_test).float().mean().item()
            curve.append(round(right, 3))
            if right >= ENOUGH:
                return {"steps": step, "curve": curve}
    return {"steps": None, "curve": curve}


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=int, help="blocks: measure these models only, store nothing")
    only = parser.parse_args().only
    runs = Runs(Path(__file__).parent / f"hops{only or ''}.draft", write)
    found: dict[str, dict[str, Any]] = {}
    apart: dict[str, dict[str, Any]] = {}
    for people, hops in TASKS:
        words = f"ring of {people}, {hops} steps"
        for shape in SHAPES:
            setting = people, hops, shape
            if only and SHAPES[shape][0] != only:
                continue

            def chosen_by(rate: float, seed: int, setting: tuple[int, int, str] = setting) -> float:
                key = "/".join(map(str, ("choose", *setting, rate, seed)))
                run = runs.get(key, lambda: learned(*setting, rate, seed, CHOOSE))
                return 1.0 + CHOOSE / run["steps"] if run["steps"] else run["curve"][-1]

            rate, tried = STUDY.choose("rate", chosen_by, higher=True)

            def reported(
                seed: int, setting: tuple[int, int, str] = setting, rate: float = rate
            ) -> dict:
                key = "/".join(map(str, (*setting, rate, seed)))
                return runs.get(key, lambda: learned(*setting, rate, seed, MOST))

            each = STUDY.report(reported)
            found.setdefault(words, {})[shape] = {
                "rate": rate,
                "rates": {str(r): round(mean, 3) for r, mean in tried.items()},
                "steps": [run["steps"] for run in each],
                "curves": [run["curve"] for run in each],
                "parameters": parameters(Walker(people, *SHAPES[shape])),
            }
        if only:
            continue
        first = [steps or MOST for steps in found[words][next(iter(SHAPES))]["steps"]]
        for shape in list(SHAPES)[1:]:
            deep = [steps or MOST for steps in found[words][shape]["steps"]]
            one, other = ([math.log10(n) for n in each] for each in (first, deep))
            apart.setdefault(words, {})[shape] = difference(one, other).as_dict()
    if only:
        return
    result = {"study": STUDY.declared() | {"declared": said}, "tasks": found}
    result |= {"log10 steps apart": apart, "runs": runs.found}
    write(STORE, result | {"provenance": provenance(here, "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
