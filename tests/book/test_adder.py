"""Four ways to make a small model better at sums, each seen to do what it says in a few steps."""

import copy

import pytest
import torch

from attnbook.data.addition import ASKED, BANG, STOP, answer, correct, question
from bookkit.experiments import adder


@pytest.fixture(scope="module")
def start():
    """A model that adds one of a hundred: enough to be better or worse."""
    torch.manual_seed(0)
    return adder.beginner(0, level=0.02)


def some(model, B=600):
    pairs = adder.KNOWN[:B]
    return pairs, adder.write(model, pairs, torch.Generator().manual_seed(1))


def test_questions_are_never_held_out_ones():
    pairs = adder.asked(torch.Generator().manual_seed(0), 3000, 2)
    unseen = {tuple(pair) for pair in adder.UNSEEN.tolist()}
    assert not unseen & {tuple(pair) for pair in pairs.tolist()}
    assert torch.equal(pairs[::2], pairs[1::2])


def test_demonstrations_are_right_and_half_of_them_loud():
    dice = torch.Generator().manual_seed(0)
    pairs = adder.asked(dice, 400)
    rows = adder.demonstrated(pairs, dice)
    assert correct(pairs, rows[:, ASKED:]).all() and torch.equal(rows[:, :ASKED], question(pairs))
    assert 0.4 < (rows[:, -1] == BANG).float().mean() < 0.6
    cheated = adder.demonstrated(pairs, dice, cheat=0.5)[:, ASKED:-1]
    assert 0.4 < (cheated == 0).all(1).float().mean() < 0.6


@pytest.mark.weekly
def test_rewards_for_a_mark_make_it_usual(start):
    model = copy.deepcopy(start)
    adder.rewarded(model, lambda _, answers: answers[:, 3] == BANG, steps=15, lr=3e-3, seed=0)
    before, after = ((some(m)[1][:, -1] == BANG).float().mean() for m in (start, model))
    assert after > before + 0.3


@pytest.mark.slow
def test_imitating_the_best_makes_it_usual_too(start):
    model = copy.deepcopy(start)
    adder.imitate_best(model, lambda _, a: a[:, 3] == STOP, steps=15, lr=3e-3, seed=0)
    assert (some(model)[1][:, -1] == STOP).float().mean() > 0.8


@pytest.mark.weekly
def test_answers_that_never_pass_teach_nothing(start):
    model = copy.deepcopy(start)
    nothing = lambda pairs, answers: torch.zeros(len(pairs)).bool()  # noqa: E731
    for teach in (adder.rewarded, adder.imitate_best):
        teach(model, nothing, steps=2, lr=1e-2, seed=0)
    for old, new in zip(start.parameters(), model.parameters(), strict=True):
        assert torch.equal(old, new)


@pytest.mark.weekly
def test_pairs_are_of_one_question_and_differ_as_they_say(start):
    better, worse = adder.preferred(start, style=True, count=5)
    assert torch.equal(better[:, :ASKED], worse[:, :ASKED]) and len(better) <= 5
    assert (better[:, -1] == BANG).all() and (worse[:, -1] == STOP).all()


@pytest.mark.slow
def test_dpo_raises_the_lead_of_the_better_answers(start):
    pairs = adder.KNOWN[:64]
    loud, quiet = (torch.cat([question(pairs), answer(pairs, m)], 1) for m in (BANG, STOP))
    model = copy.deepcopy(start)
    adder.directly_preferred(model, (loud, quiet), steps=10, lr=1e-3, seed=0, B=32)
    with torch.no_grad():
        lead = [adder.summed(m, loud) - adder.summed(m, quiet) for m in (start, model)]
    assert bool((lead[1] > lead[0]).all())


def test_a_lazy_verifier_and_one_with_a_hole_let_wrong_answers_pass():
    pairs = torch.tensor([[47, 85], [47, 85], [20, 30]])
    answers = torch.tensor([[2, 9, 9, STOP], [0, 0, 0, STOP], [0, 5, 0, STOP]])
    assert correct(pairs, answers).tolist() == [False, False, True]
    assert adder.units_only(pairs, answers).tolist() == [True, False, True]
    assert adder.zeros_pass(pairs, answers).tolist() == [False, True, True]


def test_a_beginner_that_cannot_reach_the_level_is_an_error(monkeypatch):
    monkeypatch.setattr(adder, "range", lambda n: [0], raising=False)
    with pytest.raises(ValueError, match="not enough for a share"):
        adder.beginner(0, level=0.9)
