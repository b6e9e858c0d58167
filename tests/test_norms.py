import warnings

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.norms import LayerNorm, RMSNorm, layer_norm, rms_norm

B, T, C = 2, 3, 5
EPS = 0.03  # large enough to be seen


def with_random_parameters(norm):
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


def layer_norms():
    """Ours written out, ours, torch's: with the same random gain and shift."""
    ours, theirs = with_random_parameters(LayerNorm(C, EPS)).double(), nn.LayerNorm(C, EPS).double()
    theirs.weight.data, theirs.bias.data = ours.gain.data.clone(), ours.shift.data.clone()
    return lambda x: layer_norm(x, ours.gain, ours.shift, EPS), ours, theirs


def rms_norms():
    """Ours written out, ours, torch's: with the same random gain."""
    ours, theirs = with_random_parameters(RMSNorm(C, EPS)).double(), nn.RMSNorm(C, EPS).double()
    theirs.weight.data = ours.gain.data.clone()
    return lambda x: rms_norm(x, ours.gain, EPS), ours, theirs


@pytest.mark.parametrize("norms", [layer_norms, rms_norms])
def test_written_out_it_is_the_kernel_and_torchs_layer_forward_and_gradient(norms):
    torch.manual_seed(0)
    written, ours, theirs = norms()
    x = torch.randn(B, T, C, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(B, T, C)
    found = []
    for norm, layer in ((written, ours), (ours, ours), (theirs, theirs)):
        output = norm(x)
        loss = (output * weights).sum()
        found.append((output, *torch.autograd.grad(loss, (x, *layer.parameters()))))
    assert_close(found[0], found[2])
    assert_close(found[1], found[2])
    assert torch.autograd.gradcheck(written, x)
    assert torch.autograd.gradcheck(ours, x)


def test_three_numbers_by_hand():
    x = torch.tensor([1.0, 2.0, 6.0])  # mean 3, variance (4 + 1 + 9) / 3; mean square 41 / 3
    centred = torch.tensor([-2.0, -1.0, 3.0])
    assert_close(LayerNorm(3, 0.0)(x), centred / (14 / 3) ** 0.5)
    assert_close(RMSNorm(3, 0.0)(x), x / (41 / 3) ** 0.5)


numbers = st.floats(-100, 100).filter(lambda x: abs(x) > 0.01)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.floats(0.1, 1000), numbers)
def test_neither_sees_the_size_and_layer_norm_does_not_see_the_level(seed, size, level):
    torch.manual_seed(seed)
    x = torch.randn(T, C, dtype=torch.float64)
    layer, rms = LayerNorm(C, 1e-12).double(), RMSNorm(C, 1e-12).double()
    assert_close(layer(size * x + level), layer(x))
    assert_close(rms(size * x), rms(x))
    assert (rms(x + level) - rms(x)).abs().max() > 1e-4
    assert_close(layer(x).mean(-1), torch.zeros(T, dtype=torch.float64))
    for norm in (layer, rms):
        assert_close(norm(x).square().mean(-1), torch.ones(T, dtype=torch.float64))


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_a_vector_of_zeros_stays_finite(norm):
    x = torch.zeros(T, C, requires_grad=True)
    output = norm(C)(x)
    output.sum().backward()
    assert (output == 0).all() and x.grad.isfinite().all()


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_is_close_and_silent(norm, dtype):
    norm, x = with_random_parameters(norm(C)), torch.randn(B, T, C)
    expected = norm(x)
    with warnings.catch_warnings(), torch.autocast("cpu", dtype=torch.bfloat16):
        warnings.simplefilter("error")
        output = norm(x.to(dtype))
    assert output.dtype == dtype
    assert_close(output.float(), expected, atol=0.03, rtol=0.03)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_another_width_is_named(norm, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="the vectors have width 7, the norm has width 5"):
        norm(C)(torch.zeros(B, 7))
