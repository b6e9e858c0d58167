"""Random rows that come again."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data.repeats import repeats


def drawn(*sizes, seed=0):
    return repeats(*sizes)(torch.Generator().manual_seed(seed))


@given(
    st.integers(1, 4), st.integers(1, 6), st.integers(0, 3), st.integers(1, 9), st.integers(0, 9)
)
def test_every_token_that_is_marked_certain_followed_the_same_token_before(
    B, low, more, rest, seed
):
    high = low + more
    T = high + 1 + rest
    tokens, certain = drawn(B, T, high + 2, low, high, seed=seed)
    assert tokens.shape == (B, T) and certain.shape == (B, T - 1)
    for row, known in zip(tokens.tolist(), certain.tolist(), strict=True):
        period = known.index(True)
        assert low <= period <= high
        assert len(set(row[:period])) == period  # nothing can be known in the first copy
        assert row[period] == row[0]  # the first of the second copy: its turn nobody can know
        for place in range(period + 1, T):
            assert known[place - 1] and row[place] == row[place - period]
            assert row[row.index(row[place - 1]) + 1] == row[place]


def test_all_lengths_and_all_tokens_occur_about_equally():
    tokens, certain = drawn(6000, 10, 11, 3, 8)
    lengths = (~certain).sum(1).bincount()
    assert lengths[:3].sum() == 0 and (lengths[3:] - 1000).abs().max() < 5 * 1000**0.5
    counts = tokens[:, :3].flatten().bincount(minlength=11)
    assert len(counts) == 11 and (counts - 18_000 / 11).abs().max() < 5 * (18_000 / 11) ** 0.5


def test_the_same_generator_draws_the_same_sequences():
    one, other = drawn(3, 10, 11, 3, 8, seed=4), drawn(3, 10, 11, 3, 8, seed=4)
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    assert not torch.equal(one[0], drawn(3, 10, 11, 3, 8, seed=5)[0])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 10, 11, 3, 8), "at least 1 sequence, not 0"),
        ((2, 10, 11, 5, 4), "not from 5 to 4"),
        ((2, 10, 11, 0, 4), "not from 0 to 4"),
        ((2, 10, 6, 3, 7), "7 different tokens are more than the vocabulary of 6"),
        ((2, 8, 11, 3, 7), "of a row of 7 nothing is certain within 8 tokens"),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        repeats(*sizes)
