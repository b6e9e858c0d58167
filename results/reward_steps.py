"""Does a reward that reads the last token alone teach a model to write its steps?

    python results/reward_steps.py       # resumed run by run; some minutes on one core

Question. In `steps.py` a model that writes running sums before the last digit of a sum of eight
digits is right, one that writes dots is not: each was taught to. Here a model can do both, and
writes dots in seven of ten answers. Then it gets one bit for each answer: is the last token right?
Does it come to write its steps?
Start. The model of `steps.py`, taught to write steps, and then 60 steps of demonstrations of which
three in ten have steps and the others dots.
Budget. 16 updates of GRPO, 16 questions with 16 answers each. Every two updates 500 new questions
are asked, one drawn answer each.
Grid. The rate 0.0003, 0.001, 0.003, by the mean share of right answers over all updates, the mean
of seeds 100 and 101; the grid grows where its end is best.
Reporting seeds 0 to 4.
Baselines. The model before; the same updates with a coin in the reward's place; a guess, 0.1.
No gain. The reward teaches no steps if the 95 % interval of the paired difference of the share of
answers without a dot, after and before, contains 0, or if the coin's does not.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from attnbook import device
from attnbook.data.running_sums import DOT, V, answer, correct, digits, question
from attnbook.generate.sampling import generate, sample
from attnbook.losses import token_loss
from attnbook.models.llama import llama
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from attnbook.train.preferences import advantages, answer_log_probs, policy_loss
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "reward_steps.json"
STUDY = Study(
    name="reward_steps",
    question="Does a reward for the last token alone teach a model to write its steps?",
    budget="16 updates of 256 answers",
    grid={"rate": (0.0003, 0.001, 0.003)},
    choosing_seeds=range(100, 102),
    reporting_seeds=range(5),
    baselines=("before", "a coin in the reward's place", "a guess, 0.1"),
    no_gain="the interval of answers with steps, after minus before, contains 0",
)
N, SHOWN = 8, 0.3  # digits of a question; share of demonstrations with steps
UPDATES, EVERY, QUESTIONS, GROUP = 16, 2, 16, 16


def taught(seed: int) -> nn.Module:
    """A model that was shown steps alone, and then mostly dots."""
    torch.manual_seed(seed)
    model = llama(V, width=32, depth=2, heads=4, hidden=64)

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return token_loss(model(tokens[:, :-1])[:, N:], tokens[:, N + 1 :])

    def demonstrations(share: float) -> Callable[[torch.Generator], Tensor]:
        def sampler(generator: torch.Generator) -> Tensor:
            given = digits(generator, 64, N)
            steps = torch.rand(64, 1, generator=generator) < share
            shown = torch.where(steps, answer(given, "steps"), answer(given, "dots"))
            return torch.cat((question(given), shown), 1)

        return sampler

    for share, steps in ((1.0, 400), (SHOWN, 60)):
        plan: dict[str, Any] = {"schedule": cosine(steps, 20), "progress": False}
        train(model, demonstrations(share), loss, steps=steps, lr=2e-3, seed=seed, **plan)
    return model.eval()


@torch.no_grad()
def told(model: nn.Module, seed: int) -> dict[str, float]:
    """Of one drawn answer to each of 500 questions: right, without a dot, and right if so."""
    dice = torch.Generator().manual_seed(1000 + seed)
    given = digits(dice, 500, N)
    said = generate(model, question(given), N, sample(generator=dice))[:, N + 1 :]
    right, steps = correct(given, said), (said != DOT).all(1)
    shares = {"right": right, "steps": steps, "right with steps": right[steps]}
    return {name: round(found.float().mean().item(), 4) for name, found in shares.items()}


def run(start: nn.Module, coin: bool, rate: float, seed: int) -> dict[str, list[float]]:
    """Shares every few updates."""
    model = copy.deepcopy(start).train()
    optimizer, dice = Adam(model.parameters(), rate), torch.Generator().manual_seed(seed)
    pace, line = cosine(UPDATES, UPDATES // 20), [told(start, seed)]
    for n in range(UPDATES):
        given = digits(dice, QUESTIONS, N).repeat_interleave(GROUP, 0)
        texts = generate(model, question(given), N, sample(generator=dice))
        reward = correct(given, texts[:, N + 1 :]).float()
        if coin:
            reward = (torch.rand(len(given), generator=dice) < 0.5).float()
        written = (torch.arange(texts.shape[1]) > N).expand_as(texts)
        log_probs = answer_log_probs(model, texts, written)
        A = advantages(reward.view(-1, GROUP)).flatten()
        loss = policy_loss(log_probs, A, written[:, 1:])
        for group in optimizer.param_groups:
            group["lr"] = rate * pace(n)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (n + 1) % EVERY == 0:
            line.append(told(model, seed))
    return {name: [each[name] for each in line] for name in line[0]}


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    runs = Runs(Path(__file__).parent / "reward_steps.draft", write)
    starts: dict[int, nn.Module] = {}

    def one(coin: bool, rate: float, seed: int) -> dict[str, list[float]]:
        def compute() -> dict[str, list[float]]:
            if seed not in starts:
                starts[seed] = taught(seed)
            return run(starts[seed], coin, rate, seed)

        return runs.get(f"{'coin' if coin else 'reward'}/{rate:g}/{seed}", compute)

    def early(rate: float, seed: int) -> float:
        right = one(False, rate, seed)["right"]
        return sum(right) / len(right)

    rate, tried = STUDY.choose("rate", early, higher=True)
    found = {
        name: STUDY.report(lambda seed, coin=coin: one(coin, rate, seed))  # type: ignore[misc]
        for name, coin in (("reward", False), ("coin", True))
    }
    apart: dict[str, Any] = {}
    for name, each in found.items():
        for what in ("steps", "right"):
            after, before = ([r[what][place] for r in each] for place in (-1, 0))
            apart[f"{name}: {what}"] = difference(after, before, paired=True).as_dict()
    result = {"study": STUDY.declared() | {"declared": said}, "every": EVERY, "rate": rate}
    result |= {"rates": {f"{r:g}": round(share, 4) for r, share in tried.items()}}
    result |= {"ways": found, "after minus before": apart}
    write(STORE, result | {"provenance": provenance(device.choose(0), "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
