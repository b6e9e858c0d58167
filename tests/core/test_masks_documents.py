"""Patterns that know the text; what each allows by hand stands in test_masks_patterns.py."""

import jaxtyping
import pytest
import torch

from attnbook.masks import Grid, causal, dense, document, padding, prefix

B, T = 2, 7
IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 2], [5, 5, 5, 5, 5, 3, 3]])
THERE = torch.tensor([[False, True, True, True, True, True, True], [True] * 7])


@pytest.mark.parametrize(
    ("pattern", "by_row"),
    [
        (prefix(2), False),
        (prefix(torch.tensor([2, 5])), True),
        (document(IDS[0]), False),
        (document(IDS), True),
        (padding(THERE), True),
        (causal & document(IDS[0]), False),
        (causal | padding(THERE), True),
    ],
)
def test_only_what_differs_between_rows_makes_a_table_for_each(pattern, by_row):
    assert pattern.by_row is by_row
    assert dense(pattern, Grid(B, T, T)).shape[:-2].numel() == (B if by_row else 1)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (causal & document(IDS[:, :5]), r"documents \(2, 5\) do not fit keys \(2, 7\)"),
        (causal & padding(THERE[:1]), r"padding \(1, 7\) does not fit keys \(2, 7\)"),
        (prefix(torch.tensor([1, 2, 3])), "3 prefixes do not fit 2 sequences"),
    ],
)
def test_a_pattern_of_another_text_is_refused(monkeypatch, pattern, message):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    with pytest.raises(ValueError, match=message):
        pattern.check(B, 4, T, T)
