"""The loss in pieces is the loss, gradients included, and holds no more logits than said."""

import jaxtyping
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.losses import chunked_token_loss, token_loss

B, T, C, V = 2, 7, 5, 11


@pytest.fixture
def given():
    torch.manual_seed(0)
    x, targets = torch.randn(B, T, C, requires_grad=True), torch.randint(V, (B, T))
    return x, nn.Linear(C, V), targets


@pytest.mark.parametrize("chunk", [1, 3, 14, 99])
@pytest.mark.parametrize("masked", [False, True])
def test_the_loss_in_pieces_is_the_loss(given, masked, chunk):
    x, head, targets = given
    mask = torch.rand(B, T) < 0.6 if masked else None
    weights = [x, *head.parameters()]
    expected = token_loss(head(x), targets, mask)
    found = chunked_token_loss(x, head, targets, mask, chunk)
    assert_close(found, expected)
    assert_close(torch.autograd.grad(found, weights), torch.autograd.grad(expected, weights))


def test_no_more_logits_are_held_than_a_pieces(given):
    x, head, targets = given
    seen, held = [], []
    head.register_forward_hook(lambda *call: seen.append(call[-1].numel()))
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: held.append(tensor.numel()) or tensor, lambda tensor: tensor
    ):
        loss = chunked_token_loss(x, head, targets, chunk=4)
    assert max(seen) == 4 * V and len(seen) == 4
    assert 4 * V not in held  # until they are needed
    loss.backward()
    assert len(seen) == 8  # computed again


def test_bad_input_is_named(given, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    x, head, targets = given
    with pytest.raises(ValueError, match=r"vectors \(2, 7, 5\) do not fit targets \(2, 6\)"):
        chunked_token_loss(x, head, targets[:, 1:])
    with pytest.raises(ValueError, match="False everywhere"):
        chunked_token_loss(x, head, targets, torch.zeros(B, T, dtype=torch.bool))
    with pytest.raises(ValueError, match="chunk is 0"):
        chunked_token_loss(x, head, targets, chunk=0)
