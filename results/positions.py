"""What each scheme of positions has learned at length 32, asked at up to 128: table of chapter 4.

    python results/positions.py            # all runs, resumed one by one: half an hour on one core
    python results/positions.py --steps 20 --out somewhere.json    # to try it out

Programs: `attnbook.data.programs`, "last" and "first". One block of width 32 and four heads, or two
blocks where a scheme says so; 500 steps of 32 programs of 32 tokens, Adam with a cosine. Each
scheme has its own learning rate for each task: the best of three by the right answers at length
32 with seed 9. Then five other seeds, asked for 500 new programs of 128 tokens. The rotary models
are asked again with their speeds changed (linear, YaRN), as they are and after 50 steps more at
length 128.

Grid: say the value one row above, in a grid of 6 × 6, asked at 6 × 6 and at 10 × 10.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device, positions
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.data.programs import VALUES, Programs, V, programs
from attnbook.feedforward import MLP
from attnbook.losses import token_loss
from attnbook.norms import LayerNorm
from attnbook.positions import (
    Alibi,
    Learned,
    RelativeBias,
    Rotary,
    Rotary2d,
    Rotate,
    Sinusoidal,
    resized,
    sinusoidal_2d,
)
from attnbook.provenance import provenance, write
from attnbook.scores import Relative
from attnbook.train.loop import cosine, train
from attnbook.transformer import Embed, LanguageModel, MaskedLanguageModel, Positions

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "positions.json"
WIDTH, HEADS, D = 32, 4, 8
TRAINED, ASKED, FACTOR = 32, 128, 4
STEPS, MORE = 500, 50
SEEDS, TUNE = range(5), 9
RATES = (0.003, 0.006, 0.012)
EDGES = tuple(range(0, ASKED + 1, 16))  # right answers are counted by 16 positions
SMALL, LARGE = 6, 10  # sides of the grid
Runs = dict[str, Any]  # what is stored of each run, by its key


def block(rotate: Rotate | None = None, relative: Relative | None = None) -> Block:
    """Attention and network, each behind its norm and with a residual connection."""
    attention = MultiHeadAttention(WIDTH, HEADS, rotate=rotate, relative=relative)
    mlp = MLP(WIDTH, 2 * WIDTH)
    return Block(PreNorm(attention, LayerNorm(WIDTH)), PreNorm(mlp, LayerNorm(WIDTH)))


def model(*blocks: Block, positions: Positions | None = None) -> LanguageModel:
    """A language model that says one of eight values at each position."""
    body = Stack([*(blocks or [block()])], LayerNorm(WIDTH))
    return LanguageModel(Embed(V, WIDTH, positions), body, nn.Linear(WIDTH, VALUES))


def bias() -> RelativeBias:
    return RelativeBias(HEADS, buckets=16, limit=TRAINED, both_ways=False)


def part_of_it() -> Rotary:
    """Turns the two fast pairs and leaves the other four coordinates as they are."""
    return Rotary(D, frequencies=positions.frequencies(D)[:2])


SCHEMES: dict[str, Callable[[], LanguageModel]] = {
    "no positions": model,
    "learned": lambda: model(positions=Learned(ASKED, WIDTH)),
    "sinusoidal": lambda: model(positions=Sinusoidal(WIDTH)),
    "learned bias": lambda: model(block(relative=bias())),
    "ALiBi": lambda: model(block(relative=Alibi(HEADS))),
    "rotary": lambda: model(block(Rotary(D))),
    "rotary, half of the pairs": lambda: model(block(part_of_it())),
    "two blocks, none": lambda: model(block(), block()),
    "two blocks, rotary": lambda: model(block(Rotary(D)), block(Rotary(D))),
    "two blocks, rotary then none": lambda: model(block(Rotary(D)), block()),
}
TASKS = ("last", "first")
STRETCHED = {
    "as trained": lambda: Rotary(D),
    "interpolated": lambda: Rotary(D, frequencies=positions.linear(D, factor=FACTOR)),
    "YaRN": lambda: Rotary(
        D,
        frequencies=positions.yarn(D, factor=FACTOR, trained=TRAINED, fast=4.0),
        scale=positions.yarn_temperature(FACTOR),
    ),
}


def answer_loss(model: nn.Module, batch: Programs) -> Tensor:
    tokens, answers, asked = batch
    return token_loss(model(tokens), answers, asked)


def improve(
    model: nn.Module, sampler: Callable[..., Programs], rate: float, seed: int, steps: int
) -> None:
    """Adam with a cosine; a fifteenth of the steps warms up."""
    schedule = cosine(steps, steps // 15)
    train(
        model, sampler, answer_loss, steps=steps, lr=rate, schedule=schedule, seed=seed,
        progress=False,
    )  # fmt: skip


def fit(scheme: str, task: str, rate: float, seed: int, steps: int = STEPS) -> LanguageModel:
    """A model of this scheme after its training at length 32."""
    torch.manual_seed(seed)
    found, sampler = SCHEMES[scheme](), programs(TRAINED, first=task == "first")
    improve(found, sampler, rate, seed, steps)
    return found


@torch.no_grad()
def right(model: nn.Module, task: str, T: int, B: int = 500) -> list[float]:
    """Share of right answers at each 16 positions of new programs."""
    given = programs(T, B, first=task == "first")(torch.Generator().manual_seed(99))
    tokens, answers, asked = given
    hit = torch.cat([model(part).argmax(-1) for part in tokens.split(100)]) == answers
    parts = [slice(a, b) for a, b in itertools.pairwise(EDGES) if b <= T]
    return [round(hit[:, p][asked[:, p]].float().mean().item(), 4) for p in parts]


def tuning(scheme: str, task: str, rate: float, steps: int = STEPS) -> float:
    """Right answers at the trained length, with the seed that is used for nothing else."""
    return sum(right(fit(scheme, task, rate, TUNE, steps), task, TRAINED)) / 2


def scheme_runs(scheme: str, task: str, rate: float, seed: int, steps: int = STEPS) -> dict:
    """Right answers by position, and for rotary those with other speeds, too."""
    found = fit(scheme, task, rate, seed, steps)
    if scheme != "rotary":
        return {"right": right(found, task, ASKED)}
    out: dict[str, Any] = {"right": right(found, task, ASKED), "stretched": {}}
    for name, make in STRETCHED.items():
        changed = deepcopy(found)
        changed.body.blocks[0].get_submodule("attention.sublayer").rotate = make()
        before = right(changed, task, ASKED)
        sampler = programs(ASKED, 8, first=task == "first")
        train(
            changed,
            sampler,
            answer_loss,
            steps=min(MORE, steps),
            lr=rate / 3,
            seed=seed + 50,
            schedule=cosine(min(MORE, steps)),
            progress=False,
        )
        out["stretched"][name] = {"at once": before, "after": right(changed, task, ASKED)}
    return out


def grids(side: int) -> Callable[..., Programs]:
    """Batches of 32 grids of numbers, and the number above each place."""

    def task(generator: torch.Generator, B: int = 32) -> Programs:
        x = torch.randint(VALUES, (B, side, side), generator=generator)
        above = x.roll(1, 1)
        below_first = torch.ones(B, side, side, dtype=torch.bool)
        below_first[:, 0] = False
        return x.flatten(1), above.flatten(1), below_first.flatten(1)

    return task


class Codes(nn.Module):
    """A table of vectors that is added, for any number of places."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table

    def forward(self, T: int, start: int = 0) -> Tensor:
        return self.table[start : start + T]

    def at(self, positions: Tensor) -> Tensor:
        return self.table[positions]


