"""The layer is Qwen3-Next's, Kimi Linear's and OLMo Hybrid's, and a block takes it as attention."""

import pytest
import torch
from torch import nn

from attnbook.block import Block, PreNorm
from attnbook.feedforward import SwiGLU
from attnbook.norms import RMSNorm
from attnbook.recurrence.delta import delta_loop
from attnbook.recurrence.gated_delta import (
    GatedDelta,
    GatedNorm,
    decay_per_channel,
    decay_per_head,
)

WIDTH = 12


def layer(seed=0, **parts):
    torch.manual_seed(seed)
    made = {"keys": (2, 5), "values": (4, 3), "decay": decay_per_head(WIDTH, 4)} | parts
    return GatedDelta(WIDTH, **made)


def x(T=9, seed=1):
    return torch.randn(2, T, WIDTH, generator=torch.Generator().manual_seed(seed))


def theirs(family, layer, **sizes):
    """The layer of transformers, its weights random, for an input as wide as ours."""
    module = pytest.importorskip(f"transformers.models.{family}.modeling_{family}")
    types = ["linear_attention", "full_attention"]
    config = vars(module)[f"{layer.split('_')[0]}Config"](
        hidden_size=WIDTH, num_hidden_layers=2, layer_types=types, **sizes
    )
    torch.manual_seed(3)
    made = vars(module)[layer.replace("_", "")](config, 0)
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.3)
    return made


HEADS = {
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 5,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 3,
}


def copy(pairs):
    with torch.no_grad():
        for weight, values in pairs:
            weight.copy_(values.reshape(weight.shape))


def check(ours, other):
    mine, yours = x().requires_grad_(), x().requires_grad_()
    one, two = ours(mine), other(yours)
    assert torch.allclose(one, two, atol=1e-5)
    (a,), (b,) = (torch.autograd.grad(y.square().sum(), z) for y, z in ((one, mine), (two, yours)))
    assert torch.allclose(a, b, atol=1e-4)


def test_it_is_qwens():
    other, ours = theirs("qwen3_next", "Qwen3Next_GatedDeltaNet", **HEADS), layer()
    by_key_head = other.in_proj_qkvz.weight.unflatten(0, (2, -1)).split([5, 5, 6, 6], 1)
    q, k, v, z = (part.flatten(0, 1) for part in by_key_head)
    b, a = (part.flatten(0, 1) for part in other.in_proj_ba.weight.unflatten(0, (2, 4)).chunk(2, 1))
    copy([
        (ours.to_qkv.weight, torch.cat((q, k, v))), (ours.gate.map[0].weight, z),
        (ours.convolve.weight, other.conv1d.weight), (ours.to_strength.weight, b),
        (ours.decay.map.weight, a), (ours.decay.log_speed, other.A_log),
        (ours.decay.shift, other.dt_bias), (ours.gate.norm.weight, other.norm.weight),
        (ours.to_out.weight, other.out_proj.weight),
    ])  # fmt: skip
    check(ours, other)


def test_with_strengths_up_to_2_it_is_olmos():
    other = theirs("olmo_hybrid", "OlmoHybrid_GatedDeltaNet", num_attention_heads=2, **HEADS)
    gate = GatedNorm(
        RMSNorm(3, eps=1e-5), nn.Sequential(nn.Linear(WIDTH, 12, bias=False), nn.SiLU())
    )
    ours = layer(largest=2.0, gate=gate)
    qkv = [other.q_proj.weight, other.k_proj.weight, other.v_proj.weight]
    copy([
        (ours.to_qkv.weight, torch.cat(qkv)), (ours.gate.map[0].weight, other.g_proj.weight),
        (ours.convolve.weight, other.conv1d.weight), (ours.to_strength.weight, other.b_proj.weight),
        (ours.decay.map.weight, other.a_proj.weight), (ours.decay.log_speed, other.A_log),
        (ours.decay.shift, other.dt_bias), (ours.gate.norm.weight, other.o_norm.weight),
        (ours.to_out.weight, other.o_proj.weight),
    ])  # fmt: skip
    check(ours, other)


