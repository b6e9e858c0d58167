"""A vision transformer, a convolutional network and a linear map on photographs: five seeds each.

    python results/photographs.py               # all runs, one after the other: some ten minutes
    python results/photographs.py --minutes 7   # as many as begin in seven; given again it goes on
    python results/photographs.py --only cnn    # one model's runs; stores nothing yet

The three classifiers of `results/images.py`, its setting "cpu" and its plan (optimiser, schedule,
augmentation), but 128 steps of 128 pictures. Each has its own learning rate: the best of three by
the 5,000 training pictures that nobody trains on, with seed 9; where the best is the first or the
last, rates beyond it are tried until it is not. Then five other seeds with that rate, on the whole
test set. One thread, so that the processor seconds can be compared.
"""

import argparse
import math
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from images import MODELS, PLAN, SETTINGS, accuracy, divided, loss

from attnbook import device
from attnbook.data import images
from attnbook.losses import parameters
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from bookkit.results import study
from bookkit.results.study import Config

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "photographs.json"
DRAFTS = Path(__file__).with_suffix(".draft")
SEEDS, TUNE = range(5), 9
LADDER = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
RATES = LADDER[2:5]  # what is tried first
STEPS = 128
COMMON: Config = SETTINGS["cpu"] | PLAN
COMMON = {name: x for name, x in COMMON.items() if name not in ("epochs", "lr")} | {"steps": STEPS}
Runs = dict[str, Any]


@cache
def pictures() -> images.Images:
    """CIFAR-10, read once."""
    return images.load("cifar10")


def measure(config: Config, _: Path) -> Runs:
    """Train as `config` says; right answers among the pictures that it asks for."""
    here, steps = device.choose(config["seed"]), config["steps"]
    data, held_out = divided(pictures(), config["images"])
    asked = {"validation": held_out, "test": (data.test, data.test_labels)}[config["asked"]]
    model = MODELS[config["model"]](config).to(here.device)
    began = time.process_time()
    train(
        model,
        images.sampler(data, config["batch"], config["shift"], config["flip"]),
        partial(loss, smoothing=config["smoothing"]),
        steps=steps,
        optimizer=study.adamw(model, config),
        schedule=cosine(steps, int(config["warmup"] * steps), config["floor"]),
        seed=config["seed"],
        progress=False,
    )
    seconds = time.process_time() - began
    model.eval()
    with torch.no_grad():
        right = accuracy(model, *asked, data=data, device=here.device)
    found = {"right": round(right, 4), "cpu_seconds": round(seconds, 1)}
    return {"config": config, "data": data.name, "parameters": parameters(model), **found}


class Drafts:
    """The runs, each in a file of its own once it is measured; none begins after `until`."""

    def __init__(self, folder: Path, until: float = math.inf) -> None:
        self.folder, self.until = folder, until

    def get(self, model: str, lr: float, seed: int) -> Runs:
        """One run; with the seed for tuning on held-out pictures, else on the test set."""
        asked = "validation" if seed == TUNE else "test"
        config = COMMON | {"model": model, "lr": lr, "seed": seed, "asked": asked}
        path = self.folder / f"{model}.lr{lr:g}.seed{seed}.draft"
        if not path.exists() and time.monotonic() > self.until:
            raise SystemExit("the time is over: nothing is stored yet; the same command goes on")
        new = not path.exists()
        run = study.measured(path, config, measure)
        if new:
            print(f"{path.stem}: {run['right']:.4f} in {run['cpu_seconds']} s", flush=True)
        return run


def tuned(runs: Drafts, model: str) -> dict[float, float]:
    """Right answers on held-out pictures by learning rate, the best of which is at no end."""
    tried = {lr: runs.get(model, lr, TUNE)["right"] for lr in RATES}
    while (best := max(tried, key=lambda lr: tried[lr])) in (min(tried), max(tried)):
        beyond = LADDER[LADDER.index(best) + (1 if best == max(tried) else -1)]
        tried[beyond] = runs.get(model, beyond, TUNE)["right"]
    return dict(sorted(tried.items()))


def of_model(runs: Drafts, model: str) -> Runs:
    """Held-out answers by learning rate, and what five seeds found with the best."""
    tried = tuned(runs, model)
    rate = max(tried, key=lambda lr: tried[lr])
    each = [runs.get(model, rate, seed) for seed in SEEDS]
    return {
        "data": each[0]["data"],
        "parameters": each[0]["parameters"],
        "tried": {str(lr): right for lr, right in tried.items()},
        "rate": rate,
        "right": [run["right"] for run in each],
        "cpu_seconds": [run["cpu_seconds"] for run in each],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=math.inf, help="after them no run begins")
    parser.add_argument("--only", choices=MODELS, help="one model's runs; stores nothing yet")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = Drafts(DRAFTS, time.monotonic() + 60 * options.minutes)
    models = {
        name: of_model(runs, name) for name in reversed(MODELS) if options.only in (None, name)
    }
    if options.only is None:
        (data,) = {run.pop("data") for run in models.values()}  # the same copy for all
        found = {"config": COMMON, "data": data, "chance": 0.1, "models": models}
        write(STORE, found | {"provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