def reader(positions: Positions | None = None, rotate: Rotate | None = None) -> MaskedLanguageModel:
    body = Stack([block(rotate)], LayerNorm(WIDTH))
    return MaskedLanguageModel(Embed(VALUES, WIDTH, positions), body, nn.Linear(WIDTH, VALUES))


GRIDS: dict[str, Callable[[], MaskedLanguageModel]] = {
    "table": lambda: reader(Codes(nn.Parameter(0.02 * torch.randn(SMALL**2, WIDTH)))),
    "sines of row and column": lambda: reader(Codes(sinusoidal_2d(SMALL, SMALL, WIDTH))),
    "rotary, numbered through": lambda: reader(rotate=Rotary(D)),
    "rotary by row and column": lambda: reader(rotate=Rotary2d(D, (SMALL, SMALL))),
}


def enlarge(model: MaskedLanguageModel, name: str) -> MaskedLanguageModel:
    """The same model for the larger grid."""
    old, new = (SMALL, SMALL), (LARGE, LARGE)
    if name == "table":
        table = model.get_parameter("embed.positions.table").detach()
        model.embed.positions = Codes(resized(table, old, new))
    if name == "sines of row and column":
        model.embed.positions = Codes(sinusoidal_2d(LARGE, LARGE, WIDTH))
    if name == "rotary by row and column":
        model.body.blocks[0].get_submodule("attention.sublayer").rotate = Rotary2d(D, new)
    return model


