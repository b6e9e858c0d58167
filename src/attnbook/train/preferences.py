"""After pre-training: losses that learn from preferences, rewards and teachers, and how to count.

A text is a row of tokens; `answer` is True at those that the model wrote, or is to write.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

Rows = Int[Tensor, "B T"]
Answers = Bool[Tensor, "B L"]  # L is T; anything else gets a ValueError


def answer_log_probs(model: nn.Module, tokens: Rows, answer: Answers) -> Float[Tensor, "B _"]:
    """log p of each token of the answers, given all before it; 0 where no answer stands.

    Of shape (B, T − 1): the first token has nothing before it. Summed over a row, it is the log
    probability of the answer.
    """
    if answer.shape != tokens.shape:
        raise ValueError(
            f"`answer` is True or False for each token, {tuple(tokens.shape)}; "
            f"got {tuple(answer.shape)}"
        )
    logits = model(tokens[:, :-1])
    chosen = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return chosen * answer[:, 1:]


def dpo_loss(
    chosen: Float[Tensor, " B"],
    rejected: Float[Tensor, " B"],
    chosen_before: Float[Tensor, " B"],
    rejected_before: Float[Tensor, " B"],
    beta: float = 0.1,
) -> Float[Tensor, ""]:
    """Direct preference optimisation: −log σ(β · margin), the mean over pairs, in nats.

    Given are the log probabilities of the better and the worse answer of each pair, by the model
    and by the model as it was before (the reference). The margin is by how much more the better
    one has gained. Rafailov et al. 2023, equation 7.
    """
    if not beta > 0:
        raise ValueError(f"beta is greater than 0; got {beta} (at 0 nothing would be learned)")
    margin = (chosen - chosen_before) - (rejected - rejected_before)
    return -F.logsigmoid(beta * margin).mean()


def advantages(
    rewards: Float[Tensor, "N G"], scaled: bool = True, least: float = 1e-4
) -> Float[Tensor, "N G"]:
    """How much better each of G answers to a question is than the group's mean.

    `scaled`: divided by the group's standard deviation (plus `least`), as in GRPO: Shao et al.
    2024, section 4.1.2. Without, as Liu et al. 2025 (Dr. GRPO, section 3.1) advise. A group whose
    rewards are all alike has advantages of 0: nothing is learned from it.
    """
    if rewards.shape[1] < 2:
        raise ValueError(f"a group has 2 answers or more to compare; got {rewards.shape[1]}")
    better = rewards - rewards.mean(1, keepdim=True)
    return better / (rewards.std(1, keepdim=True) + least) if scaled else better


def policy_loss(
    log_probs: Float[Tensor, "B T"],
    advantage: Float[Tensor, " B"] | Float[Tensor, "B T"],
    answer: Bool[Tensor, "B T"],
    before: Float[Tensor, "B T"] | None = None,
    clip: float = 0.2,
    above: float | None = None,
) -> Float[Tensor, ""]:
    """Raise the log probability of what was better than expected: the clipped loss of PPO and GRPO.

    −mean over all tokens of answers of min(r A, clip(r, 1 − ε, 1 + ε) A), where r is the ratio of a
    token's probability now and when it was written (`before`; not given: now, so r = 1, and the
    gradient is that of −A log p). An answer has one advantage, or each of its tokens has one.
    `above` is the clip's upper distance, if it is another one (DAPO, section 3.1).
    Schulman et al. 2017, equation 7; the mean over all tokens is that of Yu et al. 2025 (DAPO),
    equation 8. There is no term that ties the model to its start.
    """
    if not 0 < clip < 1:
        raise ValueError(f"a ratio may change by a factor between 0 and 1; got clip = {clip}")
    above = clip if above is None else above
    if not above > 0:
        raise ValueError(f"the clip's upper distance is {above}; a number above 0 is needed")
    old = log_probs.detach() if before is None else before
    ratio, A = (log_probs - old).exp(), advantage.view(len(advantage), -1)
    gain = torch.minimum(ratio * A, ratio.clamp(1 - clip, 1 + above) * A)
    if not answer.any():
        raise ValueError("no token of an answer: the mask is False everywhere")
    return -gain[answer].mean()


def distillation_loss(
    student: Float[Tensor, "*batch V"], teacher: Float[Tensor, "*batch W"], temperature: float = 1.0
) -> Float[Tensor, ""]:
    """KL(teacher ‖ student), the mean over positions, in nats: learn what a teacher thinks.

    Both logits are divided by the `temperature`, and the loss is multiplied by its square, so
    that gradients stay as large. Hinton et al. 2015, section 2.
    """
    if student.shape != teacher.shape:
        raise ValueError(
            f"student and teacher choose among the same tokens at the same places; got "
            f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        )
    if not temperature > 0:
        raise ValueError(f"a temperature is greater than 0; got {temperature}")
    wanted, said = (teacher / temperature).log_softmax(-1), (student / temperature).log_softmax(-1)
    return temperature**2 * (wanted.exp() * (wanted - said)).sum(-1).mean()


def pass_at_k(n: int, right: int, k: int) -> float:
    """How likely one of `k` answers is right, from `n` of which so many were: without bias.

    1 − C(n − right, k) / C(n, k). Chen et al. 2021 (Codex), equation 1.
    """
    if not 0 <= right <= n or not 1 <= k <= n:
        raise ValueError(f"of {n} answers, 0 to {n} are right and 1 to {n} are drawn; got "
                         f"{right} and {k}")  # fmt: skip
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def interval(right: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Between which shares the true one lies, if `right` of `n` independent answers were right.

    Wilson's score interval, of 95 % for z = 1.96 (Wilson 1927): it stays within 0 and 1.
    """
    if n < 1 or not 0 <= right <= n:
        raise ValueError(f"0 to n of n ≥ 1 answers are right; got {right} of {n}")
    share, wide = right / n, z * z / n
    middle = (share + wide / 2) / (1 + wide)
    half = z * math.sqrt(share * (1 - share) / n + wide / (4 * n)) / (1 + wide)
    return max(0.0, middle - half), min(1.0, middle + half)


