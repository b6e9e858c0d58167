"""One small transformer on real data of several kinds, each beside a simple model; pictures made.

    python results/anything.py     # eight minutes on one core

The tasks of `bookkit.experiments.tasks` (ten draws of the club's known members), then, seed by
seed, two ways to make digits, a captioner of them, one that never saw a picture, and a classifier.
Runs that are stored are kept: an interrupted command goes on where it stopped."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from attnbook import device
from attnbook.data import small
from attnbook.provenance import provenance, write
from bookkit.experiments import pictures, tasks

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "anything.json"
SEEDS, DRAWS = 5, 10


def reading(seed: int) -> dict[str, float]:
    """Captions without an error, by how many digits are on the strip; what is right, what wrong."""
    model = pictures.reader(seed)
    found = {f"{count} digits": share for count, share in enumerate(pictures.exact(model), 1)}
    found |= pictures.read(model) | pictures.mistakes(model)
    return found | {"captions, hidden": pictures.read(model, hidden=True)["captions"]}


def blind(seed: int) -> dict[str, float]:
    """The same captioner with as many steps, all of them with blank pictures."""
    return pictures.read(pictures.reader(seed, hidden=True), hidden=True)


def judged(made: torch.Tensor, kind: torch.Tensor) -> dict[str, float]:
    """What is asked for, how the sets differ, how close a picture comes to one that was learned."""
    real, _ = small.handwriting(training=False)
    called = torch.tensor(pictures.judge().predict(made.flatten(1)))
    return {
        "as asked": (called == kind).float().mean().item(),
        "Fréchet": pictures.frechet(made, real),
        "nearest": pictures.nearest(made, small.handwriting()[0]).median().item(),
    }


def painting(seed: int) -> dict[str, float]:
    """Diffusion, without and with guidance."""
    model, kind = pictures.painter(seed), torch.arange(1000) % 10
    found: dict[str, float] = {}
    for name, guidance in {"": 1.0, ", guided": 2.0}.items():
        of_case = judged(pictures.painted(model, kind, guidance), kind)
        found |= {key + name: value for key, value in of_case.items()}
    return found


def writing(seed: int) -> dict[str, float]:
    """Discrete tokens, one by one."""
    words, kind = pictures.tokeniser(seed), torch.arange(1000) % 10
    return judged(pictures.written(words, pictures.writer(words, seed), kind), kind)


CASES: dict[str, Callable[[int], dict[str, float]]] = tasks.TASKS | {
    "painting": painting,
    "writing": writing,
    "reading": reading,
    "blind": blind,
}


def plan(slow_seeds: int) -> Iterator[tuple[str, int]]:
    """The quick tasks with all their seeds, then the slow ones, seed by seed."""
    yield from (("club", draw) for draw in range(DRAWS))
    for name in ("tumours", "brain waves", "shares"):
        yield from ((name, seed) for seed in range(SEEDS))
    for seed in range(slow_seeds):
        yield from ((name, seed) for name in ("painting", "reading", "blind", "writing", "digits"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--most", type=int, default=SEEDS, help="seeds of the slow tasks")
    torch.set_num_threads(1)
    runs = json.loads(STORE.read_text("utf-8"))["runs"] if STORE.exists() else {}
    for name, seed in plan(parser.parse_args().most):
        of_case = runs.setdefault(name, {})
        if any(len(values) > seed for values in of_case.values()):
            continue
        for key, value in CASES[name](seed).items():
            of_case.setdefault(key, []).append(float(f"{value:.4g}"))
        write(STORE, {"runs": runs, "provenance": provenance(device.choose(0))})
        print(name, seed, of_case, flush=True)


if __name__ == "__main__":
    main()
