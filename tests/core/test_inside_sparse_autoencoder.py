"""A sparse autoencoder has few features at work and its dictionary's rows have length 1."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.inside.sparse_autoencoder import SparseAutoencoder


def test_at_most_k_features_are_at_work_and_none_is_negative():
    torch.manual_seed(0)
    model, x = SparseAutoencoder(width=8, features=32, k=3), torch.randn(50, 8)
    z = model.encode(x)
    assert (z >= 0).all() and (z > 0).sum(-1).max() <= 3


def test_the_answer_is_a_sum_of_rows_of_length_one_whatever_length_the_parameters_have():
    torch.manual_seed(0)
    model = SparseAutoencoder(width=8, features=32, k=3)
    with torch.no_grad():
        model.decoder.mul_(7)
        model.bias.normal_()
    assert_close(model.directions().norm(dim=-1), torch.ones(32))
    z = model.encode(torch.randn(5, 8))
    by_hand = torch.stack(
        [model.bias + sum(row[f] * model.directions()[f] for f in range(32)) for row in z]
    )
    assert_close(model.decode(z), by_hand)


def test_it_finds_the_directions_that_data_was_made_of():
    torch.manual_seed(0)
    truth = torch.nn.functional.normalize(torch.randn(12, 16), dim=-1)
    model = SparseAutoencoder(width=16, features=24, k=2)
    adam = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(800):
        which = torch.rand(256, 12).topk(2, -1).indices
        x = (truth[which] * (1 + torch.rand(256, 2, 1))).sum(1)
        loss = (model(x) - x).square().sum(-1).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    found = (truth @ model.directions().T).amax(1)
    chance = (truth @ SparseAutoencoder(16, 24, 2).directions().T).amax(1)
    assert (found > 0.95).sum() >= 10 and (chance > 0.95).sum() == 0


@pytest.mark.parametrize("k", [0, 33])
def test_a_number_of_features_that_cannot_be_is_refused(k):
    with pytest.raises(ValueError, match="of 32 features 1 to 32 can be at work"):
        SparseAutoencoder(8, 32, k)
