"""The task of the marked symbol: what it asks has one answer, where it says."""

import pytest
import torch

from attnbook.data.marked import MARKS, QUESTION, answered, marked


def test_one_symbol_is_marked_and_it_is_the_answer():
    tokens, answer = marked(torch.Generator().manual_seed(0), B=200, T=12)
    on = (tokens >= MARKS) & (tokens < QUESTION)
    assert (on.sum(1) == 1).all() and (tokens[on] - MARKS == answer).all()
    assert (tokens[:, -1] == QUESTION).all() and (tokens[:, :-1] < QUESTION).all()


@pytest.mark.parametrize("distance", [1, 5, 11])
def test_the_mark_stands_where_it_is_asked_for(distance):
    tokens, _ = marked(torch.Generator().manual_seed(0), B=50, T=12, distance=distance)
    assert (tokens[:, 11 - distance] >= MARKS).all()


def test_every_distance_occurs_if_none_is_asked_for():
    tokens, _ = marked(torch.Generator().manual_seed(0), B=2000, T=12)
    places = (tokens[:, :-1] >= MARKS).float().argmax(1)
    assert set(places.tolist()) == set(range(11))


def test_the_loss_of_equal_logits_is_the_logarithm_of_eight():
    batch = marked(torch.Generator().manual_seed(0), B=10)
    loss = answered(lambda tokens: torch.zeros(len(tokens), MARKS), batch)
    torch.testing.assert_close(loss, torch.tensor(8.0).log())


@pytest.mark.parametrize("T, distance", [(1, None), (12, 0), (12, 12)])
def test_a_place_that_is_not_there_is_refused(T, distance):
    with pytest.raises(ValueError, match="before the question"):
        marked(torch.Generator().manual_seed(0), T=T, distance=distance)