def paired(
    first: Bool[Tensor, " N"], second: Bool[Tensor, " M"], z: float = 1.96
) -> tuple[float, float]:
    """By how much more often `first` is right on the same N questions, and half its interval.

    The mean of the differences, and z standard errors of it: what is hard for both does not count
    as noise. Miller 2024, section 4.2.
    """
    if first.shape != second.shape or len(first) < 2:
        raise ValueError(
            f"the same questions, at least 2, are needed; got {len(first)} and {len(second)}"
        )
    gap = first.float() - second.float()
    return gap.mean().item(), z * gap.std().item() / math.sqrt(len(gap))


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
    check_answer(answer, log_probs)
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
    check_answer(answer, rewards)
    found, later = torch.zeros_like(rewards), torch.zeros_like(rewards[:, 0])
    after = torch.zeros_like(later)  # the critic's guess after this token
    for t in reversed(range(rewards.shape[1])):
        here = answer[:, t]
        step = rewards[:, t] + discount * after - values[:, t]
        later = (step + discount * trust * later).where(here, 0)
        after = values[:, t].where(here, 0)
        found[:, t] = later
    return found


def standardise(x: Float[Tensor, "B T"], answer: Wrote) -> Float[Tensor, "B T"]:
    """x with mean 0 and standard deviation 1 over all tokens of answers, as PPO's programs do."""
    check_answer(answer, x)
    some = x[answer]
    return (x - some.mean()) / (some.std() + 1e-6) * answer


def value_loss(
    values: Float[Tensor, "B T"], returns: Float[Tensor, "B T"], answer: Wrote
) -> Float[Tensor, ""]:
    """½ mean (V − what was to be had)² over the tokens of answers: what the critic learns by."""
    check_answer(answer, values)
    return (values - returns)[answer].square().mean() / 2


def kl_estimate(
    log_probs: Float[Tensor, "B T"], reference: Float[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """KL(π ‖ π₀) of whole answers that π drew, in nats: the mean of log π − log π₀."""
    return (log_probs - reference).sum(1).mean()


def check_answer(answer: Wrote, x: Float[Tensor, "B T"]) -> None:
    """ValueError unless there is True or False for each number."""
    if answer.shape != x.shape:
        raise ValueError(
            f"`answer` is True or False for each token, {tuple(x.shape)}; got {tuple(answer.shape)}"
        )
