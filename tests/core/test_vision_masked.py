"""The masked autoencoder: what is hidden is not read, and only the gaps are judged."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.block import Stack
from attnbook.vision import MaskedAutoencoder, cut, gap_loss, some_patches
from bookkit.experiments import classify


@pytest.fixture
def model():
    torch.manual_seed(0)
    reader, other = classify.transformer(), classify.transformer()
    return MaskedAutoencoder(reader, Stack(list(other.body.blocks)[:1]), 32)


def test_what_is_hidden_cannot_leak_into_what_is_painted(model):
    x, kept = torch.randn(1, 1, 8, 8), torch.tensor([[0, 1]])
    other = x.clone()
    other[..., 2:, :] = 9.0  # patches 4 … 15
    assert_close(model(other, kept), model(x, kept))
    other[..., 0, 0] = 9.0  # patch 0
    assert (model(other, kept) - model(x, kept)).abs().max() > 1e-3


def test_what_was_read_comes_back_to_its_place(model):
    x = torch.randn(1, 1, 8, 8)
    ways = [model(x, torch.tensor([order])) for order in ([2, 9, 11], [11, 2, 9])]
    assert_close(*ways)


def test_only_the_gaps_are_judged():
    x, kept = torch.randn(2, 1, 8, 8), torch.tensor([[0, 3], [5, 7]])
    painted = cut(x, 2)
    painted[0, [0, 3]] += 100
    painted[1, [5, 7]] -= 100
    assert gap_loss(painted, x, kept, 2) == 0
    painted[0, 1] += 2  # one of 28 hidden patches, each number off by 2
    assert_close(gap_loss(painted, x, kept, 2), torch.tensor(4 / 28))


def test_all_choices_of_patches_are_equally_likely():
    kept = some_patches(4000, 16, 4, torch.Generator().manual_seed(0))
    assert kept.shape == (4000, 4) and all(len(set(row)) == 4 for row in kept[:50].tolist())
    assert (torch.bincount(kept.flatten(), minlength=16) / 4000 - 0.25).abs().max() < 0.03
    with pytest.raises(ValueError, match="of 16 patches 1 to 15 can be kept"):
        some_patches(2, 16, 16, torch.Generator())
