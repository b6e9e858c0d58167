"""Do the gradients of a pair's two answers point the same way? Chapter 16, deeper.

    python results/alike.py

A beginner and 120 pairs of its own answers, one right and one wrong (`adder.preferred`). Before
DPO, and after 200 steps of it at a rate of 0.0001: the cosine of ∇log π(y_w) and ∇log π(y_l), pair
by pair, and in how many pairs a small step that follows the pair's own loss lowers the better
answer, which it does where g_w·g_l > |g_w|². How many of the four answer tokens differ. Three
seeds.
"""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data.addition import ASKED
from attnbook.provenance import provenance, write
from attnbook.train.preferences import answer_log_probs
from bookkit.experiments import adder

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "alike.json"
SEEDS, PAIRS, STEPS, RATE = range(3), 120, 200, 1e-4


def gradient(model: nn.Module, row: Tensor) -> Tensor:
    """∇ log π of one answer, all weights in one row."""
    said = answer_log_probs(model, row[None], adder.wrote(row[None])).sum()
    found = torch.autograd.grad(said, [p for p in model.parameters() if p.requires_grad])
    return torch.cat([each.flatten() for each in found])


def alike(model: nn.Module, better: Tensor, worse: Tensor) -> dict[str, Any]:
    """Mean cosine; shares of pairs with a negative one, and where the better answer would fall."""
    cosines, falls = [], 0
    for one, other in zip(better, worse, strict=True):
        up, down = gradient(model, one), gradient(model, other)
        cosines.append((up @ down / up.norm() / down.norm()).item())
        falls += int(up @ down > up @ up)
    negative = sum(c < 0 for c in cosines) / len(cosines)
    mean = sum(cosines) / len(cosines)
    return {"cosine": round(mean, 4), "negative": round(negative, 4), "falls": falls / len(cosines)}


def main() -> None:
    torch.set_num_threads(1)
    seeds = []
    for seed in SEEDS:
        start = adder.beginner(seed)
        pairs = adder.preferred(start, style=False, count=1000, seed=seed)
        better, worse = (texts[:PAIRS] for texts in pairs)
        differ = (better[:, ASKED:] != worse[:, ASKED:]).sum(1)
        model = copy.deepcopy(start)
        found: dict[str, Any] = {"before": alike(model, better, worse)}
        adder.directly_preferred(model, pairs, steps=STEPS, lr=RATE, seed=seed)
        found["after"] = alike(model, better, worse)
        found["tokens that differ"] = differ.bincount(minlength=5).tolist()
        print(seed, found, flush=True)
        seeds.append(found)
    write(STORE, {"pairs": PAIRS, "steps": STEPS, "seeds": seeds,
                  "provenance": provenance(device.choose(0))})  # fmt: skip


if __name__ == "__main__":
    main()
