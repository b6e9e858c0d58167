"""Recall: pairs are read, and the newest number of a name is what is asked for."""

import pytest
import torch

from attnbook.data.recall import (
    GAP,
    KINDS,
    KNOWN,
    NAMES,
    NUMBERS,
    OFTEN,
    T,
    V,
    later,
    newest_of,
    pairs,
)


def drawn(returning):
    return pairs(returning)(torch.Generator().manual_seed(0), 50)


@pytest.mark.parametrize("returning", [False, True])
def test_the_answer_is_the_newest_number_of_the_name_that_is_asked_for(returning):
    x, answers = drawn(returning)
    for (names, numbers, asked), truth in zip(x.mT.tolist(), answers.tolist(), strict=True):
        known = {}
        for name, number, question, answer in zip(names, numbers, asked, truth, strict=True):
            known[name] = number
            assert known[question] == answer


def test_names_come_once_or_return():
    once, again = drawn(False)[0], drawn(True)[0]
    assert all(len(set(names)) == T == NAMES for names in once[..., 0].tolist())
    assert again[..., 0].max() < OFTEN and again[..., 1].max() < NUMBERS


def test_who_remembers_everything_is_right_and_who_remembers_nothing_guesses():
    x, _ = drawn(False)
    assert newest_of(x, T).eq(1).all()
    some = newest_of(x, 16)
    assert some[:16].eq(1).all() and some[-1] < 0.5
    assert torch.allclose(newest_of(x, 0), torch.full((T,), 1 / NUMBERS))


def test_later_asks_for_every_pair_far_back():
    tokens, answers, asked = later(12)(torch.Generator().manual_seed(0), 40)
    assert tokens.shape == (40, 24 + GAP) and tokens.max() < V and asked.sum() == 12
    names, numbers = tokens[:, :12] // KINDS, tokens[:, :12] % KINDS
    questions = tokens[:, asked] - KNOWN * KINDS
    assert (questions.sort().values == names.sort().values).all()
    where = (names[:, None] == questions[:, :, None]).int().argmax(-1)
    assert (numbers.gather(1, where) == answers[:, asked]).all()
    assert (tokens[:, 12:-12] >= KNOWN * KINDS + KNOWN).all()
    assert (asked.nonzero()[:, 0][None] - where).min() > GAP


def test_more_names_than_there_are_cannot_be_asked():
    with pytest.raises(ValueError, match="1 to 16 names can be known; got 17"):
        later(17)
