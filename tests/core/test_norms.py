import warnings

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm

from attnbook.attention import MultiHeadAttention
from attnbook.cache import KVCache
from attnbook.inside.watch import watch
from attnbook.losses import parameters
from attnbook.masks import causal_mask
from attnbook.norms import LayerNorm, PerHeadNorm, RMSNorm, layer_norm, rms_norm
from attnbook.positions import Rotary

B, T, C = 2, 3, 5
EPS = 0.03  # large enough to be seen


def with_random_parameters(norm):
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


def layer_norms():
    """Ours written out, ours, torch's: with the same random gain and shift."""
    ours, theirs = with_random_parameters(LayerNorm(C, EPS)).double(), nn.LayerNorm(C, EPS).double()
    theirs.weight.data, theirs.bias.data = ours.weight.data.clone(), ours.bias.data.clone()
    return lambda x: layer_norm(x, ours.weight, ours.bias, EPS), ours, theirs


def rms_norms():
    """Ours written out, ours, torch's: with the same random gain."""
    ours, theirs = with_random_parameters(RMSNorm(C, EPS)).double(), nn.RMSNorm(C, EPS).double()
    theirs.weight.data = ours.weight.data.clone()
    return lambda x: rms_norm(x, ours.weight, EPS), ours, theirs


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


# -- queries and keys of standard size ------------------------------------------------------------

HEADS, KV_HEADS, D = 6, 2, 4


def normed(rotate=None, shared=False):
    """Attention with a norm each for queries and keys, or one for both."""
    torch.manual_seed(0)
    q_norm = RMSNorm(D)
    norms = {"q_norm": q_norm, "k_norm": q_norm if shared else RMSNorm(D)}
    return MultiHeadAttention(HEADS * D, HEADS, KV_HEADS, rotate=rotate, bias=False, **norms)


def test_normed_attention_is_that_of_qwen3():
    transformers = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    config = transformers.Qwen3Config(
        hidden_size=HEADS * D,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=D,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0},
        attn_implementation="eager",
    )
    ours, theirs = normed(Rotary(D, 50.0)), transformers.Qwen3Attention(config, 0)
    projections = [theirs.q_proj, theirs.k_proj, theirs.v_proj]
    gains = [(getattr(ours.project, name), getattr(theirs, name)) for name in ("q_norm", "k_norm")]
    with torch.no_grad():
        for linear, weight in zip(projections, ours.to_qkv.weight.split(ours.widths), strict=True):
            linear.weight.copy_(weight)
        theirs.o_proj.weight.copy_(ours.to_out.weight)
        for mine, its in gains:
            its.weight.copy_(mine.weight.normal_())
    x = torch.randn(2, 7, HEADS * D)
    angles = transformers.Qwen3RotaryEmbedding(config)(x, torch.arange(7)[None])
    allowed = causal_mask(7)
    added = torch.zeros(1, 1, 7, 7).masked_fill(~allowed, -torch.inf)
    output, (expected, _) = ours(x, mask=allowed), theirs(x, angles, added)
    assert_close(output, expected, atol=1e-5, rtol=1e-5)
    probe = torch.randn_like(output)
    (output * probe).sum().backward()
    (expected * probe).sum().backward()
    for mine, its in gains:
        assert_close(mine.weight.grad, its.weight.grad, atol=1e-5, rtol=1e-5)
    grad = torch.cat([linear.weight.grad for linear in projections])
    assert_close(ours.to_qkv.weight.grad, grad, atol=1e-5, rtol=1e-5)


def test_one_norm_for_queries_and_keys_is_one_gain_that_hears_what_two_would():
    one, two = normed(Rotary(D), shared=True), normed(Rotary(D))
    nn.init.normal_(one.project.q_norm.weight)
    two.load_state_dict(one.state_dict())
    assert parameters(one) == parameters(two) - D
    x = torch.randn(2, 7, HEADS * D)
    outputs = one(x), two(x)
    assert torch.equal(*outputs)
    for output in outputs:
        output.square().sum().backward()
    both = two.project.q_norm.weight.grad + two.project.k_norm.weight.grad
    assert_close(one.project.k_norm.weight.grad, both)


