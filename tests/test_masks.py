"""What is left of masks and patterns for the sizes at hand, and how it becomes a table."""

import pytest
import torch

from attnbook.masks import (
    Places,
    causal,
    causal_mask,
    left_of,
    local,
    pattern_mask,
    table_of,
)


@pytest.mark.parametrize(
    ("pattern", "sizes", "left"),
    [
        (causal, (1, 5), None),  # the newest may see everything
        (causal, (2, 5), causal),
        (local(5), (5, 5), None),  # nobody is further away
        (local(4), (5, 5), local(4)),
        (causal & local(5), (5, 5), causal),
        (causal & local(5), (1, 5), None),
        (causal & local(4), (2, 5), causal & local(4)),
        (causal | local(5), (3, 5), None),
    ],
)
def test_what_forbids_nothing_here_is_dropped(pattern, sizes, left):
    assert left_of(Places(1, *sizes), pattern) == left
    full = pattern_mask(pattern, *sizes)
    assert full.all() if left is None else torch.equal(pattern_mask(left, *sizes), full)


def test_chunks_are_the_lower_right_of_the_whole_mask():
    assert torch.equal(pattern_mask(causal, 3, 5), causal_mask(3, 5))
    assert torch.equal(causal_mask(3, 5), causal_mask(5)[2:])


def test_tables_and_patterns_are_combined():
    at, odd = Places(1, 4, 4), torch.arange(4) % 2 == 1
    assert left_of(at, odd) is odd and left_of(at, None, None) is None
    mixed = table_of(left_of(at, odd, causal, None), at)
    assert torch.equal(mixed.expand(4, 4), causal_mask(4) & odd)
    assert table_of(None, at) is None


def test_of_a_table_over_all_keys_a_cache_that_forgets_takes_the_last():
    table = torch.rand(2, 3, 7) < 0.5
    at = Places(2, 3, 5, first=2)
    assert torch.equal(table_of(table, at), table[:, None, :, 2:])
    assert torch.equal(table_of(left_of(at, table, local(99)), at), table[:, None, :, 2:])


def test_what_stands_later_than_the_queries_is_hidden_in_a_room():
    at = Places(1, 2, 6, start=torch.tensor(3))
    for mask in (None, local(9)):
        expected = torch.arange(6) <= torch.tensor([[3], [4]])
        assert torch.equal(table_of(left_of(at, mask), at), expected)
