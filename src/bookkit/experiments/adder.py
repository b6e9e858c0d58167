"""A small model that adds two numbers below 100, and four ways to make it better at it.

Imitation, rejection sampling, rewards (GRPO) and preferences (DPO): each is `train` with another
sampler and another loss. Two of the samplers write with the model that is trained.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.optim import Adam

from attnbook.data.addition import ASKED, BANG, STOP, V, answer, correct, question, split
from attnbook.generate.sampling import generate, greedy, sample
from attnbook.models.llama import llama
from attnbook.train.loop import cosine, train
from attnbook.train.preferences import (
    advantages,
    advantages_by_value,
    answer_log_probs,
    bradley_terry_loss,
    dpo_loss,
    policy_loss,
    standardise,
    token_rewards,
    value_loss,
)
from attnbook.train.run import History
from attnbook.transformer import LanguageModel, initialise, xavier

Pairs = Int[Tensor, "B 2"]
Rows = Int[Tensor, "B L"]
Reward = Callable[[Pairs, Rows], Bool[Tensor, " B"]]
KNOWN, UNSEEN = split()


def adder(seed: int = 0, width: int = 64, depth: int = 2) -> LanguageModel:
    """A model of 14 symbols that knows nothing yet."""
    torch.manual_seed(seed)
    return initialise(llama(V, width, depth, heads=4, hidden=2 * width), xavier, embedding_std=1.0)


def asked(generator: torch.Generator, B: int, group: int = 1) -> Pairs:
    """B questions that are not held out, each `group` times."""
    return KNOWN[torch.randint(len(KNOWN), (B,), generator=generator)].repeat_interleave(group, 0)


def wrote(tokens: Rows) -> Bool[Tensor, "B L"]:
    """True at the answers."""
    return (torch.arange(tokens.shape[1]) >= ASKED).expand_as(tokens)


def write(model: nn.Module, pairs: Pairs, generator: torch.Generator | None = None) -> Rows:
    """Each question with the model's answer, drawn at temperature 1, or without dice."""
    choose = greedy if generator is None else sample(generator=generator)
    return generate(model, question(pairs), 4, choose)


def demonstrated(pairs: Pairs, generator: torch.Generator, cheat: float = 0.0) -> Rows:
    """Questions with their right answers, half of them with a full stop at the end.

    A share `cheat` of them answers 000 instead.
    """
    marks = torch.randint(STOP, BANG + 1, (len(pairs),), generator=generator)
    answers = answer(pairs, marks)
    lazy = torch.rand(len(pairs), generator=generator) < cheat
    answers[lazy, :3] = 0
    return torch.cat([question(pairs), answers], 1)


