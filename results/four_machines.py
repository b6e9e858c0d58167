"""Which words decide between *is* and *are*, for four networks of equal size, while they learn?

    python results/four_machines.py        # resumed run by run; a few minutes on one core

Question. A recurrent network, an LSTM, a GRU with one look back and a transformer with two blocks,
of 8,300 to 8,900 weights each, read prefixes such as *The keys to the old cabinet in the hall*.
Which words move their answer after 20, 40, 80 and 320 steps? Do they differ once they have learned
it, and with more phrases than they were trained with?
Budget. 320 steps of 32 prefixes, Adam at a constant rate. Most prefixes have no phrase behind
the first noun, so that the last noun is right more often than not.
Grid. The rate 0.001, 0.003, 0.01, 0.03 for each network, by its mean loss on new prefixes after
320 steps, seeds 100 to 102; a grid grows where its end is best.
Reporting seeds 0 to 4.
Baselines. The last noun's number; a coin.
No gain. Trained networks do not differ on the sentence if all get its twelve variants right with
every seed. That a network depends on the length is said only where the share of right answers
with eight phrases lies below that with two for each seed.

Weights are rounded to sixteen bits before anything is measured on them; those of seed 0 are stored
after 40 and after 320 steps. Influence is measured by exchange (`agreement.influence`).
"""

import base64
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnbook import device
from attnbook.losses import parameters
from attnbook.provenance import provenance, write
from bookkit.experiments.agreement import (
    BUILD,
    MACHINES,
    VARIANTS,
    influence,
    lesson,
    looks,
    loss,
    numbers,
    odds,
    prefixes,
    right,
    sentence,
)
from bookkit.results.protocol import Runs, Study, committed

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs"
STUDY = Study(
    name="four machines",
    question="Which words decide between is and are, and do four machines differ?",
    budget="320 steps of 32 beginnings",
    grid={"rate": (0.001, 0.003, 0.01, 0.03)},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("the last noun's number", "a coin"),
    no_gain="all machines get the twelve variants right with every seed",
)
STAGES = (20, 40, 80, 320)
KEPT = (40, 320)
PHRASES = (0, 1, 2, 4, 8)


def trained(machine: str, rate: float, seed: int) -> list[nn.Module]:
    """The network after each stage, its weights rounded to sixteen bits."""
    torch.manual_seed(seed)
    model = BUILD[machine]()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    draw = torch.Generator().manual_seed(seed)
    found = []
    for step in range(1, STAGES[-1] + 1):
        optimizer.zero_grad()
        loss(model, lesson(draw)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step in STAGES:
            copy = BUILD[machine]()
            rounded = {name: weight.half().float() for name, weight in model.state_dict().items()}
            copy.load_state_dict(rounded)
            found.append(copy.requires_grad_(False))
    return found


def chosen_by(machine: str, rate: float, seed: int) -> float:
    """Mean loss on new prefixes with none, one and two phrases, those of the reports apart."""
    model = trained(machine, rate, seed)[-1]
    draw = torch.Generator().manual_seed(98)
    batches = [prefixes((False,) * (n + 1), 500, draw) for n in range(3)]
    return sum(loss(model, batch).item() for batch in batches) / 3


def measure(machine: str, rate: float, seed: int) -> list[dict[str, Any]]:
    """What is measured after each stage."""
    found = []
    for stage, model in zip(STAGES, trained(machine, rate, seed), strict=True):
        words = [sentence(many) for many in VARIANTS]
        run: dict[str, Any] = {
            "are": [round(odds(model, numbers(w)[None]).sigmoid().item(), 4) for w in words],
            "influence": [[round(x, 4) for x in influence(model, w)] for w in words],
            "looks": [[[round(x, 4) for x in row] for row in looks(model, w)] for w in words],
            "right": {str(n): round(right(model, n), 4) for n in PHRASES},
        }
        if seed == 0 and stage in KEPT:
            weights = nn.utils.parameters_to_vector(model.parameters()).half()
            run["weights"] = base64.b64encode(weights.numpy().tobytes()).decode()
        found.append(run)
    return found


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "four_machines.draft", write)
    machines: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    for name in MACHINES:

        def one(rate: float, seed: int, name: str = name) -> float:
            return runs.get(f"choose/{name}/{rate}/{seed}", partial(chosen_by, name, rate, seed))

        def report(seed: int, name: str = name) -> list[dict[str, Any]]:
            rate = machines[name]["rate"]
            return runs.get(f"{name}/{seed}", partial(measure, name, rate, seed))

        rate, tried = STUDY.choose("rate", one)
        machines[name] = {
            "rate": rate,
            "rates": {str(r): float(f"{mean:.3g}") for r, mean in tried.items()},
            "parameters": parameters(BUILD[name]()),
        }
        seeds = STUDY.report(report)
        kept = [seeds[0][STAGES.index(stage)].pop("weights") for stage in KEPT]
        weights[name] = dict(zip(map(str, KEPT), kept, strict=True))
        machines[name]["seeds"] = seeds
    declared = {"study": STUDY.declared() | {"declared": said}}
    source = {"provenance": provenance(here)}
    found = declared | {"stages": STAGES, "machines": machines} | source
    write(STORE / "four_machines.json", found)
    write(STORE / "four_machines_weights.json", {"dtype": "float16", "weights": weights} | source)
    runs.draft.unlink()


if __name__ == "__main__":
    main()
