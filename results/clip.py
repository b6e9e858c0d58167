"""GRPO with the clip at work, and how it divides its answers: chapter 16.

    python results/clip.py             # resumed run by run

The beginners and the 15,360 answers of `results/after.py`: 60 draws of 256 answers, here as 64
questions with 4 answers each, not 16 with 16; one update from each draw or four, without a clip,
with ε of 0.2, and with 0.28 upwards. Beside them rejection sampling with the same answers and
updates. The rate is 0.001 for all, the best of three for 16 × 16 in `results/after.py`. No rate was
chosen for the others, so this says what one change does at this rate and ranks no methods. Five
seeds.

The clip brings nothing here, if the 95 % interval of the paired difference between four updates
with and without it contains 0.
"""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Adam

from attnbook import device
from attnbook.data.addition import ASKED, correct
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine
from attnbook.train.preferences import advantages, answer_log_probs, policy_loss
from bookkit.experiments import adder

Found = dict[str, Any]
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "clip.json"
SEEDS, RATE, DRAWS, EVERY = range(5), 1e-3, 60, 60
FAR = 1e6  # a clip that never acts, upwards; downwards the smallest ratio is near 0
WAYS: dict[str, dict[str, Any]] = {
    "64 × 4": {"questions": 64},
    "64 × 4, four updates": {"questions": 64, "updates": 4},
    "64 × 4, four updates, no clip": {"questions": 64, "updates": 4, "clip": (0.9999, FAR)},
    "rejection, 64 × 4": {"questions": 64, "imitate": True},
    "rejection, 64 × 4, four updates": {"questions": 64, "imitate": True, "updates": 4},
    "64 × 4, four updates, 0.28 up": {"questions": 64, "updates": 4, "clip": (0.2, 0.28)},
}


@cache
def start(seed: int) -> Any:
    """A model that adds about a fifth of all sums."""
    return adder.beginner(seed)


def run(way: str, seed: int) -> Found:
    """Right answers and the distance from the start, before and after."""
    model = copy.deepcopy(start(seed)).train()
    how: dict[str, Any] = {"updates": 1, "clip": (0.2, 0.2), "imitate": False} | WAYS[way]
    optimizer, dice = Adam(model.parameters(), RATE), torch.Generator().manual_seed(seed)
    total = DRAWS * how["updates"]
    rate = cosine(total, total // 20)
    line, n = [told(model, seed)], 0
    for draw in range(DRAWS):
        pairs = adder.asked(dice, how["questions"], 256 // how["questions"])
        texts = adder.write(model, pairs, dice)
        good, answer = correct(pairs, texts[:, ASKED:]), adder.wrote(texts)
        A = advantages(good.float().view(how["questions"], -1)).flatten()
        with torch.no_grad():
            before = answer_log_probs(model, texts, answer)
        for _ in range(how["updates"]):
            for group in optimizer.param_groups:
                group["lr"] = RATE * rate(n)
            n += 1
            if how["imitate"]:
                loss = adder.likely(model, texts[good]) if good.any() else None
            else:
                now = answer_log_probs(model, texts, answer)
                loss = policy_loss(now, A, answer[:, 1:], before, *how["clip"])
            if loss is not None:
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
        if (draw + 1) % EVERY == 0:
            line.append(told(model, seed))
    return {"right": [right for right, _ in line], "kl": [kl for _, kl in line]}


@torch.no_grad()
def told(model: nn.Module, seed: int) -> tuple[float, float]:
    """Right, of the thousand held-out sums, one draw each; nats an answer from the start."""
    was, dice = model.training, torch.Generator().manual_seed(100 + seed)
    model.eval()
    texts = adder.write(model, adder.UNSEEN, dice)
    right = correct(adder.UNSEEN, texts[:, ASKED:]).float().mean().item()
    answer = adder.wrote(texts)
    now, then = (answer_log_probs(each, texts, answer) for each in (model, start(seed)))
    far = ((now - then) * answer[:, 1:]).sum(1).mean().item()
    model.train(was)
    return round(right, 4), round(far, 4)


def main() -> None:
    torch.set_num_threads(1)
    found = json.loads(STORE.read_text("utf-8"))["runs"] if STORE.exists() else {}
    for seed in SEEDS:
        for way in WAYS:
            name = f"{way}/{seed}"
            if name not in found:
                found[name] = run(way, seed)
                print(name, found[name]["right"][-1], found[name]["kl"][-1], flush=True)
                write(STORE, {"rate": RATE, "draws": DRAWS, "every": EVERY, "runs": found,
                              "provenance": provenance(device.choose(0))})  # fmt: skip


if __name__ == "__main__":
    main()
