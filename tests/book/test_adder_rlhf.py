"""The small adder taught as in RLHF: each part is seen to learn what it should."""

import copy

import pytest
import torch
from torch.testing import assert_close

from attnbook.data.addition import BANG, STOP
from attnbook.train.preferences import answer_log_probs
from bookkit.experiments import adder


@pytest.fixture(scope="module")
def start():
    torch.manual_seed(0)
    return adder.beginner(0, level=0.02)


@pytest.mark.slow
def test_the_first_update_is_the_policy_gradient(start):
    both = adder.ActorCritic(copy.deepcopy(start))
    pairs, dice = adder.KNOWN[:16], torch.Generator().manual_seed(0)
    draw = adder.drawn(both, start, lambda _, texts: (texts[:, -1] == BANG).float(), pairs,
                            dice, beta=0.1)  # fmt: skip
    weights, inside = list(both.actor.parameters()), adder.wrote(draw.texts)
    found = torch.autograd.grad(adder.ppo_loss(both, draw), weights)
    log_p = answer_log_probs(both.actor, draw.texts, inside)
    plain = torch.autograd.grad(-(draw.advantage * log_p)[inside[:, 1:]].mean(), weights)
    for a, b in zip(found, plain, strict=True):
        assert_close(a, b, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_ppo_makes_usual_what_is_rewarded(start):
    model = copy.deepcopy(start)
    adder.ppo(model, lambda _, texts: (texts[:, -1] == BANG).float(), 6, 3e-3, 0, updates=3, B=64)
    dice = torch.Generator().manual_seed(1)
    before, after = (adder.write(m, adder.KNOWN[:400], dice)[:, -1] for m in (start, model))
    assert (before == BANG).float().mean() < 0.7 and (after == BANG).float().mean() > 0.9


@pytest.mark.slow
def test_a_reward_model_learns_a_taste_from_pairs(start):
    dice = torch.Generator().manual_seed(0)
    rows = adder.demonstrated(adder.KNOWN[:600], dice)
    loud, quiet = rows.clone(), rows.clone()
    loud[:, -1], quiet[:, -1] = BANG, STOP
    model = adder.reward_model(start, (loud[:400], quiet[:400]), 20, 3e-3, 0, B=64)
    above = adder.scored(model, loud[400:]) > adder.scored(model, quiet[400:])
    assert above.float().mean() > 0.95
    assert not any(weight.requires_grad for weight in model.parameters())
