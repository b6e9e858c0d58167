"""Masks and patterns: what each allows by hand, how they combine, and what is left of them."""

import copy
import pickle

import jaxtyping
import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, create_mask

from attnbook.masks import (
    And,
    DenseMask,
    Grid,
    Or,
    as_pattern,
    causal,
    chunked,
    combine,
    dense,
    document,
    local,
    padding,
    prefix,
)

B, T = 2, 7
IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 2], [5, 5, 5, 5, 5, 3, 3]])
THERE = torch.tensor([[False, True, True, True, True, True, True], [True] * 7])
i, j = torch.arange(T)[:, None], torch.arange(T)

BY_HAND = {
    "causal": (causal, j <= i),
    "local": (local(3), (i - j).abs() < 3),
    "window": (causal & local(3), (j <= i) & (i - j < 3)),
    "chunks": (causal & chunked(3), (j <= i) & (i // 3 == j // 3)),
    "prefix": (causal | prefix(2), (j <= i) | (j < 2)),
    "prefixes": (
        causal | prefix(torch.tensor([1, 4])),
        torch.stack([(j <= i) | (j < n) for n in (1, 4)])[:, None],
    ),
    "documents": (
        causal & document(IDS),
        torch.stack([(j <= i) & (ids[:, None] == ids) for ids in IDS])[:, None],
    ),
    "one row of documents": (document(IDS[0]), IDS[0][:, None] == IDS[0]),
    "padding": (padding(THERE), THERE[:, None, None]),
    "functions": (And(lambda i, j: i > j, Or(lambda i, j: j == 2, local(2))),
                  (i > j) & ((j == 2) | ((i - j).abs() < 2))),
    "a table": (DenseMask(IDS[0][:, None] == 0) | local(2),
                (IDS[0][:, None] == 0) | ((i - j).abs() < 2)),
}  # fmt: skip
kinds = pytest.mark.parametrize(("pattern", "expected"), BY_HAND.values(), ids=BY_HAND)


@kinds
def test_a_pattern_allows_what_it_says(pattern, expected):
    table = dense(pattern, Grid(B, T, T))
    assert torch.equal(table.expand(B, 1, T, T), expected.expand(B, 1, T, T))


@kinds
def test_of_the_last_queries_a_pattern_says_what_it_says_of_all(pattern, expected):
    if isinstance(pattern, Or) and isinstance(pattern.patterns[0], DenseMask):
        pytest.skip("a table speaks of its own queries")
    table = dense(pattern, Grid(B, 3, T)).expand(B, 1, 3, T)
    assert torch.equal(table, expected.expand(B, 1, T, T)[:, :, -3:])


@kinds
def test_a_pattern_is_pickled_and_copied(pattern, expected):
    if "functions" in BY_HAND and pattern is BY_HAND["functions"][0]:
        with pytest.raises((AttributeError, pickle.PicklingError)):  # a lambda has no name
            pickle.dumps(pattern)
        return
    for twin in (pickle.loads(pickle.dumps(pattern)), copy.deepcopy(pattern)):
        assert torch.equal(dense(twin, Grid(B, T, T)).expand(B, 1, T, T),
                           expected.expand(B, 1, T, T))  # fmt: skip


@pytest.mark.parametrize("name", ["causal", "window", "chunks", "prefixes", "documents", "padding"])
def test_a_pattern_is_flex_attentions_mask_mod(name):
    pattern, expected = BY_HAND[name]

    def mask_mod(b, h, i, j):
        return pattern(i, j, b) if pattern.by_row else pattern(i, j)

    theirs = create_mask(mask_mod, B, 1, T, T, device="cpu")
    assert torch.equal(theirs, expected.expand(B, 1, T, T))
    create_block_mask(mask_mod, B, None, T, T, device="cpu")


def test_equal_patterns_are_equal_so_that_layers_share_their_table():
    assert causal & local(3) == And(causal, local(3)) != And(causal, local(4))
    assert hash(causal & local(3)) == hash(And(causal, local(3)))


def test_the_reach_of_a_pattern_is_a_bound_on_the_past():
    assert [p.reach for p in (causal, local(4), causal & local(4))] == [None, 4, 4]
    assert [p.reach for p in (local(3) & local(5), local(3) | local(5))] == [3, 5]
    assert (local(3) | prefix(2)).reach is None
    assert (causal & chunked(4)).reach == 4


def test_in_one_chunk_everything_is_causal():
    for pattern, T, left in [(chunked(4), 4, causal), (chunked(4), 5, causal & chunked(4))]:
        assert combine(Grid(1, T, T), causal, pattern) == left
    later = Grid(1, 2, 4, first=4)  # as in a cache that forgets: rows may count their own tokens
    assert combine(later, causal, chunked(4)) == causal & chunked(4)


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    for make in (lambda: local(0), lambda: chunked(0), lambda: And(), lambda: Or()):
        with pytest.raises(ValueError, match=r"is 0; a whole number, 1 or more"):
            make()
    with pytest.raises(ValueError, match="3 queries cannot be the last of 2 positions"):
        combine(Grid(1, 3, 2), causal)
    for wrong, message in [
        (torch.ones(2, 3), "boolean"),
        (torch.ones(3, 3).bool(), r"mask \(3, 3\) does not fit scores \(2, 7, 7\)"),
        (torch.ones(1, 3, T, T).bool(), r"mask \(1, 3, 7, 7\) does not fit scores \(2, 4, 7, 7\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            as_pattern(wrong).check(B, 4, T, T)
