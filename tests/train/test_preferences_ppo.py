"""A learned reward and PPO: equal to their formulas written a second time; what they refuse."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.train.preferences import (
    advantages_by_value,
    bradley_terry_loss,
    kl_estimate,
    policy_loss,
    standardise,
    token_rewards,
    value_loss,
)

DICE = torch.Generator().manual_seed(0)
ANSWER = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 0]]).bool()  # the second ends early


def normal(*shape):
    return torch.randn(*shape, generator=DICE)


def test_scores_from_pairs_win_as_often_as_the_answers_did():
    """At the maximum of Bradley and Terry's likelihood, expected wins are wins."""
    wins = torch.tensor([[0, 8, 9], [2, 0, 7], [3, 1, 0]])  # of a row over a column
    better, worse = wins.nonzero().T.repeat_interleave(wins[wins > 0], 1)
    scores = torch.zeros(3, requires_grad=True)
    for _ in range(800):
        (slope,) = torch.autograd.grad(bradley_terry_loss(scores[better], scores[worse]), scores)
        scores = (scores - 3 * slope).detach().requires_grad_()
    chance = (scores[:, None] - scores).sigmoid()
    assert_close((chance * (wins + wins.T)).sum(1), wins.sum(1).float(), atol=1e-3, rtol=0)
    shifted = bradley_terry_loss(scores[better] + 5, scores[worse] + 5)
    assert_close(shifted, bradley_terry_loss(scores[better], scores[worse]))


def test_an_answer_earns_its_score_minus_the_penalty():
    now, before, score = normal(2, 5), normal(2, 5), normal(2)
    rewards = token_rewards(score, now, before, ANSWER, beta=0.3)
    assert (rewards[~ANSWER] == 0).all()
    assert_close(rewards.sum(1), score - 0.3 * ((now - before) * ANSWER).sum(1))
    free = token_rewards(score, now, before, ANSWER, beta=0)
    assert_close(torch.stack([free[0, 4], free[1, 3]]), score)
    assert (free != 0).sum() == 2
    assert_close(kl_estimate(now, before), (now - before).sum(1).mean())


def test_advantages_are_the_sum_of_all_later_surprises():
    rewards, values = normal(2, 5) * ANSWER, normal(2, 5)
    found = advantages_by_value(rewards, values, ANSWER, discount=0.9, trust=0.8)
    for row, (first, last) in enumerate(((2, 4), (1, 3))):
        for t in range(first, last + 1):
            total = 0.0
            for s in range(t, last + 1):
                after = values[row, s + 1] if s < last else 0.0
                surprise = rewards[row, s] + 0.9 * after - values[row, s]
                total += (0.9 * 0.8) ** (s - t) * surprise
            assert_close(found[row, t], total)
    assert (found[~ANSWER] == 0).all()


def test_full_trust_is_what_came_minus_the_guess():
    rewards, values = normal(2, 5) * ANSWER, normal(2, 5)
    came = rewards.flip(1).cumsum(1).flip(1)
    found = advantages_by_value(rewards, values, ANSWER, trust=1)
    assert_close(found, (came - values) * ANSWER)


def test_a_perfect_critic_is_never_surprised():
    rewards = normal(2, 5) * ANSWER
    values = rewards.flip(1).cumsum(1).flip(1)
    found = advantages_by_value(rewards, values, ANSWER)
    assert_close(found, torch.zeros(2, 5), atol=1e-6, rtol=0)
    assert value_loss(values, values, ANSWER) == 0


def test_the_critic_learns_the_mean():
    came = torch.tensor([[0, 0, 1.0, 1, 1], [0, 0.0, 0, 0, 0]])
    guess = torch.full((2, 5), 0.5, requires_grad=True)
    value_loss(guess, came, ANSWER).backward()
    assert_close(guess.grad, (0.5 - came) * ANSWER / 6)


def test_standardised_are_those_of_answers_only():
    x = standardise(normal(2, 5) * 7 + 3, ANSWER)
    assert (x[~ANSWER] == 0).all()
    assert_close(x[ANSWER].mean(), torch.tensor(0.0), atol=1e-5, rtol=0)
    assert_close(x[ANSWER].std(), torch.tensor(1.0), atol=1e-4, rtol=0)


def test_one_advantage_for_all_tokens_is_that_of_the_answer():
    now, before, A = normal(2, 5), normal(2, 5), normal(2)
    each = A[:, None].expand(2, 5)
    assert_close(policy_loss(now, A, ANSWER, before), policy_loss(now, each, ANSWER, before))


def test_what_cannot_be_is_refused():
    x = torch.zeros(2, 5)
    with pytest.raises(ValueError, match="compared with a worse one; got 0 and 0"):
        bradley_terry_loss(torch.zeros(0), torch.zeros(0))
    with pytest.raises(ValueError, match="0 or more for each nat; got beta = -1"):
        token_rewards(torch.zeros(2), x, x, ANSWER, beta=-1)
    with pytest.raises(ValueError, match="a row without an answer"):
        token_rewards(torch.zeros(2), x, x, torch.zeros(2, 5).bool(), beta=1)
    with pytest.raises(ValueError, match=r"for each token, \(2, 5\); got \(2, 4\)"):
        value_loss(x, x, ANSWER[:, 1:])
    with pytest.raises(ValueError, match=r"between 0 and 1; got 1\.5 and 0\.95"):
        advantages_by_value(x, x, ANSWER, discount=1.5)