@torch.no_grad()
def seen(model: nn.Module, side: int) -> float:
    x, above, asked = grids(side)(torch.Generator().manual_seed(99), 500)
    return round((model(x).argmax(-1) == above)[asked].float().mean().item(), 4)


def grid_run(name: str, rate: float, seed: int, steps: int = STEPS) -> list[float]:
    """Share of right answers at 6 × 6 and at 10 × 10."""
    torch.manual_seed(seed)
    found = GRIDS[name]()
    improve(found, grids(SMALL), rate, seed, steps)
    return [seen(found, SMALL), seen(enlarge(found, name), LARGE)]


def best(runs: Runs, key: str, share: Callable[[Any], float]) -> float:
    """The learning rate with the most right answers at the size it was trained at."""
    return max(RATES, key=lambda rate: share(runs[f"{key}/{rate}/{TUNE}"]))


def work(runs: Runs, steps: int = STEPS) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every run: its key in the file, and what computes it; rates first, then the seeds."""
    for task, scheme in itertools.product(TASKS, SCHEMES):
        for rate in RATES:
            yield f"{task}/{scheme}/{rate}/{TUNE}", partial(tuning, scheme, task, rate, steps)
        rate = best(runs, f"{task}/{scheme}", float)
        for seed in SEEDS:
            key = f"{task}/{scheme}/{rate}/{seed}"
            yield key, partial(scheme_runs, scheme, task, rate, seed, steps)
    for name in GRIDS:
        for rate in RATES:
            yield f"grid/{name}/{rate}/{TUNE}", partial(grid_run, name, rate, TUNE, steps)
        rate = best(runs, f"grid/{name}", lambda pair: pair[0])
        for seed in SEEDS:
            yield f"grid/{name}/{rate}/{seed}", partial(grid_run, name, rate, seed, steps)


def summary(runs: Runs) -> dict:
    """What the chapter shows, from all the single runs."""
    rates: dict[str, dict[str, float]] = {
        task: {scheme: best(runs, f"{task}/{scheme}", float) for scheme in SCHEMES}
        for task in TASKS
    }
    rates["grid"] = {name: best(runs, f"grid/{name}", lambda pair: pair[0]) for name in GRIDS}

    def of(task: str, name: str) -> list[Any]:
        return [runs[f"{task}/{name}/{rates[task][name]}/{seed}"] for seed in SEEDS]

    found = {
        task: {scheme: [run["right"] for run in of(task, scheme)] for scheme in SCHEMES}
        for task in TASKS
    }
    stretched = {
        task: {
            name: {
                when: [run["stretched"][name][when] for run in of(task, "rotary")]
                for when in ("at once", "after")
            }
            for name in STRETCHED
        }
        for task in TASKS
    }
    grid = {name: of("grid", name) for name in GRIDS}
    return {"right": found, "stretched": stretched, "grid": grid, "rates": rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=STORE)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    here = device.choose(0)
    draft = Path(__file__).parent / f"{given.out.stem}.draft"
    runs = json.loads(draft.read_text()) if draft.exists() else {}
    for key, compute in work(runs, given.steps):
        if key not in runs:
            runs[key] = compute()
            write(draft, runs)
            print(key, runs[key], flush=True)
    write(given.out, summary(runs) | {"runs": runs, "provenance": provenance(here)})
    draft.unlink()


if __name__ == "__main__":
    main()