def test_with_a_decay_per_channel_it_is_kimis():
    sizes = {"linear_num_heads": 2, "linear_head_dim": 5, "mlp_layer_types": ["dense"] * 2}
    other = theirs("kimi_linear", "KimiLinear_DeltaAttention", **sizes)
    thin = [nn.Linear(WIDTH, 5, bias=False), nn.Linear(5, 10, bias=False), nn.Sigmoid()]
    ours = layer(
        keys=(2, 5),
        values=None,
        decay=decay_per_channel(WIDTH, 2, 5),
        gate=GatedNorm(RMSNorm(5, eps=1e-5), nn.Sequential(*thin)),
    )
    qkv = [other.q_proj.weight, other.k_proj.weight, other.v_proj.weight]
    copy([
        (ours.to_qkv.weight, torch.cat(qkv)), (ours.convolve.weight, other.conv1d.weight),
        (ours.to_strength.weight, other.b_proj.weight),
        (ours.decay.map[0].weight, other.forget_gate.f_a_proj.weight),
        (ours.decay.map[1].weight, other.forget_gate.f_b_proj.weight),
        (ours.decay.log_speed, other.forget_gate.A_log),
        (ours.decay.shift, other.forget_gate.dt_bias),
        (ours.gate.map[0].weight, other.g_a_proj.weight),
        (ours.gate.map[1].weight, other.g_b_proj.weight),
        (ours.gate.norm.weight, other.o_norm.weight), (ours.to_out.weight, other.o_proj.weight),
    ])  # fmt: skip
    check(ours, other)


@pytest.mark.parametrize("parts", [{}, {"decay": None}, {"largest": 2.0, "kernel": 1}])
def test_read_piece_by_piece_it_is_the_same(parts):
    made, given = layer(**parts), x()
    cache = made.cache()
    pieces = [made(piece, cache=cache) for piece in given.split([4, 1, 1, 3], 1)]
    assert torch.allclose(torch.cat(pieces, 1), made(given), atol=1e-5)
    assert cache.length == 9 and cache.state.shape == (2, 4, 5, 3)


def test_future_cannot_leak():
    made, given = layer(), x().requires_grad_()
    (slope,) = torch.autograd.grad(made(given)[:, 4].sum(), given)
    assert slope[:, :5].abs().sum(-1).min() > 0 and not slope[:, 5:].any()


def test_the_rule_is_a_part():
    made = layer()
    expected = made(x())
    made.rule = delta_loop
    assert torch.allclose(made(x()), expected, atol=1e-5)


def test_rows_are_chosen_and_a_state_cannot_be_cut():
    made, given = layer(), x()
    cache = made.cache()
    made(given[:, :6], cache=cache)
    cache.select(torch.tensor([1, 1, 0]))
    after = made(given[[1, 1, 0], 6:], cache=cache)
    assert torch.allclose(after, made(given)[[1, 1, 0], 6:], atol=1e-5)
    with pytest.raises(ValueError, match="9 positions cannot be cut to 5"):
        cache.cut(5)
    cache.cut(0)
    assert torch.allclose(made(given[:1], cache=cache), made(given[:1]), atol=1e-6)


def test_it_stands_in_a_block():
    block = Block(PreNorm(layer(), RMSNorm(WIDTH)), PreNorm(SwiGLU(WIDTH, 20), RMSNorm(WIDTH)))
    assert block(x(), mask=torch.ones(9, 9, dtype=torch.bool).tril()).shape == (2, 9, WIDTH)


def test_half_precision_keeps_its_state_in_32_bits():
    made, given = layer(), x()
    cache = made.cache()
    half = made.bfloat16()(given.bfloat16(), cache=cache)
    assert half.dtype == torch.bfloat16 and cache.state.dtype == torch.float32
    assert torch.allclose(half.float(), made.float()(given), atol=0.1)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="3 value heads cannot share 2 key heads"):
        GatedDelta(WIDTH, (2, 5), (3, 5))
    with pytest.raises(ValueError, match="at least 1 position; got 0"):
        layer(kernel=0)
    with pytest.raises(ValueError, match="its mask is causal"):
        layer()(x(), mask=torch.ones(2, 1, 9, dtype=torch.bool))
