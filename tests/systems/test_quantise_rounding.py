"""Few bits: as near as a number of levels allows, exactly what was stored, and tied as before."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attnbook.generate.sampling import generate
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.quantise.rounding import (
    QuantisedLinear,
    dequantise,
    int4_kernel,
    int8_kernel,
    pack,
    quantise,
    quantised,
    quantised_matrix,
    unpack,
)


def model(tied=True):
    torch.manual_seed(1)
    if tied:
        return gpt2(V=11, T=7, width=12, depth=2, heads=3, dropout=0.0).eval()
    return llama(V=11, width=12, depth=2, heads=3, hidden=20)


def tokens():
    return torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(5))


def size(module):
    tensors = {id(t): t for t in module.state_dict(keep_vars=True).values()}
    return sum(t.numel() * t.element_size() for t in tensors.values())


def test_by_hand():
    levels, scales = quantise(torch.tensor([[0.7, -0.21, 0.0, 1.4, 0.36]]), bits=4, group=3)
    assert levels.tolist() == [[7, -2, 0, 7, 2]]  # 0.36 / 0.2 is 1.8
    assert torch.allclose(scales, torch.tensor([[0.1, 0.2]]))
    again = dequantise(levels, scales, 3)
    assert torch.allclose(again, torch.tensor([[0.7, -0.2, 0.0, 1.4, 0.4]]))


@given(st.integers(2, 8), st.integers(1, 9), st.integers(0, 99))
def test_no_error_is_larger_than_half_a_scale(bits, group, seed):
    W = torch.randn(3, 7, generator=torch.Generator().manual_seed(seed))
    levels, scales = quantise(W, bits, group)
    error = (dequantise(levels, scales, min(group, 7)) - W).abs()
    half = scales.repeat_interleave(min(group, 7), 1)[:, :7] / 2
    assert (error <= half * 1.0001).all()
    assert levels.abs().max() <= 2 ** (bits - 1) - 1


@pytest.mark.parametrize("bits", [8, 4, 3])
def test_rounded_weights_are_torchs(bits):
    W, top = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)), 2 ** (bits - 1) - 1
    levels, scales = quantise(W, bits)
    zeros = torch.zeros(5, dtype=torch.int32)
    theirs = torch.fake_quantize_per_channel_affine(W, scales[:, 0], zeros, 0, -top, top)
    assert torch.allclose(dequantise(levels, scales, 7), theirs)


def test_zeros_stay_zeros():
    levels, scales = quantise(torch.zeros(2, 5))
    assert not dequantise(levels, scales, 5).any()


@given(st.lists(st.integers(-8, 7), min_size=1, max_size=9))
def test_packed_levels_come_back(levels):
    levels = torch.tensor([levels], dtype=torch.int8)
    packed = pack(levels)
    assert packed.shape[1] == (levels.shape[1] + 1) // 2
    assert torch.equal(unpack(packed, levels.shape[1]), levels)


@pytest.mark.parametrize(("bits", "group"), [(8, None), (8, 4), (4, 4), (4, None), (3, 5)])
def test_a_quantised_map_multiplies_with_its_rounded_weights(bits, group):
    torch.manual_seed(0)
    layer = nn.Linear(7, 5)
    few = QuantisedLinear(quantised_matrix(layer.weight, bits, group), layer.bias)
    rounded = dequantise(*quantise(layer.weight.detach(), bits, group), group or 7)
    x = torch.randn(2, 3, 7, requires_grad=True)
    expected = F.linear(x, rounded, layer.bias)
    (slope,) = torch.autograd.grad(few(x).square().sum(), x)
    (expected_slope,) = torch.autograd.grad(expected.square().sum(), x)
    assert torch.allclose(few(x), expected, atol=1e-5)
    assert torch.allclose(slope, expected_slope, atol=1e-4)
    assert (few.in_features, few.out_features) == (7, 5)


@pytest.mark.parametrize(
    ("bits", "group", "most"), [(8, None, 0.28), (4, 32, 0.20), (4, None, 0.16)]
)
def test_the_memory_is_really_saved(bits, group, most):
    torch.manual_seed(0)
    layer = nn.Linear(256, 128, bias=False)
    assert size(QuantisedLinear(quantised_matrix(layer.weight, bits, group))) < most * size(layer)


@pytest.mark.parametrize(
    ("bits", "group", "product"), [(8, None, int8_kernel), (4, 32, int4_kernel)]
)
def test_kernels_agree_with_what_is_computed_plainly(bits, group, product):
    torch.manual_seed(0)
    matrix, x = quantised_matrix(torch.randn(48, 64), bits, group), torch.randn(2, 3, 64)
    expected, found = QuantisedLinear(matrix)(x), QuantisedLinear(matrix, product=product)(x)
    assert found.shape == (2, 3, 48) and found.dtype == x.dtype
    assert (found - expected).norm() < 0.01 * expected.norm()  # in bfloat16


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_in_8_bits_says_nearly_the_same(tied):
    plain = model(tied)
    few = quantised(copy.deepcopy(plain))
    expected, found = plain(tokens()).log_softmax(-1), few(tokens()).log_softmax(-1)
    assert (expected - found).abs().max() < 0.02 and not torch.equal(expected, found)
    assert not any(isinstance(part, (nn.Linear, nn.Embedding)) for part in few.modules())


def test_fewer_bits_are_worse():
    plain = model(False)
    errors = []
    for bits in (8, 6, 4, 3, 2):
        few = quantised(copy.deepcopy(plain), bits)
        errors.append((few(tokens()) - plain(tokens())).square().mean().item())
    assert errors == sorted(errors) and errors[0] < errors[-1] / 100


def test_a_tied_head_stays_tied():
    few = quantised(model())
    assert few.lm_head.matrix is few.embed.tokens.matrix


def test_what_is_not_chosen_stays():
    few = quantised(model(), where=lambda name, part: "feedforward" in name)
    assert isinstance(few.embed.tokens, nn.Embedding)
    assert isinstance(few.body.blocks[0].feedforward.sublayer.up, QuantisedLinear)


def test_a_quantised_model_writes_with_a_cache():
    few = quantised(model(False))
    start = tokens()[:, :3]
    assert torch.equal(generate(few, start, 5), generate(few, start, 5, cached=False))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="2 to 8 bits; got 9"):
        quantise(torch.ones(2, 3), 9)
    with pytest.raises(ValueError, match="at least 1 weight; got 0"):
        quantise(torch.ones(2, 3), 8, 0)
    with pytest.raises(ValueError, match="not finite"):
        quantise(torch.tensor([[1.0, torch.nan]]))
    with pytest.raises(ValueError, match="nothing to quantise"):
        quantised(nn.LayerNorm(3))
    with pytest.raises(ValueError, match="got 4 bits"):
        int8_kernel(torch.ones(2, 3), quantised_matrix(torch.ones(5, 3), 4))
    with pytest.raises(ValueError, match="groups of 3"):
        int4_kernel(torch.ones(2, 3), quantised_matrix(torch.ones(5, 3), 4))
