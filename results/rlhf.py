"""A reward model from pairs, and PPO with a program's reward: chapter 16, deeper.

    python results/rlhf.py             # resumed run by run

The beginners and the 15,360 answers of `results/after.py`: 60 draws of 256 answers, and four
updates from each. The rate is the best of three with seed 9; five other seeds. Beside them, for
each beginner, a reward model that learned from pairs of its answers, one right and one wrong: how
often is it right about 500 other pairs?
"""

import argparse
import copy
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data.addition import ASKED, BANG, correct
from attnbook.provenance import provenance, write
from attnbook.train.preferences import answer_log_probs, kl_estimate
from bookkit.experiments import adder

Found = dict[str, Any]
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "rlhf.json"
SEEDS, TUNE, RATES = range(5), 9, (3e-4, 1e-3, 3e-3)
DRAWS, UPDATES = 60, 4
WAYS = ("PPO",)


@cache
def start(seed: int) -> Any:
    """A model that adds about a fifth of all sums."""
    return adder.beginner(seed)


@cache
def preferences(seed: int) -> tuple[Any, float, int]:
    """A reward model, how often it is right about 500 other pairs, and how many it learned from."""
    better, worse = adder.preferred(start(seed), style=False, count=4500, seed=seed)
    known = (better[500:], worse[500:])
    model = adder.reward_model(start(seed), known, steps=600, lr=1e-3, seed=seed)
    with torch.no_grad():
        above = [adder.scored(model, texts[:500]) for texts in (better, worse)]
    return model, (above[0] > above[1]).float().mean().item(), len(better) - 500


def program(pairs: Tensor, texts: Tensor) -> Tensor:
    """1 for a right answer, 0 for a wrong one."""
    return correct(pairs, texts[:, ASKED:]).float()


def judged(seed: int, model: nn.Module) -> Found:
    """Four answers to each held-out sum, by the program, by the reward model, and how far away."""
    dice, pairs = torch.Generator().manual_seed(7), adder.UNSEEN.repeat(4, 1)
    with torch.no_grad():
        texts = adder.write(model, pairs, dice)
        inside = adder.wrote(texts)
        now, before = (answer_log_probs(m, texts, inside) for m in (model, start(seed)))
        score = adder.scored(preferences(seed)[0], texts).mean().item()
    return {
        "sampled": round(program(pairs, texts).mean().item(), 4),
        "score": round(score, 3),
        "nats": round(kl_estimate(now, before).item(), 3),
        "loud": round((texts[:, -1] == BANG).float().mean().item(), 4),
    }


def taught(way: str, rate: float, seed: int) -> Found:
    """The beginner after 60 draws."""
    model = copy.deepcopy(start(seed))
    adder.ppo(model, program, DRAWS, rate, seed, updates=UPDATES)
    return judged(seed, model)


def before(seed: int) -> Found:
    _, share, count = preferences(seed)
    return judged(seed, start(seed)) | {"pairs": count, "held-out pairs": round(share, 3)}


class Runs:
    """What was measured so far, kept in a file; a run that is there is not measured again."""

    def __init__(self, draft: Path):
        self.draft = draft
        self.found = json.loads(draft.read_text()) if draft.exists() else {}

    def get(self, key: str, compute: Callable[[], Found]) -> Found:
        if key not in self.found:
            self.found[key] = compute()
            write(self.draft, self.found)
            print(key, self.found[key], flush=True)
        return self.found[key]


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    runs = Runs(Path(__file__).parent / "rlhf.draft")
    tried = {str(r): runs.get(f"PPO/{r}/{TUNE}", partial(taught, "PPO", r, TUNE)) for r in RATES}
    rate = max(RATES, key=lambda rate: tried[str(rate)]["sampled"])
    found: Found = {"PPO": {"tried": tried, "rate": rate}}
    found["before"] = {"seeds": [runs.get(f"before/{s}", partial(before, s)) for s in SEEDS]}
    for way in WAYS:
        seeds = [runs.get(f"{way}/{rate}/{s}", partial(taught, way, rate, s)) for s in SEEDS]
        found.setdefault(way, {})["seeds"] = seeds
    write(STORE, {"compared": found, "provenance": provenance(device.choose(0))})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