@pytest.mark.parametrize("rotate", [None, Rotary(D)])
def test_however_large_the_projections_the_weights_stay_as_they_are(rotate):
    layer, x = normed(rotate), torch.randn(2, 7, HEADS * D)
    with watch(layer) as seen:
        layer(x)
        before = seen[""]
        with torch.no_grad():
            layer.to_qkv.weight *= 1000
        layer(x)
    assert_close(seen[""], before, atol=1e-4, rtol=0)
    limit = 2 * D**0.5  # scores lie between -√D and √D
    assert before.log().amax(-1).sub(before.log().amin(-1)).max() <= limit


def test_without_the_norm_large_projections_make_one_key_win():
    layer, x = normed(), torch.randn(2, 7, HEADS * D)
    layer.project.q_norm = layer.project.k_norm = None
    with watch(layer) as seen, torch.no_grad():
        layer.to_qkv.weight *= 1000
        layer(x)
    assert seen[""].amax(-1).mean() > 0.99


def test_normed_attention_in_pieces_with_a_cache_is_the_same():
    layer, x = normed(Rotary(D)), torch.randn(2, 7, HEADS * D)
    cache = KVCache()
    with torch.no_grad():
        pieces, start = [], 0
        for piece in x.split([3, 1, 3], 1):
            start += piece.shape[1]
            pieces.append(layer(piece, mask=causal_mask(piece.shape[1], start), cache=cache))
        assert_close(torch.cat(pieces, 1), layer(x, mask=causal_mask(7)))


def test_a_norm_of_another_head_width_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    layer = MultiHeadAttention(12, 3, q_norm=RMSNorm(6))
    with pytest.raises(ValueError, match="the vectors have width 4, the norm has width 6"):
        layer(torch.zeros(1, 2, 12))


def test_a_gain_of_one_plus_what_is_learned_is_gemmas():
    mine, theirs = RMSNorm(C, EPS, offset=1.0), Gemma2RMSNorm(C, EPS)
    assert (mine.weight == 0).all()  # and so the gain is 1
    nn.init.normal_(mine.weight)
    theirs.weight.data = mine.weight.data.clone()
    x = torch.randn(B, T, C)
    assert_close(mine(x), theirs(x))
    assert_close(RMSNorm(C, offset=1.0)(x), RMSNorm(C)(x))


def test_without_a_shift_nothing_is_added():
    mine, theirs = LayerNorm(C, EPS, bias=False), nn.LayerNorm(C, EPS, bias=False)
    assert [name for name, _ in mine.named_parameters()] == ["weight"]
    nn.init.normal_(mine.weight)
    theirs.weight.data = mine.weight.data.clone()
    x = torch.randn(B, T, C)
    assert_close(mine(x), theirs(x))


def test_a_gain_beside_its_offset_is_torchs_layer_norm_with_one_more():
    torch.manual_seed(0)
    norm, x = LayerNorm(7, offset=1.0), torch.randn(2, 3, 7)
    assert_close(norm(x), F.layer_norm(x, (7,)))  # nothing is learned yet
    nn.init.normal_(norm.weight)
    assert_close(norm(x), F.layer_norm(x, (7,), norm.weight + 1, norm.bias, norm.eps))


def test_per_head_norm_is_a_layer_norm_of_each_head():
    norm, x = PerHeadNorm(3, 4), torch.randn(2, 3, 5, 4)
    with torch.no_grad():
        norm.weight.normal_()
    each = [F.layer_norm(x[:, h], (4,), norm.weight[h]) for h in range(3)]
    assert_close(norm(x), torch.stack(each, 1))
    with pytest.raises(ValueError, match="2 heads of width 4, the norm is of 3 of width 4"):
        norm(x[:, :2])
