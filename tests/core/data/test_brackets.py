"""Text with brackets: what opens closes, as far away as asked; no letter tells which it was."""

import pytest
import torch

from attnbook.data.brackets import (
    CHARACTERS,
    CLOSED,
    KINDS,
    LETTERS,
    OPEN,
    brackets,
    closing,
    plain,
)

TEXT = "Once upon a time, there were THREE bears; they lived in a wood. " * 20


def rows(near=0, far=12, B=200, seed=0):
    return brackets(TEXT, near, far, B=B)(torch.Generator().manual_seed(seed))


def test_plain_text_is_letters_and_single_spaces():
    assert plain("A  (b)\n42 c-D") == "a b c d"


def test_each_bracket_closes_with_its_own_kind_before_another_opens():
    for row in rows()[0]:
        is_open = None
        for symbol in CHARACTERS.decode(row):
            if symbol in OPEN:
                assert is_open is None
                is_open = symbol
            elif symbol in CLOSED:
                assert is_open == OPEN[CLOSED.index(symbol)]
                is_open = None


def test_targets_are_the_next_characters():
    tokens, targets = rows()
    assert tokens[:, 1:].equal(targets[:, :-1])


def test_without_its_brackets_a_window_is_a_piece_of_the_text():
    for row in rows(B=20)[0]:
        assert "".join(c for c in CHARACTERS.decode(row) if c in LETTERS) in plain(TEXT)


@pytest.mark.parametrize(("near", "far"), [(0, 12), (5, 5), (30, 40)])
def test_brackets_close_as_many_letters_away_as_was_asked(near, far):
    where, ago = closing(rows(near, far))
    assert set((ago[where] - 1).tolist()) == set(range(near, far + 1))


def test_closing_says_where_the_next_character_closes_and_when_it_was_opened():
    tokens = CHARACTERS.encode("ab(cd)e<f>g")
    where, ago = closing((tokens[None, :-1], tokens[None, 1:]))
    assert where[0].nonzero().flatten().tolist() == [4, 8]
    assert ago[where].tolist() == [3, 2]


def test_the_letters_do_not_tell_the_kind():
    """Each of the four kinds is a quarter of all, whatever letter stands before it."""
    tokens, targets = rows(far=3, B=4000)
    where = torch.isin(targets, KINDS[1]) & (tokens == CHARACTERS.encode("e"))
    shares = torch.stack([(targets[where] == kind).float().mean() for kind in KINDS[1]])
    assert where.sum() > 2000
    assert (shares - 0.25).abs().max() < 0.04


def test_the_same_seed_gives_the_same_windows():
    assert rows(seed=3)[0].equal(rows(seed=3)[0])
    assert not rows(seed=3)[0].equal(rows(seed=4)[0])


@pytest.mark.parametrize(("near", "far"), [(-1, 5), (6, 5)])
def test_impossible_distances_are_refused(near, far):
    with pytest.raises(ValueError, match="0 ≤ near ≤ far"):
        brackets(TEXT, near, far)


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="more than 64 letters"):
        brackets("too short")
