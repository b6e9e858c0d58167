"""What is left of masks and patterns for the sizes at hand, and how it becomes a table."""

import pytest
import torch
from torch import nn

from attnbook.attention import Attention, MultiHeadAttention, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.masks import (
    Grid,
    as_pattern,
    causal,
    causal_mask,
    combine,
    dense,
    local,
    padding,
    padding_mask_of,
    pattern_mask,
    position_ids,
    prefix,
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
    assert combine(Grid(1, *sizes), pattern) == left
    full = pattern_mask(pattern, *sizes)
    assert full.all() if left is None else torch.equal(pattern_mask(left, *sizes), full)


@pytest.mark.parametrize("rule", [prefix(2), lambda i, j: j < 2, lambda i, j: j % 2 == 0])
def test_a_rule_of_keys_alone_holds_for_every_query(rule):
    """Written out, and as the mask of a layer, which computes what it does with the tensor."""
    row = as_pattern(rule)(*(torch.arange(5),) * 2)
    assert torch.equal(pattern_mask(rule, 5), row.expand(5, 5))
    layer, x = MultiHeadAttention(8, 2), torch.randn(2, 5, 8)
    assert torch.equal(layer(x, mask=as_pattern(rule)), layer(x, mask=row.expand(5, 5)))


def test_chunks_are_the_lower_right_of_the_whole_mask():
    assert torch.equal(pattern_mask(causal, 3, 5), causal_mask(3, 5))
    assert torch.equal(causal_mask(3, 5), causal_mask(5)[2:])


def test_tables_and_patterns_are_combined():
    at, odd = Grid(1, 4, 4), torch.arange(4) % 2 == 1
    assert combine(at, odd) is odd and combine(at, None, None) is None
    mixed = dense(combine(at, odd, causal, None), at)
    assert torch.equal(mixed.expand(4, 4), causal_mask(4) & odd)
    assert dense(None, at) is None


def test_of_a_table_over_all_keys_a_cache_that_forgets_takes_the_last():
    table = torch.rand(2, 3, 7) < 0.5
    at = Grid(2, 3, 5, first=2)
    assert torch.equal(dense(table, at), table[:, None, :, 2:])
    assert torch.equal(dense(combine(at, table, local(99)), at), table[:, None, :, 2:])


def test_what_stands_later_than_the_queries_is_hidden_in_a_room():
    at = Grid(1, 2, 6, start=torch.tensor(3))
    for mask in (None, local(9)):
        expected = torch.arange(6) <= torch.tensor([[3], [4]])
        assert torch.equal(dense(combine(at, mask), at), expected)


# two rows: three tokens with padding among them, and five tokens
THERE = torch.tensor([[True, False, True, False, True], [True] * 5])


def test_a_layers_pattern_counts_the_tokens_of_each_row():
    mask = causal & padding(THERE)
    own = position_ids(mask)
    assert own.tolist() == [[0, 0, 1, 1, 2], [0, 1, 2, 3, 4]]
    at = Grid(2, 5, 5, position_ids=own)
    table = dense(combine(at, mask, local(2)), at)[:, 0]
    assert table[0, 4].tolist() == [False, False, True, False, True]  # 2 places, 1 token before
    assert torch.equal(table[1], causal_mask(5) & pattern_mask(local(2), 5))
    assert combine(at, mask, local(5)) == mask  # nobody is further away


def test_a_row_after_padding_is_that_row_alone_for_every_rule():
    """The tokens of the first row, taken out, see what a row of three sees."""
    mask = causal & padding(THERE)
    at = Grid(2, 5, 5, position_ids=position_ids(mask))
    first = prefix(torch.tensor([2, 1]))
    for pattern in (local(2), first, local(2) | first):
        row = THERE[0]
        found = dense(combine(at, mask, pattern), at)[0, 0][row][:, row]
        alone = dense(combine(Grid(2, 3, 3), causal, pattern), Grid(2, 3, 3))
        assert torch.equal(found, alone[0, 0] if alone.dim() == 4 else alone)


def test_padding_is_found_in_what_is_said_together():
    more = torch.tensor([[False, True, True, True, True], [True] * 5])
    assert (
        padding_mask_of(causal) is None
        and padding_mask_of(THERE) is None
        and position_ids(None) is None
    )
    assert padding_mask_of(causal & (local(2) & padding(THERE))) is THERE
    assert torch.equal(padding_mask_of(padding(THERE) & padding(more)), THERE & more)
    assert padding_mask_of(causal | padding(THERE)) is None  # padding may be looked at, then


def test_a_dense_table_is_made_once_for_all_layers_of_a_step(monkeypatch):
    calls, rule = [], local.__call__
    monkeypatch.setattr(local, "__call__", lambda *given: calls.append(1) or rule(*given))
    layers = [Attention(Projection(8, 2), nn.Linear(8, 8), pattern=local(3)) for _ in range(3)]
    stack = Stack([Block(PreNorm(layer, nn.LayerNorm(8)), nn.Identity()) for layer in layers])
    stack(torch.randn(2, 5, 8), mask=causal)
    assert len(calls) == 1
    stack(torch.randn(2, 5, 8), mask=causal)
    assert len(calls) == 2
