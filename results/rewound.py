"""After a bad batch, does a run need Adam's old means, or only others than the spoilt ones?

    python results/rewound.py        # resumed run by run; about 5 minutes on one free core

Question. Chapter 14's page on a loss that jumps goes back to an earlier checkpoint. With the
weights alone the run ends worse than with Adam's means too, so "a checkpoint is weights *and*
optimizer". But rewinding the weights alone keeps the means that the bad batch spoilt. The control
is missing: the weights, and a new Adam, as after a crash with weights alone.
Model, text, optimiser and spike are the page's: width 32, two blocks, batches of 8 windows, Adam
(0.9, 0.999) without clipping, a tenth of warm-up, a cosine; at step 40 the loss is 256 times too
large; at step 50 the checkpoint of step 40 is loaded, and the run goes on with other batches.
Budgets. The page's 90 steps, and 360 with the bad batch at step 160 and the checkpoint loaded at
170.
Ways. No bad batch; no bad batch, but a new Adam at step 50 or 170; the bad batch; weights rewound
with the spoilt means, with the rewound means, with a new Adam.
Grid. The rate 0.003, 0.01, 0.03 for each budget, by runs without a bad batch, seeds 100 and 101,
on the first half of the held-out windows; it grows where its end is best. All ways have that rate.
Reporting seeds 0 to 7, on the other half.
Baselines. No bad batch; the spoilt means.
No gain. Old means gain nothing over new ones if the 95 % interval of the paired difference in
held-out loss, new Adam minus rewound means, contains 0 or lies below it; little, if the interval
lies below a quarter of what they save over the spoilt ones. The page's reason, that a checkpoint
needs the optimizer, then rests on nothing that it shows. A plain restart costs something if the
interval of new Adam minus none, without a bad batch, lies above 0.
"""

import copy
import math
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.losses import token_loss
from attnbook.models.gpt2 import gpt2
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine
from attnbook.transformer import initialise, normal
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "rewound.json"
WIDTH, T, B, LATER = 32, 32, 8, 10
BUDGETS = {90: 40, 360: 160}  # steps, and the step of the bad batch
STUDY = Study(
    name="rewound",
    question="After a bad batch, does a run need Adam's old means, or others than the spoilt?",
    budget="90 and 360 steps of 8 windows of 32 characters",
    grid={str(steps): (0.003, 0.01, 0.03) for steps in BUDGETS},
    choosing_seeds=(100, 101),
    reporting_seeds=range(8),
    baselines=("no bad batch", "the means the bad batch spoilt"),
    no_gain="the interval of the difference, new Adam minus rewound means, contains 0 or is below",
)


@dataclass(frozen=True)
class Way:
    """Whether a batch is bad, and what happens ten steps later."""

    bad: bool
    rewind: bool = False  # the weights
    means: str = "kept"  # or "rewound", or "new"


WAYS = {
    "no bad batch": Way(False),
    "no bad batch, new Adam": Way(False, means="new"),
    "bad batch": Way(True),
    "weights rewound, spoilt means": Way(True, True),
    "weights and means rewound": Way(True, True, "rewound"),
    "weights rewound, new Adam": Way(True, True, "new"),
}


@cache
def words() -> tuple[int, Tensor, list[list[Tensor]]]:
    """How many characters there are, the training text, and two halves of 300 held-out windows."""
    docs = text.load("python-docs")
    unseen = text.consecutive(docs.characters.encode(docs.validation), T)
    halves = [[part[at : at + 150] for part in unseen] for at in (0, 150)]
    return len(docs.characters), docs.characters.encode(docs.train), halves


def start() -> nn.Module:
    """The page's model: that of chapter 7, small."""
    std = 0.02 * math.sqrt(768 / WIDTH)
    return initialise(gpt2(words()[0], T, WIDTH, 2, 4), partial(normal, depth=2, std=std), std)


def ran(way: Way, steps: int, rate: float, seed: int, half: int) -> dict[str, float]:
    """Held-out loss at the end; mean training loss of the ten steps after the checkpoint's."""
    _, tokens, halves = words()
    torch.manual_seed(seed)
    model, generator = start(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.999))
    sampler, factor, at = text.windows(tokens, T, B), cosine(steps, steps // 10), BUDGETS[steps]
    kept: list[dict[str, Any]] = []
    losses: list[float] = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * factor(step)
        if step == at:
            kept = [copy.deepcopy(part.state_dict()) for part in (model, optimizer)]
        if step == at + LATER:
            if way.rewind:
                model.load_state_dict(kept[0])
            if way.means == "rewound":
                optimizer.load_state_dict(kept[1])
                optimizer.param_groups[0]["lr"] = rate * factor(step)
            elif way.means == "new":
                optimizer.state.clear()
        x, y = sampler(generator)
        loss = token_loss(model(x), y)
        optimizer.zero_grad()
        (loss * (256 if way.bad and step == at else 1)).backward()
        optimizer.step()
        losses.append(loss.item())
    x, y = halves[half]
    with torch.no_grad():
        end = token_loss(model(x), y).item()
    after = fmean(losses[at + LATER : at + 2 * LATER])
    return {"end": round(end, 4), "after": round(after, 4)}


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "rewound.draft", write)
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}, "budgets": {}}
    for steps, bad in BUDGETS.items():

        def run(name: str, rate: float, seed: int, half: int, steps: int = steps) -> Any:
            key = f"{steps}/{name}/{rate:g}/{seed}"
            return runs.get(key, lambda: ran(WAYS[name], steps, rate, seed, half))

        rate, tried = STUDY.choose(
            str(steps),
            lambda rate, seed: run("no bad batch", rate, seed, 0)["end"],
        )
        found = {
            name: STUDY.report(lambda seed, n=name, r=rate: run(n, r, seed, 1))  # type: ignore[misc]
            for name in WAYS
        }
        ends, after = (
            {name: [one[what] for one in each] for name, each in found.items()}
            for what in ("end", "after")
        )
        plain, plain_new, broken, spoilt, rewound, new = ends
        pairs = {
            "new minus rewound": (new, rewound),
            "spoilt minus rewound": (spoilt, rewound),
            "bad minus none": (broken, plain),
            "new minus none, no bad batch": (plain_new, plain),
        }
        compared = {
            what: difference(ends[a], ends[b], paired=True).as_dict()
            for what, (a, b) in pairs.items()
        }
        result["budgets"][str(steps)] = {
            "bad batch at": bad, "rate": rate, "tried": {f"{r:g}": tried[r] for r in sorted(tried)},
            "end": ends, "after": after, "compared": compared,
        }  # fmt: skip
        write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
