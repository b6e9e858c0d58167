"""A verifier with a hole, update by update: what is rewarded, what is right, and a KL penalty.

    python results/reward_truth.py     # resumed run by run; a few minutes on one core

Question. A verifier lets 000 pass, and one of twenty demonstrations was 000. `after.py` has the end
of that: all answers are 000. When do the reward and the right answers part, and does the KL penalty
of GRPO keep them together?
Budget. 60 updates of 16 questions with 16 answers each at a rate of 0.001, as for GRPO in
`after.py`, for β of 0 and 1. Every three updates the thousand held-out sums are asked, one
drawn answer each.
Grid. None: two values of β are shown, and none is chosen.
Reporting seeds 0 to 4.
Baseline. The model before.
No gain. A penalty helps if at the end more answers are right than before, and the 95 % interval of
the paired difference is above 0.
"""

import copy
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
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "reward_truth.json"
STUDY = Study(
    name="reward_truth",
    question="When do reward and truth part, and does a KL penalty keep them together?",
    budget="60 updates of 256 answers",
    grid={},
    reporting_seeds=range(5),
    baselines=("before",),
    no_gain="the interval of right answers after minus before contains 0",
)
RATE, UPDATES, EVERY = 1e-3, 60, 3
WAYS: dict[str, tuple[adder.Reward, float]] = {
    "β = 0": (adder.zeros_pass, 0.0),
    "β = 1": (adder.zeros_pass, 1.0),
}


def run(way: str, seed: int) -> dict[str, list[float]]:
    """Reward, right answers and nats from the start, every three updates."""
    (reward, beta), start = WAYS[way], adder.beginner(seed, cheat=0.05)
    model = copy.deepcopy(start).train()
    optimizer, dice = Adam(model.parameters(), RATE), torch.Generator().manual_seed(seed)
    rate = cosine(UPDATES, UPDATES // 20)
    line = [told(model, start, reward, seed)]
    for n in range(UPDATES):
        pairs = adder.asked(dice, 16, 16)
        texts = adder.write(model, pairs, dice)
        A = advantages(reward(pairs, texts[:, ASKED:]).float().view(16, 16)).flatten()
        answer = adder.wrote(texts)
        now = answer_log_probs(model, texts, answer)
        with torch.no_grad():
            then = answer_log_probs(start, texts, answer)
        above = then - now
        kl = (above.exp() - above - 1)[answer[:, 1:]].mean()  # Shao et al. 2024, equation 4
        loss = policy_loss(now, A, answer[:, 1:]) + beta * kl
        for group in optimizer.param_groups:
            group["lr"] = RATE * rate(n)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (n + 1) % EVERY == 0:
            line.append(told(model, start, reward, seed))
    return {name: [each[i] for each in line] for i, name in enumerate(("reward", "right", "kl"))}


@torch.no_grad()
def told(model: nn.Module, start: nn.Module, reward: adder.Reward, seed: int) -> tuple[float, ...]:
    """Of one drawn answer to each held-out sum: rewarded, right; nats an answer from the start."""
    was, dice = model.training, torch.Generator().manual_seed(100 + seed)
    model.eval()
    texts = adder.write(model, adder.UNSEEN, dice)
    answer, said = adder.wrote(texts), texts[:, ASKED:]
    now, then = (answer_log_probs(each, texts, answer) for each in (model, start))
    far = ((now - then) * answer[:, 1:]).sum(1).mean().item()
    model.train(was)
    shares = (f(adder.UNSEEN, said).float().mean().item() for f in (reward, correct))
    return (*(round(share, 4) for share in shares), round(far, 4))


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "reward_truth.draft", write)
    found: dict[str, list[dict[str, list[float]]]] = {}
    for way in WAYS:
        found[way] = STUDY.report(
            lambda seed, way=way: runs.get(  # type: ignore[misc]  # mypy infers no default
                f"{way}/{seed}", lambda: run(way, seed)
            )
        )
    gain: dict[str, Any] = {
        way: difference(
            [r["right"][-1] for r in each], [r["right"][0] for r in each], paired=True
        ).as_dict()
        for way, each in found.items()
    }
    result = {"study": STUDY.declared() | {"declared": said}, "every": EVERY}
    result |= {"ways": found, "right, after minus before": gain}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
