"""Reinforcement learning from human feedback: a learned reward, and PPO with a learned baseline.

Rows are texts of T tokens; `answer` is True at those that the model wrote. What belongs to a token
stands where `answer_log_probs` puts it: at its position less one, (B, T − 1).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

Wrote = Bool[Tensor, "B L"]  # L is T; anything else gets a ValueError


def bradley_terry_loss(
    better: Float[Tensor, " B"], worse: Float[Tensor, " B"]
) -> Float[Tensor, ""]:
    """How surprised a reward model is by what people preferred, the mean over pairs, in nats.

    −log σ(better − worse) of the two scores: Bradley and Terry's model of 1952, as a loss in Ouyang
    et al. 2022, equation 1. Scores are fixed up to a constant; only their differences count.
    """
    if better.shape[0] != worse.shape[0] or not len(better):
        raise ValueError(
            f"each better answer is compared with a worse one; got {len(better)} and {len(worse)}"
        )
    return -F.logsigmoid(better - worse).mean()


def token_rewards(
    score: Float[Tensor, " B"],
    log_probs: Float[Tensor, "B T"],
    reference: Float[Tensor, "B T"],
    answer: Wrote,
    beta: int | float,
) -> Float[Tensor, "B T"]:
    """What each token of an answer earns: at its end the score, everywhere −β (log π − log π₀).

    Summed over an answer it is the score minus β times one draw of the KL divergence from the
    reference π₀. Ziegler et al. 2019, equation 2. A token that is no answer earns 0.
    """
    if not beta >= 0:
        raise ValueError(f"a penalty is 0 or more for each nat; got beta = {beta}")
    check(answer, log_probs)
    if not answer.any(1).all():
        raise ValueError("there is a row without an answer: nothing could earn its score")
    T = answer.shape[1]
    last = T - 1 - answer.flip(1).int().argmax(1)
    kept = -beta * (log_probs - reference) * answer
    return kept + score[:, None] * (torch.arange(T, device=last.device) == last[:, None])


def advantages_by_value(
    rewards: Float[Tensor, "B T"],
    values: Float[Tensor, "B T"],
    answer: Wrote,
    discount: int | float = 1.0,
    trust: int | float = 0.95,
) -> Float[Tensor, "B T"]:
    """How much better each token turned out than a critic's guess before it: Schulman et al. 2016.

    A_t = Σ_l (γλ)^l δ_{t+l} and δ_t = r_t + γ V_{t+1} − V_t (their equation 16, known as GAE), with
    `discount` γ and `trust` λ. With λ = 1 it is the whole later reward minus the guess V_t; with
    λ = 0 one step and the next guess. `values` are the guesses *before* each token; after the last
    token of an answer nothing is to be had. 0 where no answer stands. The answers are one piece.
    """
    if not (0 <= discount <= 1 and 0 <= trust <= 1):
        raise ValueError(f"discount and trust lie between 0 and 1; got {discount} and {trust}")
    check(answer, rewards)
    found, later = torch.zeros_like(rewards), torch.zeros_like(rewards[:, 0])
    after = torch.zeros_like(later)  # the critic's guess after this token
    for t in reversed(range(rewards.shape[1])):
        here = answer[:, t]
        step = rewards[:, t] + discount * after - values[:, t]
        later = (step + discount * trust * later).where(here, 0)
        after = values[:, t].where(here, 0)
        found[:, t] = later
    return found


def standardised(x: Float[Tensor, "B T"], answer: Wrote) -> Float[Tensor, "B T"]:
    """x with mean 0 and standard deviation 1 over all tokens of answers, as PPO's programs do."""
    check(answer, x)
    some = x[answer]
    return (x - some.mean()) / (some.std() + 1e-6) * answer


def value_loss(
    values: Float[Tensor, "B T"], returns: Float[Tensor, "B T"], answer: Wrote
) -> Float[Tensor, ""]:
    """½ mean (V − what was to be had)² over the tokens of answers: what the critic learns by."""
    check(answer, values)
    return (values - returns)[answer].square().mean() / 2


def kl_estimate(
    log_probs: Float[Tensor, "B T"], reference: Float[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """KL(π ‖ π₀) of whole answers that π drew, in nats: the mean of log π − log π₀."""
    return (log_probs - reference).sum(1).mean()


def check(answer: Wrote, x: Float[Tensor, "B T"]) -> None:
    """ValueError unless there is True or False for each number."""
    if answer.shape != x.shape:
        raise ValueError(
            f"`answer` is True or False for each token, {tuple(x.shape)}; got {tuple(answer.shape)}"
        )
