"""Losses after pre-training: equal to their formulas written a second time; what they refuse."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.train.preferences import (
    advantages,
    answer_log_probs,
    distillation_loss,
    dpo_loss,
    interval,
    paired,
    pass_at_k,
    policy_loss,
)

DICE = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=DICE)


class Table(nn.Module):
    """Logits that depend on the last token alone."""

    def __init__(self, V=5):
        super().__init__()
        self.logits = nn.Parameter(normal(V, V))

    def forward(self, tokens):
        return self.logits[tokens]


def test_the_log_probability_of_an_answer_is_the_sum_over_its_tokens_alone():
    model, tokens = Table(), torch.tensor([[0, 3, 1, 4], [2, 2, 0, 1]])
    answer = torch.tensor([[False, False, True, True], [False, True, True, False]])
    found = answer_log_probs(model, tokens, answer).sum(1)
    p = model.logits.softmax(-1)
    expected = [p[3, 1] * p[1, 4], p[2, 2] * p[2, 0]]
    assert_close(found.exp(), torch.stack(expected))


def test_what_no_answer_is_does_not_change_the_loss():
    model, tokens = Table(), torch.tensor([[0, 3, 1, 4]])
    answer = torch.tensor([[False, False, False, True]])
    other = torch.tensor([[2, 0, 1, 4]])
    assert_close(*(answer_log_probs(model, t, answer) for t in (tokens, other)))


def test_dpo_is_equation_7_of_the_paper():
    rows = [normal(6) for _ in range(4)]
    w, l, w0, l0 = (row.double().numpy() for row in rows)  # noqa: E741
    ratio = 0.3 * (np.log(np.exp(w) / np.exp(w0)) - np.log(np.exp(l) / np.exp(l0)))
    expected = -np.log(1 / (1 + np.exp(-ratio))).mean()
    assert dpo_loss(*rows, beta=0.3).item() == pytest.approx(expected, rel=1e-5)


def test_dpo_starts_at_log_2_and_its_gradient_is_weighted_by_the_wrong_order():
    chosen, rejected = (normal(4).requires_grad_() for _ in range(2))
    before = chosen.detach(), rejected.detach()
    assert dpo_loss(chosen, rejected, *before).item() == pytest.approx(math.log(2))
    moved = before[0] - normal(4), before[1] - normal(4)
    dpo_loss(chosen, rejected, *moved, beta=0.5).backward()
    margin = (before[0] - moved[0]) - (before[1] - moved[1])
    expected = -0.5 * torch.sigmoid(-0.5 * margin) / 4
    assert_close(chosen.grad, expected)
    assert_close(rejected.grad, -expected)


def test_advantages_are_standard_scores_of_a_group_and_nothing_for_a_group_of_equals():
    rewards = torch.tensor([[1.0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
    found = advantages(rewards)
    assert_close(found[0], (rewards[0] - 0.5) / (rewards[0].std() + 1e-4))
    assert torch.equal(found[1:], torch.zeros(2, 4))
    assert torch.equal(advantages(rewards, scaled=False)[0], rewards[0] - 0.5)


def test_the_gradient_of_the_policy_loss_is_that_of_the_log_probability():
    log_probs, A = normal(3, 4).requires_grad_(), normal(3)
    answer = torch.ones(3, 4, dtype=torch.bool)
    answer[0, 2:] = False
    policy_loss(log_probs, A, answer).backward()
    assert_close(log_probs.grad, -A[:, None] * answer / answer.sum())


def test_the_expected_policy_gradient_is_the_gradient_of_the_expected_reward():
    """Over all answers of two tokens, each with its probability: no sampling, no noise."""
    logits, rewards = normal(3).double().requires_grad_(), normal(9).double()
    pairs = torch.tensor(list(itertools.product(range(3), repeat=2)))
    expected = (logits.softmax(0)[pairs].prod(1) * rewards).sum()
    wanted = torch.autograd.grad(expected, logits)[0]
    log_probs = logits.log_softmax(0)[pairs]
    p = log_probs.sum(1).exp().detach()
    for baseline in (0.0, 7.0):  # a baseline changes nothing on average
        A = (rewards - baseline) * p * len(pairs)
        loss = policy_loss(log_probs, A, torch.ones(9, 2, dtype=torch.bool))
        assert_close(-2 * torch.autograd.grad(loss, logits, retain_graph=True)[0], wanted)


def test_a_ratio_that_has_gone_too_far_is_not_pushed_further():
    before = torch.zeros(2, 1)
    now = torch.tensor([[0.5], [-0.5]]).requires_grad_()  # ratios 1.65 and 0.61
    everything = torch.ones(2, 1, dtype=torch.bool)
    policy_loss(now, torch.tensor([1.0, -1.0]), everything, before).backward()
    assert torch.equal(now.grad, torch.zeros(2, 1))
    now.grad = None
    policy_loss(now, torch.tensor([-1.0, 1.0]), everything, before).backward()
    assert bool((now.grad != 0).all())


def test_distillation_is_torchs_divergence_and_is_0_for_the_teacher_itself():
    student, teacher = normal(2, 3, 5), normal(2, 3, 5)
    for heat in (1.0, 2.5):
        wanted = nn.functional.kl_div(
            (student / heat).log_softmax(-1).flatten(0, 1),
            (teacher / heat).log_softmax(-1).flatten(0, 1),
            log_target=True, reduction="batchmean",
        )  # fmt: skip
        assert_close(distillation_loss(student, teacher, heat), heat**2 * wanted)
    assert distillation_loss(teacher, teacher).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("n", "right", "k"), [(5, 2, 1), (6, 2, 3), (7, 0, 2), (4, 3, 2)])
def test_pass_at_k_is_the_share_of_all_draws_that_hold_a_right_answer(n, right, k):
    draws = list(itertools.combinations([True] * right + [False] * (n - right), k))
    assert pass_at_k(n, right, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_nine_of_ten_intervals_hold_the_truth_and_more():
    """The chance that the interval holds the true share, summed over all outcomes."""
    for n, share in ((20, 0.1), (50, 0.5), (200, 0.93)):
        holds = 0.0
        for right in range(n + 1):
            low, high = interval(right, n)
            if low <= share <= high:
                holds += math.comb(n, right) * share**right * (1 - share) ** (n - right)
        assert 0.92 < holds < 0.985
    assert interval(0, 10)[0] == 0 and interval(10, 10)[1] == 1


def test_pairs_on_the_same_questions_are_told_apart_where_shares_are_not():
    first = torch.arange(200) < 110
    second = torch.arange(200) < 100
    gap, half = paired(first, second)
    assert gap == pytest.approx(0.05) and half < gap
    assert interval(110, 200)[0] < 0.5 < interval(100, 200)[1]  # the two intervals overlap


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: answer_log_probs(Table(), torch.zeros(1, 3, dtype=torch.long),
                                  torch.ones(1, 2, dtype=torch.bool)), r"each token, \(1, 3\)"),
        (lambda: dpo_loss(*[torch.zeros(2)] * 4, beta=0.0), "beta is greater than 0; got 0"),
        (lambda: advantages(torch.ones(3, 1)), "2 answers or more to compare; got 1"),
        (lambda: policy_loss(torch.zeros(1, 2), torch.ones(1),
                             torch.ones(1, 2, dtype=torch.bool), clip=2.0), "got clip = 2"),
        (lambda: policy_loss(torch.zeros(1, 2), torch.ones(1),
                             torch.zeros(1, 2, dtype=torch.bool)), "False everywhere"),
        (lambda: distillation_loss(torch.zeros(2, 3), torch.zeros(2, 4)), "same tokens"),
        (lambda: distillation_loss(torch.zeros(2, 3), torch.zeros(2, 3), 0.0), "got 0"),
        (lambda: pass_at_k(4, 5, 1), "0 to 4 are right"),
        (lambda: interval(3, 2), "got 3 of 2"),
        (lambda: paired(torch.ones(3).bool(), torch.ones(2).bool()), "got 3 and 2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_clip_with_another_upper_distance_acts_above_one_only():
    """DAPO's clip-higher: 0.28 up and 0.2 down (Yu et al. 2025, section 3.1)."""
    ratio = torch.tensor([[0.7, 1.1, 1.25, 1.4]])
    answer, old = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 4)
    for A, wanted in ((1.0, [0.7, 1.1, 1.25, 1.28]), (-1.0, [-0.8, -1.1, -1.25, -1.4])):
        each = [
            -policy_loss(
                ratio[:, n : n + 1].log(), torch.tensor([A]), answer[:, :1], old[:, :1], 0.2, 0.28
            ).item()
            for n in range(4)
        ]
        assert each == pytest.approx(wanted)
    with pytest.raises(ValueError, match=r"upper distance is 0\.0; a number above 0"):
        policy_loss(ratio.log(), torch.tensor([1.0]), answer, old, 0.2, 0.0)
