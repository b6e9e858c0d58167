import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook.feedforward import MLP, SwiGLU, swiglu_hidden

B, T, C, HIDDEN = 2, 3, 5, 7
ACTIVATIONS = [None, nn.GELU(), nn.GELU(approximate="tanh")]


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_an_mlp_is_two_convolutions_of_width_one(activation, bias):
    mlp = MLP(C, HIDDEN, activation, bias)
    wide, narrow = nn.Conv1d(C, HIDDEN, 1, bias=bias), nn.Conv1d(HIDDEN, C, 1, bias=bias)
    for conv, linear in ((wide, mlp.up), (narrow, mlp.down)):
        conv.weight.data = linear.weight.data[..., None].clone()
        if bias:
            conv.bias.data = linear.bias.data.clone()
    x, y = (torch.arange(B * T * C).view(B, T, C).cos().requires_grad_() for _ in range(2))
    ours, theirs = mlp(x), narrow((activation or F.relu)(wide(y.mT))).mT
    assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    assert_close(x.grad, y.grad)
    assert_close(mlp.up.weight.grad, wide.weight.grad[..., 0])
    assert_close(mlp.down.weight.grad, narrow.weight.grad[..., 0])


def test_an_mlp_by_hand():
    mlp = MLP(1, 2)
    mlp.up.weight.data, mlp.up.bias.data = torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, -1])
    mlp.down.weight.data, mlp.down.bias.data = torch.tensor([[1.0, 2.0]]), torch.tensor([0.5])
    x = torch.tensor([[3.0], [-3.0], [-0.5]])
    assert_close(mlp(x), torch.tensor([[3.5], [4.5], [0.5]]))


def test_swiglu_is_its_formula():
    swiglu, x = SwiGLU(C, HIDDEN).double(), torch.randn(B, T, C, dtype=torch.float64)
    W, V, W2 = swiglu.gate.weight, swiglu.up.weight, swiglu.down.weight
    for b in range(B):
        for t in range(T):
            z = W @ x[b, t]
            assert_close(swiglu(x)[b, t], W2 @ (z / (1 + torch.exp(-z)) * (V @ x[b, t])))
    assert torch.autograd.gradcheck(swiglu, x.requires_grad_())
    assert not [name for name, _ in swiglu.named_parameters() if "bias" in name]


@pytest.mark.parametrize("part", [MLP(C, HIDDEN), SwiGLU(C, HIDDEN)])
def test_a_position_is_worked_on_alone(part):
    x = torch.randn(1, T, C)
    jacobian = torch.autograd.functional.jacobian(part, x)[0, :, :, 0].abs().amax((1, 3))
    assert ((jacobian > 0) == torch.eye(T, dtype=torch.bool)).all()


@given(st.integers(1, 300), st.integers(1, 64))
def test_three_matrices_cost_what_two_did_rounded_up(width, multiple):
    hidden = swiglu_hidden(width, multiple)
    assert hidden % multiple == 0
    more = 3 * width * hidden - 8 * width * width
    assert 0 <= more < 3 * width * multiple


def test_swiglus_hidden_sizes_that_were_published():
    assert swiglu_hidden(4096, 256) == 11008  # Llama 7B
    assert swiglu_hidden(6) == 16
    assert count(SwiGLU(6, swiglu_hidden(6))) == count(MLP(6, 24, bias=False))


@pytest.mark.parametrize("part", [MLP(C, HIDDEN), SwiGLU(C, HIDDEN)])
def test_autocast_is_close(part):
    x = torch.randn(B, T, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = part(x)
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), part(x), atol=0.03, rtol=0)


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="at least 1; got 0"):
        swiglu_hidden(8, 0)
