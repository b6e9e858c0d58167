"""What went in is computed from what came out, and the gradients are the ordinary ones."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from attnbook.attention import MultiHeadAttention
from attnbook.efficient.reversible import ReversibleBlock, ReversibleStack
from attnbook.feedforward import MLP
from attnbook.norms import LayerNorm

B, T, C, H = 2, 5, 12, 3


def block():
    f = nn.Sequential(LayerNorm(C), MultiHeadAttention(C, H))
    return ReversibleBlock(f, nn.Sequential(LayerNorm(C), MLP(C, 7)))


def stack(depth, norm=None):
    torch.manual_seed(0)
    return ReversibleStack([block() for _ in range(depth)], norm).double()


def ordinary(model, x):
    """The same, as autograd would do it alone."""
    x1 = x2 = x
    for part in model.blocks:
        x1, x2 = part(x1, x2)
    return model.norm((x1 + x2) / 2)


def inputs():
    return torch.randn(B, T, C, dtype=torch.float64).requires_grad_()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0.1, 10))
def test_inputs_come_back_from_outputs(seed, size):
    torch.manual_seed(seed)
    part = block().double()
    x1, x2 = size * torch.randn(2, B, T, C, dtype=torch.float64)
    assert_close(part.inverse(*part(x1, x2)), (x1, x2))


def test_a_block_by_hand():
    """f doubles, g triples: (1, 10) becomes (1 + 20, 10 + 63)."""
    f, g = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    f.weight.data, g.weight.data = torch.tensor([[2.0]]), torch.tensor([[3.0]])
    part = ReversibleBlock(f, g)
    y1, y2 = part(torch.tensor([1.0]), torch.tensor([10.0]))
    assert (y1.item(), y2.item()) == (21, 73)
    x1, x2 = part.inverse(y1, y2)
    assert (x1.item(), x2.item()) == (1, 10)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("frozen", [False, True])
def test_outputs_and_gradients_are_those_of_the_ordinary_computation(depth, frozen):
    model, x = stack(depth, LayerNorm(C)), inputs()
    if frozen:
        model.blocks[0].f.requires_grad_(False)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    ours, theirs = model(x), ordinary(model, x)
    assert_close(ours, theirs)
    probe = torch.randn_like(ours)
    grads = [torch.autograd.grad((y * probe).sum(), (x, *weights)) for y in (ours, theirs)]
    assert_close(*grads)


def test_a_block_used_twice_hears_from_both_places():
    model, x = stack(2), inputs()
    model.blocks[1] = model.blocks[0]
    weights = list(model.parameters())
    grads = [torch.autograd.grad(y.sum(), (x, *weights)) for y in (model(x), ordinary(model, x))]
    assert_close(*grads)


def test_backward_goes_all_the_way_down():
    model = stack(2)
    below = nn.Linear(C, C).double()
    model(below(torch.randn(B, T, C, dtype=torch.float64))).square().sum().backward()
    for weight in (*below.parameters(), *model.parameters()):
        assert weight.grad is not None and weight.grad.isfinite().all()


def kept(call, x):
    """How many numbers are stored for the backward pass, weights not counted."""
    storages = {}

    def pack(tensor):
        if not isinstance(tensor, nn.Parameter) and not isinstance(tensor._base, nn.Parameter):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 8
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = call(x)
    assert output.shape == x.shape
    return sum(storages.values())


def test_what_is_kept_does_not_grow_with_the_depth():
    x = inputs()
    reversible = [kept(stack(depth), x) for depth in (1, 2, 6)]
    assert reversible == [2 * B * T * C] * 3
    plain = [kept(lambda x, depth=depth: ordinary(stack(depth), x), x) for depth in (1, 2, 6)]
    assert plain[2] > 5 * plain[0] > 5 * reversible[0]


def test_in_single_precision_the_reconstruction_is_close():
    torch.manual_seed(0)
    parts, (x1, x2) = [block() for _ in range(12)], torch.randn(2, B, T, C)
    y = x1, x2
    for part in parts:
        y = part(*y)
    for part in reversed(parts):
        y = part.inverse(*y)
    assert_close(y, (x1, x2), atol=1e-4, rtol=0)


def test_it_learns():
    torch.manual_seed(0)
    model = ReversibleStack([block(), block()], LayerNorm(C))
    x, target = torch.randn(2, B, T, C)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        losses.append((model(x) - target).square().mean())
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 4


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"dropout of 0.3 would differ"):
        ReversibleBlock(nn.Identity(), nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3)))
    ReversibleBlock(nn.Identity(), nn.Dropout(0.0))
