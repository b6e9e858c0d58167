"""Measure lab 12's targets: runs ten times larger than the largest that a student may train.

    python results/ten_times.py                     # all texts, the practice text first
    python results/ten_times.py --world backwards   # one of them
    python results/ten_times.py --world backwards --again 48 1 0.016   # one target, trained again
    python results/ten_times.py --levels            # points of the three reference solutions

For each text every recipe of the menu is trained once, and one plan of small runs within the
budget, on which grading tries a student's forecast.
What is trained is kept after each run: an interrupted program goes on where it was. The practice
text goes to src/attnlabs/lab12/stored/practice.json, which students have, the others to
labs/12-ten-times-larger.json, which grading reads. The levels' methods are tried on the hidden
ledgers of five classes.
"""

import argparse
import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from attnbook import device
from attnbook.files import store
from attnbook.provenance import provenance, write
from attnlabs import source
from attnlabs.inside.fingerprints import outcome
from attnlabs.lab12 import plan, verdict
from attnlabs.lab12.desk import PRACTICE
from attnlabs.lab12.family import WORLDS, Run, train
from attnlabs.lab12.verdict import TARGETS
from bookkit.results import study
from bookkit.results.study import Config

ROOT = Path(__file__).parents[1]
OUT = ROOT / "results"
CLASSES = 5  # whose hidden ledgers a level's method is tried on
ANSWERS = {"imports", "ledger-typed", "desk", "run-flops", "fit-law", "ledger", "best-runs"}
ANSWERS |= {"forecast", "recipe", "committed"}
SEED = 77  # of the targets; no student's run has it
SMALL = [  # width, layers, rate, gigaflops, seed: together less than the budget
    (16, 1, 0.032, 0.5, 0),
    (16, 1, 0.032, 1.25, 0),
    (16, 1, 0.032, 2.5, 0),
    (32, 1, 0.032, 2.5, 0),
    (16, 1, 0.016, 5, 0),
    (16, 1, 0.032, 5, 0),
    (16, 1, 0.032, 5, 1),
    (32, 1, 0.032, 5, 0),
    (16, 1, 0.032, 10, 0),
    (32, 1, 0.016, 10, 0),
    (32, 1, 0.032, 10, 0),
    (48, 1, 0.016, 10, 0),
]


def config(world: str) -> Config:
    """All that a text's file depends on."""
    menu = [(run.width, run.layers, run.rate, run.steps) for run in plan.menu(world)]
    return json.loads(json.dumps({"world": world, "menu": menu, "small": SMALL, "seed": SEED}))


def measure(config: Config, checkpoint: Path) -> dict[str, Any]:
    """Train all that is asked for; `checkpoint` keeps what is there."""
    world, kept = config["world"], {}
    if checkpoint.exists():
        kept = json.loads(checkpoint.read_text("utf-8"))

    def trained(run: Run) -> tuple[float, float]:
        name = f"{run.width} {run.layers} {run.rate:g} {run.steps} {run.seed}"
        if name not in kept:
            found = train(world, run)
            kept[name] = round(found.first, 4), round(found.loss, 4)
            store(checkpoint, json.dumps(kept))
            print(world, name, kept[name], flush=True)
        return kept[name]

    ledger, targets = [row(world, trained, *small) for small in config["small"]], []
    for width, layers, rate, steps in config["menu"]:
        run = Run(width, layers, rate, steps, config["seed"])
        targets.append((width, layers, rate, steps, plan.gigaflops(world, run), trained(run)[1]))
    found = {"ledger": ledger, "targets": targets}
    return {"config": config, **found, "provenance": provenance(device.choose(0))}


def row(
    world: str,
    trained: Callable[[Run], tuple[float, float]],
    width: int,
    layers: int,
    rate: float,
    most: float,
    seed: int,
) -> tuple[float, ...]:
    """A row of the ledger of small runs."""
    steps = plan.steps_for(world, width, layers, most)
    run = Run(width, layers, rate, steps, SEED + 23 + seed)
    return (width, layers, rate, steps, seed, plan.gigaflops(world, run), *trained(run))


def publish(folder: Path) -> None:
    """Write what students have and what grading reads, of the texts that are there."""
    found = {world: folder / f"ten_times_{world}.json" for world in WORLDS}
    runs = {w: json.loads(p.read_text("utf-8")) for w, p in found.items() if p.exists()}
    for run in runs.values():
        del run["config"], run["provenance"]
    if plan.PRACTICE in runs:
        store(PRACTICE, json.dumps(runs.pop(plan.PRACTICE)) + "\n")
    if runs:
        store(TARGETS, json.dumps(runs) + "\n")


def points(level: int) -> dict[str, Any]:
    """The shares of the points of a reference solution in the questions of a student's own."""
    lab = source.find(12, ROOT / "labs")
    code = [cell.source for cell in lab.notebook.cells if cell.id in ANSWERS]
    if level != 2:
        code.append((ROOT / f"labs/levels/12-level-{level}.py").read_text("utf-8"))
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()):
        for part in code:
            exec(part, names)
    higher = (0.0, verdict.SHIFT)
    made = [outcome(names["committed"], (each,)) for each in higher]
    shares, inside = [], []
    for seed in range(CLASSES):
        cases = list(verdict.hidden(torch.Generator().manual_seed(seed)))
        answers = [outcome(names["forecast"], case.arguments) for case in cases]
        shares.append(verdict.forecast(answers, cases)[0])
        for case, answer in zip(cases, answers, strict=True):
            runs, target = (torch.as_tensor(each).numpy() for each in case.arguments)
            interval = verdict.numbers(answer, 3)
            seen = verdict.truth(runs, target, verdict.stored())
            inside.append(
                seen is not None and len(interval) == 3 and interval[1] <= seen <= interval[2]
            )
    share, _, said = verdict.committed("", made)
    return {
        "ledger": round(verdict.ledger("", [outcome(names["ledger"], (0,))], 0.0)[0], 3),
        "committed": round(share, 3),
        "said": said,
        "forecast": round(sum(shares) / CLASSES, 3),
        "worst class": round(min(shares), 3),
        "inside": round(sum(inside) / len(inside), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--world", choices=list(WORLDS), help="one text; default: all")
    help = "train the target of this width, layers and rate again, and store nothing"
    parser.add_argument("--again", nargs=3, type=float, metavar=("C", "L", "RATE"), help=help)
    parser.add_argument("--levels", action="store_true", help="try the three reference solutions")
    options = parser.parse_args()
    if options.levels:
        found = {str(level): points(level) for level in (1, 2, 3)}
        write(
            OUT / "ten_times_levels.json",
            {"levels": found, "provenance": provenance(device.choose(0))},
        )
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return
    if options.again:
        world = options.world or plan.OWN[0]
        run = plan.on_the_menu(world, options.again)
        if run is None:
            parser.error(f"{options.again} is not on the menu")
        again = train(world, Run(run.width, run.layers, run.rate, run.steps, SEED))
        print(f"{world}: {again.loss:.4f} nats")
        return
    for world in [options.world] if options.world else WORLDS:
        path = OUT / f"ten_times_{world}.json"
        study.run_or_explain(parser, path, config(world), measure)
        publish(OUT)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
