"""Written steps against a direct answer, dots and a vote: the last digit of a sum, chapter 16.

    python results/steps.py            # resumed run by run

A model of two blocks and width 32 is asked for the last digit of a sum of eight digits
(`attnbook.data.running_sums`): directly, after dots, after the running sums; 400 steps of 64
questions each, and directly also with four times as many. The learning rate is the better of two
with seed 9 (for the long training that of the short one); then five other seeds. Stored, over 1000
questions: right answers without sampling; of direct answers also one draw at temperature 1 and a
vote of eight draws; with steps also what becomes of the answer when one of the model's steps, the
one in the middle, is replaced by the digit after it.
Of 100 million questions that eight digits make, training draws 25,600 (102,400 where it is longer):
of the 1000 asked hardly one was trained on.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data.running_sums import V, answer, correct, digits, question
from attnbook.generate.sampling import generate, sample
from attnbook.losses import token_loss
from attnbook.models.llama import llama
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "steps.json"
SIZES, SEEDS, TUNE, RATES = (8,), range(5), 9, (2e-3, 6e-3)
WAYS = {  # how it answers, and how long it is trained
    "direct": ("direct", 400),
    "direct, longer": ("direct", 1600),
    "dots": ("dots", 400),
    "steps": ("steps", 400),
}
Runs = dict[str, dict[str, float]]


def taught(N: int, way: str, steps: int, rate: float, seed: int) -> nn.Module:
    """A model that was shown how to answer."""
    torch.manual_seed(seed)
    model = llama(V, width=32, depth=2, heads=4, hidden=64)

    def sampler(generator: torch.Generator) -> Tensor:
        given = digits(generator, 64, N)
        return torch.cat((question(given), answer(given, way)), 1)

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return token_loss(model(tokens[:, :-1])[:, N:], tokens[:, N + 1 :])

    plan: dict[str, Any] = {"schedule": cosine(steps, 20), "progress": False}
    train(model, sampler, loss, steps=steps, lr=rate, seed=seed, **plan)
    return model.eval()


def share(right: Tensor) -> float:
    return round(right.float().mean().item(), 4)


def measured(N: int, name: str, rate: float, seed: int) -> dict[str, float]:
    """What one model answers."""
    way, steps = WAYS[name]
    model, given = (
        taught(N, way, steps, rate, seed),
        digits(torch.Generator().manual_seed(99), 1000, N),
    )
    length = answer(given, way).shape[1]
    said = generate(model, question(given), length)[:, N + 1 :]
    found = {"right": share(correct(given, said)), "tokens": length}
    if way == "direct":
        dice = sample(generator=torch.Generator().manual_seed(7))
        rows = question(given).repeat_interleave(8, 0)
        drawn = generate(model, rows, 1, dice)[:, -1].view(-1, 8)
        found["one draw"] = share(drawn == given.sum(1, keepdim=True) % 10)
        found["vote of 8"] = share(correct(given, drawn.mode(1).values[:, None]))
    if way == "steps":
        found |= changed(model, given, said)
    return found


def changed(model: nn.Module, given: Tensor, said: Tensor) -> dict[str, float]:
    """Where the answer goes when the step in the middle says one more than the model wrote."""
    N = given.shape[1]
    before = said[:, : N // 2].clone()
    before[:, -1] = (before[:, -1] + 1) % 10
    start = torch.cat((question(given), before), 1)
    after = generate(model, start, N - N // 2)[:, -1]
    return {
        "follows the changed step": share(after == (said[:, -1] + 1) % 10),
        "stays": share(after == said[:, -1]),
    }


def rate_of(runs: Runs, N: int, name: str) -> float | None:
    """The better rate with the seed for tuning; None before both are there."""
    way = WAYS[name][0]
    tried = [runs.get(f"{N}/{way}/{rate}/{TUNE}") for rate in RATES]
    scores = [run["right"] for run in tried if run is not None]
    return RATES[scores.index(max(scores))] if len(scores) == len(RATES) else None


def work(runs: Runs) -> Iterator[tuple[str, Callable[[], dict[str, float]]]]:
    """Each run's name, and what makes it; `runs` are those that there are by then."""
    for N in SIZES:
        for name in WAYS:
            for rate in RATES if name != "direct, longer" else ():
                yield f"{N}/{name}/{rate}/{TUNE}", partial(measured, N, name, rate, TUNE)
            best = rate_of(runs, N, name)
            if best is None:
                continue
            for seed in SEEDS:
                yield f"{N}/{name}/{best}/{seed}", partial(measured, N, name, best, seed)


def stored(path: Path) -> Runs:
    """The runs that there are."""
    return json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=[""], help="beginnings of names of runs")
    parser.add_argument("--out", type=Path, default=STORE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    here, runs = provenance(device.choose(0)), stored(options.out)
    for name, make in work(runs):
        if name not in runs and name.startswith(tuple(options.names)):
            runs[name] = make()
            print(name, runs[name], flush=True)
            runs |= stored(options.out)
            write(options.out, {"runs": runs, "provenance": here})


if __name__ == "__main__":
    main()
