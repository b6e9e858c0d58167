"""One healthy training run and eight sick ones, with all instruments; and a sweep of the rate.

    python results/clinic.py

The clinic's small language model (`bookkit.experiments.clinic`) on the embedded text, four seeds
of: the healthy recipe, each fault, and post-norm with its warm-up, the counterpart of the fault
without. Then the healthy recipe at three other learning rates, four seeds each. Runs that are
stored already are kept: an interrupted command goes on where it stopped."""

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

import torch

from attnbook import device
from attnbook.provenance import provenance, write
from bookkit.experiments.clinic.faults import FAULTS
from bookkit.experiments.clinic.recipe import Recipe
from bookkit.experiments.clinic.run import EVERY, STEPS, examine

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "clinic.json"
SEEDS, SWEPT = range(4), (1e-3, 1e-2, 3e-2)  # beside those of the recipes
CONTROL = replace(FAULTS["no-warm-up"].recipe(), warmup=Recipe().warmup)


def cases() -> dict[str, Recipe]:
    """Every recipe that is run, by the name under which its readings are stored."""
    sick = {name: fault.recipe() for name, fault in FAULTS.items()}
    rates = {f"rate {rate:g}": Recipe(rate=rate) for rate in SWEPT}
    return {"healthy": Recipe(), **sick, "post-norm, warm-up": CONTROL, **rates}


def rounded(found: dict[str, list[float]]) -> dict[str, list[float]]:
    """Three significant digits of each reading; what is not finite ended the run before."""
    return {
        name: [float(f"{value:.3g}") for value in values if math.isfinite(value)]
        for name, values in found.items()
    }


def save(runs: dict[str, list[dict]]) -> None:
    """Store what there is."""
    settings = {"steps": STEPS, "every": EVERY, "seeds": len(SEEDS)}
    write(STORE, {**settings, "runs": runs, "provenance": provenance(device.choose(0))})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--most", type=int, help="stop after so many runs")
    left = parser.parse_args().most
    torch.set_num_threads(1)
    runs: dict[str, list[dict]] = {}
    if STORE.exists():
        found = json.loads(STORE.read_text("utf-8"))["runs"]
        runs = {name: found[name][: len(SEEDS)] for name in cases() if name in found}
    for seed in SEEDS:
        for name, recipe in cases().items():
            of_case = runs.setdefault(name, [])
            if len(of_case) > seed:
                continue
            if left == 0:
                return
            left = None if left is None else left - 1
            now = rounded(examine(recipe, seed))
            if name.startswith("rate "):
                now = {"held out": now["held out"][-1:]}
            of_case.append(now)
            save(runs)
            print(name, seed, now["held out"][-1], flush=True)
    save(runs)


if __name__ == "__main__":
    main()
