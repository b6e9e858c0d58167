"""Counting: the number of ones so far, modulo a small number."""

import pytest
import torch

from attnbook.data.counting import counting


@pytest.mark.parametrize("modulus", [2, 3])
def test_a_count_goes_on_by_each_bit(modulus):
    bits, counts = counting(40, modulus)(torch.Generator().manual_seed(0), 8)
    before = torch.cat((torch.zeros_like(counts[:, :1]), counts[:, :-1]), 1)
    assert ((before + bits) % modulus == counts).all() and counts.max() == modulus - 1


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="got 0 and 2"):
        counting(0)
    with pytest.raises(ValueError, match="got 5 and 1"):
        counting(5, 1)