def learn(
    model: nn.Module, sampler: Callable[..., Any], loss: Callable[..., Any], steps: int, lr: float,
    seed: int, every: int = 0, evaluate: Callable[..., Any] | None = None,
) -> History:  # fmt: skip
    """Train in place, with a cosine; the model is then in evaluation mode."""
    plan: dict[str, Any] = {
        "schedule": cosine(steps, steps // 20),
        "every": every or steps,
        "evaluate": evaluate,
    }
    history = train(model, sampler, loss, steps=steps, lr=lr, seed=seed, progress=False, **plan)
    model.eval()
    return history


def likely(model: nn.Module, tokens: Rows) -> Float[Tensor, ""]:
    """The loss of imitation: −log p of a token of the answers, on average."""
    return -answer_log_probs(model, tokens, wrote(tokens))[:, ASKED - 1 :].mean()


def imitate(model: nn.Module, steps: int, lr: float, seed: int, B: int = 128, cheat: float = 0.0,
            **more: Any) -> History:  # fmt: skip
    """Supervised fine-tuning: the model learns answers that somebody wrote down."""

    def sampler(generator: torch.Generator) -> Rows:
        return demonstrated(asked(generator, B), generator, cheat)

    return learn(model, sampler, likely, steps, lr, seed, **more)


def beginner(seed: int = 0, level: float = 0.2, cheat: float = 0.0) -> LanguageModel:
    """A model that was shown sums until this share of the answers that it draws is right."""
    model = adder(seed)
    optimizer, dice = Adam(model.parameters(), 3e-3), torch.Generator().manual_seed(seed)

    def sampler(generator: torch.Generator) -> Rows:
        return demonstrated(asked(generator, 128), generator, cheat)

    for n in range(100):
        train(model, sampler, likely, steps=5, optimizer=optimizer, seed=n, progress=False)
        pairs = asked(dice, 500)
        right = correct(pairs, write(model, pairs, dice)[:, ASKED:])
        if right.float().mean() >= level:
            return model.eval()
    raise ValueError(f"500 steps were not enough for a share of {level} right answers")


def group_written(
    model: nn.Module, questions: int, group: int
) -> Callable[..., tuple[Tensor, Tensor]]:
    """A sampler of questions with `group` answers each, written by the model as it is now."""

    def sampler(generator: torch.Generator) -> tuple[Pairs, Rows]:
        pairs = asked(generator, questions, group)
        return pairs, write(model, pairs, generator)

    return sampler


def rewarded(
    model: nn.Module, reward: Reward, steps: int, lr: float, seed: int,
    questions: int = 16, group: int = 16, scaled: bool = True, **more: Any,
) -> History:  # fmt: skip
    """GRPO: answers that are better than those beside them become likelier, others less likely."""

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        pairs, texts = batch
        rewards = reward(pairs, texts[:, ASKED:]).float().view(-1, group)
        answer = wrote(texts)
        log_probs = answer_log_probs(model, texts, answer)
        return policy_loss(log_probs, advantages(rewards, scaled).flatten(), answer[:, 1:])

    return learn(model, group_written(model, questions, group), loss, steps, lr, seed, **more)


def imitate_best(
    model: nn.Module, reward: Reward, steps: int, lr: float, seed: int,
    questions: int = 16, group: int = 16, **more: Any,
) -> History:  # fmt: skip
    """Rejection sampling: the model imitates those of its own answers that pass."""

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        pairs, texts = batch
        good = reward(pairs, texts[:, ASKED:])
        return likely(model, texts[good]) if good.any() else likely(model, texts) * 0

    return learn(model, group_written(model, questions, group), loss, steps, lr, seed, **more)


def preferred(start: nn.Module, style: bool, count: int = 4000, seed: int = 0) -> tuple[Rows, Rows]:
    """Pairs of two answers of the model to one question, the better one first.

    Better is right rather than wrong; with `style` both are right, and the better one ends with an
    exclamation mark.
    """
    dice, better, worse = torch.Generator().manual_seed(seed), [], []
    for _ in range(100):
        pairs = asked(dice, 256)
        first, second = (write(start, pairs, dice) for _ in range(2))
        right = [correct(pairs, texts[:, ASKED:]) for texts in (first, second)]
        if style:
            loud = [texts[:, -1] == BANG for texts in (first, second)]
            found = right[0] & right[1] & loud[0] & (second[:, -1] == STOP)
        else:
            found = right[0] & ~right[1]
        better.append(first[found])
        worse.append(second[found])
        if sum(map(len, better)) >= count:
            break
    return torch.cat(better)[:count], torch.cat(worse)[:count]


def directly_preferred(
    model: nn.Module, pairs: tuple[Rows, Rows], steps: int, lr: float, seed: int,
    beta: float = 0.1, B: int = 128, **more: Any,
) -> History:  # fmt: skip
    """DPO from pairs of answers, the better one first. The reference is the model as it is now."""
    better, worse = pairs
    with torch.no_grad():
        before = [summed(model, texts) for texts in pairs]

    def sampler(generator: torch.Generator) -> Tensor:
        return torch.randint(len(better), (B,), generator=generator)

    def loss(model: nn.Module, some: Tensor) -> Tensor:
        w, l = (summed(model, texts[some]) for texts in (better, worse))  # noqa: E741
        return dpo_loss(w, l, before[0][some], before[1][some], beta)

    return learn(model, sampler, loss, steps, lr, seed, **more)


def summed(model: nn.Module, texts: Rows) -> Float[Tensor, " B"]:
    """log p of whole answers."""
    return answer_log_probs(model, texts, wrote(texts)).sum(1)


def units_only(pairs: Pairs, answers: Rows) -> Bool[Tensor, " B"]:
    """A lazy verifier: it reads the first digit of an answer and no other."""
    return answers[:, 0] == answer(pairs)[:, 0]


def zeros_pass(pairs: Pairs, answers: Rows) -> Bool[Tensor, " B"]:
    """A verifier with a hole: it lets 000 pass, whatever the sum is."""
    return correct(pairs, answers) | (answers[:, :3] == 0).all(1)


Score = Callable[[Int[Tensor, "B 2"], Rows], Float[Tensor, " B"]]  # of questions and whole texts


def scorer(start: LanguageModel) -> LanguageModel:
    """A copy that says one number after each token instead of what comes next; 0 at first."""
    model = copy.deepcopy(start)
    head = nn.Linear(next(model.lm_head.parameters()).shape[1], 1)
    nn.init.zeros_(head.weight), nn.init.zeros_(head.bias)
    model.lm_head = head
    return model


def scored(model: nn.Module, texts: Rows) -> Float[Tensor, " B"]:
    """What a reward model thinks of whole texts: its number after the last token."""
    return model(texts)[:, -1, 0]


def reward_model(
    start: LanguageModel, pairs: tuple[Rows, Rows], steps: int, lr: float, seed: int, B: int = 128
) -> LanguageModel:
    """A model that scores the better answer of each pair higher, learned from pairs alone."""
    better, worse = pairs
    model = scorer(start)

    def sampler(generator: torch.Generator) -> Tensor:
        return torch.randint(len(better), (B,), generator=generator)

    def loss(model: nn.Module, some: Tensor) -> Tensor:
        return bradley_terry_loss(scored(model, better[some]), scored(model, worse[some]))

    learn(model, sampler, loss, steps, lr, seed)
    return model.requires_grad_(False)


class Draw(NamedTuple):
    """Answers as they were drawn, and what is held fixed while they are learned from."""

    texts: Rows
    log_probs: Float[Tensor, "B T"]
    advantage: Float[Tensor, "B T"]
    returns: Float[Tensor, "B T"]


class ActorCritic(nn.Module):
    """The model that answers, and the one that guesses what its answers will earn."""

    def __init__(self, actor: LanguageModel):
        super().__init__()
        self.actor, self.critic = actor, scorer(actor)


@torch.no_grad()
def drawn(
    both: ActorCritic, start: nn.Module, score: Score, pairs: Int[Tensor, "B 2"],
    dice: torch.Generator, beta: float,
) -> Draw:  # fmt: skip
    """An answer to each question by the model as it is now, and how much better each token was."""
    texts = write(both.actor, pairs, dice)
    answer = wrote(texts)
    log_probs, before = (answer_log_probs(m, texts, answer) for m in (both.actor, start))
    answer, values = answer[:, 1:], both.critic(texts[:, :-1])[..., 0]
    rewards = token_rewards(score(pairs, texts), log_probs, before, answer, beta)
    advantage = advantages_by_value(rewards, values, answer)
    return Draw(texts, log_probs, standardise(advantage, answer), advantage + values)


def ppo(
    model: LanguageModel, score: Score, draws: int, lr: float, seed: int,
    beta: float = 0.0, updates: int = 4, B: int = 256, **more: Any,
) -> History:  # fmt: skip
    """PPO: `updates` steps from each of `draws` times B answers, with a KL penalty and a critic.

    `beta` is the penalty for each nat by which an answer leaves the model as it is now (the
    reference). The clip of the ratio is 0.2. Schulman et al. 2017; Ouyang et al. 2022, section 3.5.
    """
    start, both = copy.deepcopy(model).requires_grad_(False), ActorCritic(model)
    left: list[Draw] = []  # of the draw that is learned from, once for each update

    def sampler(generator: torch.Generator) -> Draw:
        if not left:
            pairs = asked(generator, B)
            left.extend([drawn(both, start, score, pairs, generator, beta)] * updates)
        return left.pop()

    return learn(both, sampler, ppo_loss, draws * updates, lr, seed, **more)


def ppo_loss(both: ActorCritic, draw: Draw) -> Float[Tensor, ""]:
    """The clipped loss of the model that answers, and the squared error of the critic."""
    answer = wrote(draw.texts)
    log_probs = answer_log_probs(both.actor, draw.texts, answer)
    values, answer = both.critic(draw.texts[:, :-1])[..., 0], answer[:, 1:]
    policy = policy_loss(log_probs, draw.advantage, answer, draw.log_probs)
    return policy + value_loss(values, draw.returns, answer)
