"""A condition turns parts up, down and off; at the start they are off."""

import pytest
import torch
from torch import nn

from attnbook.attention import MultiHeadAttention
from attnbook.feedforward import MLP
from attnbook.modalities.adaln import AdaHead, AdaNorm, ConditionedBlock, TimeEmbedding, modulated

WIDTH, CONDITION = 6, 5


def x(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def block():
    torch.manual_seed(1)
    norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
    return ConditionedBlock(
        AdaNorm(MultiHeadAttention(WIDTH, 2), norm, WIDTH, CONDITION),
        AdaNorm(MLP(WIDTH, 9, nn.GELU()), norm, WIDTH, CONDITION),
    )


def test_a_block_starts_as_the_identity_and_can_leave_it():
    made, given = block(), x(2, 4, WIDTH)
    condition = x(2, CONDITION, seed=2)
    assert torch.equal(made(given, condition), given)
    made(given, condition).square().sum().backward()
    assert made.attention.to_orders.weight.grad.abs().sum() > 0
    with torch.no_grad():
        made.attention.to_orders.weight -= 0.1 * made.attention.to_orders.weight.grad
    assert not torch.allclose(made(given, condition), given)


def test_it_is_the_formula_written_out():
    """One number at a time, in 64 bits."""
    torch.manual_seed(3)
    ada = AdaNorm(
        nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, elementwise_affine=False), WIDTH, CONDITION
    )
    nn.init.normal_(ada.to_orders.weight), nn.init.normal_(ada.to_orders.bias)
    ada = ada.double()
    given, condition = x(2, 4, WIDTH).double(), x(2, CONDITION, seed=2).double()
    found = ada(given, condition)
    for b in range(2):
        c = condition[b] / (1 + (-condition[b]).exp())
        orders = ada.to_orders.weight @ c + ada.to_orders.bias
        shift, scale, gate = orders[:6], orders[6:12], orders[12:]
        for t in range(4):
            v = given[b, t]
            normed = (v - v.mean()) / (v.var(unbiased=False) + 1e-5).sqrt()
            expected = v + gate * ada.sublayer(normed * (1 + scale) + shift)
            assert torch.allclose(found[b, t], expected)


def test_each_sequence_follows_its_own_condition():
    made = block()
    nn.init.normal_(made.feedforward.to_orders.weight)
    given, conditions = x(1, 4, WIDTH).expand(2, -1, -1), x(2, CONDITION, seed=2)
    both = made(given, conditions)
    assert torch.allclose(both[1], made(given[:1], conditions[1:])[0], atol=1e-6)
    assert not torch.allclose(both[0], both[1], atol=1e-2)


def test_no_orders_change_nothing():
    given, zeros = x(2, 4, WIDTH), torch.zeros(2, WIDTH)
    assert torch.equal(modulated(given, zeros, zeros), given)
    assert torch.equal(modulated(given[:, 0], zeros + 1, zeros + 2), 3 * given[:, 0] + 1)


def test_a_head_starts_at_0():
    head = AdaHead(nn.LayerNorm(WIDTH, elementwise_affine=False), WIDTH, CONDITION, 7)
    assert torch.equal(head(x(2, 4, WIDTH), x(2, CONDITION)), torch.zeros(2, 4, 7))


def test_near_times_are_alike_and_far_ones_differ():
    torch.manual_seed(0)
    vectors = TimeEmbedding(WIDTH)(torch.tensor([0.3, 0.3001, 0.9]))
    near, far = (vectors[0] - vectors[1]).norm(), (vectors[0] - vectors[2]).norm()
    assert near < far / 3
    with pytest.raises(ValueError, match="in pairs of sine and cosine; got 7"):
        TimeEmbedding(WIDTH, 7)
