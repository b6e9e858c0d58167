"""The small adder taught as in RLHF: pairs of answers, a reward model of them, and PPO.

The reward model and the critic are the adder itself with a head of one number.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.adder import asked, learn, write, wrote
from attnbook.post_training import answer_log_probs, policy_loss
from attnbook.rlhf import (
    advantages_by_value,
    bradley_terry_loss,
    standardised,
    token_rewards,
    value_loss,
)
from attnbook.train import History
from attnbook.transformer import LanguageModel

Rows = Int[Tensor, "B L"]
Score = Callable[[Int[Tensor, "B 2"], Rows], Float[Tensor, " B"]]  # of questions and whole texts


def scorer(start: LanguageModel) -> LanguageModel:
    """A copy that says one number after each token instead of what comes next; 0 at first."""
    model = copy.deepcopy(start)
    head = nn.Linear(next(model.to_vocab.parameters()).shape[1], 1)
    nn.init.zeros_(head.weight), nn.init.zeros_(head.bias)
    model.to_vocab = head
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
    return Draw(texts, log_probs, standardised(advantage, answer), advantage + values)


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
