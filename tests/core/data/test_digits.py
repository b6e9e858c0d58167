"""Digit strings, copied and reversed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import digits, pairs
from attnbook.data.vocabulary import PAD, Vocabulary

VOCABULARY = Vocabulary([list("0123456789")])  # ties by spelling: digit d gets the number 4 + d
TASKS = {digits.copy: lambda string: string, digits.reverse: lambda string: string[::-1]}


@given(
    st.sampled_from(list(TASKS)),
    st.integers(1, 5),
    st.integers(1, 7),
    st.integers(0, 6),
    st.integers(0, 99),
)
def test_a_batch_is_what_pairs_makes_of_the_strings(task, B, shortest, more, seed):
    sampled = task(B, shortest, shortest + more)(torch.Generator().manual_seed(seed))
    strings = [[str(int(n) - 4) for n in row[row != PAD]] for row in sampled.source]
    assert len(strings) == B and all(shortest <= len(s) <= shortest + more for s in strings)
    expected = pairs.batch([(s, TASKS[task](s)) for s in strings], VOCABULARY, VOCABULARY)
    for one, other in zip(sampled, expected, strict=True):
        assert torch.equal(one, other)


def test_all_lengths_and_all_digits_occur_about_equally():
    batch = digits.reverse(6000, 2, 7)(torch.Generator().manual_seed(0))
    lengths = batch.source_mask.sum(1).bincount()
    assert lengths[:2].sum() == 0 and (lengths[2:] - 1000).abs().max() < 5 * 1000**0.5
    counts = batch.source[batch.source_mask].bincount(minlength=digits.V)
    assert counts[:4].sum() == 0 and len(counts) == digits.V == 14
    assert (counts[4:] - 2700).abs().max() < 5 * 2700**0.5


def test_the_sampler_continues_bitwise_from_the_generator_s_state():
    generator = torch.Generator().manual_seed(0)
    digits.copy(3, 2, 5)(generator)
    state = generator.get_state()
    first = [digits.copy(3, 2, 5)(generator) for _ in range(3)]
    generator.set_state(state)
    for batch in first:
        for one, other in zip(batch, digits.copy(3, 2, 5)(generator), strict=True):
            assert torch.equal(one, other)


def test_evaluation_sets_are_fixed_and_of_one_length_each():
    sets = digits.by_length(digits.reverse, range(2, 6), B=7)
    assert list(sets) == [2, 3, 4, 5]
    assert all(
        batch.source.shape == (7, T) and batch.source_mask.all() for T, batch in sets.items()
    )
    assert torch.equal(digits.by_length(digits.reverse, [4], B=7)[4].source, sets[4].source)
    other = digits.by_length(digits.reverse, [4], B=7, seed=1)[4].source
    assert not torch.equal(other, sets[4].source)


@pytest.mark.parametrize("task", list(TASKS))
def test_impossible_lengths_and_batches_are_refused(task):
    with pytest.raises(ValueError, match="not from 5 to 4"):
        task(3, 5, 4)
    with pytest.raises(ValueError, match="not from 0 to 4"):
        task(3, 0, 4)
    with pytest.raises(ValueError, match="at least 1 string, not 0"):
        task(0, 1, 4)
