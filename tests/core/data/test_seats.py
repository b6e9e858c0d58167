"""The table with two questions: what has to be said is what stands at the table."""

import pytest
import torch

from attnbook.data import seats


@pytest.fixture
def table():
    return seats.tables(torch.Generator().manual_seed(3), B=200)


def people_of(row):
    """Seat, name, friend's name and drink of each, as plain numbers."""
    return list(zip(*(column[0].tolist() for column in seats.columns(row[None])), strict=True))


def test_the_answers_are_the_drinks_of_the_left_neighbour_and_of_the_friend(table):
    for row, answers in zip(*table, strict=True):
        people = people_of(row)
        drink_of = {name: drink for _, name, _, drink in people}
        for seat, (own, name, friend, _) in enumerate(people):
            assert own == seat and friend != name
            assert answers[seat].tolist() == [people[seat - 1][3], drink_of[friend]]


def test_the_friend_is_the_left_neighbour_once_in_eleven(table):
    left, friend = seats.wanted(table[0])
    assert (left & friend).sum() / left.sum() == pytest.approx(1 / 11, abs=0.02)


def test_wanted_points_at_those_whose_drinks_are_the_answers(table):
    x, answers = table
    drinks = seats.columns(x)[3]
    for which, who in enumerate(seats.wanted(x)):
        assert (who.sum(-1) == 1).all()
        assert torch.equal(drinks.gather(1, who.int().argmax(-1)), answers[..., which])


def test_the_most_common_drink_is_right_about_a_quarter_of_the_time(table):
    x, answers = table
    said = seats.most_common(x)
    assert all(len(set(row)) == 1 for row in said.tolist())
    counts = torch.stack([row.bincount(minlength=seats.DRINKS) for row in seats.columns(x)[3]])
    assert torch.equal(counts.argmax(-1), said[:, 0])
    assert (said == answers[..., 1]).float().mean().item() == pytest.approx(0.25, abs=0.02)


def test_the_same_seed_gives_the_same_tables():
    one, other = (seats.tables(torch.Generator().manual_seed(1), 3)[0] for _ in range(2))
    assert torch.equal(one, other)
