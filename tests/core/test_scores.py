"""Scores: fused as written out, in all variants; caps and sinks as transformers has them."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma2
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss

from attnbook.attention import Attention, Projection, attend, masked_softmax
from attnbook.cache import StaticCache
from attnbook.inside.watch import watch
from attnbook.masks import Grid, causal, local, padding
from attnbook.positions import Alibi, RelativeBias
from attnbook.scores import Score, repeat_kv

B, T, C, H, KV, D = 2, 6, 10, 4, 2, 5
THERE = torch.tensor([[False, False, True, True, True, True], [True] * 6])


def relative():
    made = RelativeBias(H, buckets=8, limit=5)
    nn.init.normal_(made.table)
    return made


def sunk(**options):
    made = Score(sinks=H, **options)
    nn.init.normal_(made.sinks)
    return made


SCORES = {
    "plain": Score,
    "scaled": lambda: Score(scale=0.3),
    "unscaled, relative": lambda: Score(scale=1.0, relative=relative()),
    "alibi": lambda: Score(relative=Alibi(H)),
    "capped": lambda: Score(cap=0.7),
    "sinks": sunk,
    "all but a cap": lambda: sunk(scale=0.4, relative=relative()),
    "all": lambda: sunk(scale=0.4, cap=0.5, relative=relative()),
}
MASKS = {
    "none": None,
    "causal": causal,
    "window": causal & local(2),
    "padding": causal & padding(THERE),
    "table": torch.rand(B, T, T, generator=torch.Generator().manual_seed(0)) < 0.6,
    "per head": torch.rand(1, H, T, T, generator=torch.Generator().manual_seed(0)) < 0.6,
}


def gradients(output, *inputs):
    loss = (output * torch.arange(output.numel()).view_as(output).sin()).sum()
    return torch.autograd.grad(loss, inputs)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_fused_is_written_out(score, mask):
    torch.manual_seed(0)
    layer = Attention(Projection(C, H, KV, D), nn.Linear(H * D, C), score=score()).double()
    x = torch.randn(B, T, C, dtype=torch.float64, requires_grad=True)
    output = layer(x, mask=mask)
    with watch(layer) as seen:
        expected = layer(x, mask=mask)
    assert_close(output, expected)
    every = (x, *layer.parameters())
    assert_close(gradients(output, *every), gradients(expected, *every))
    assert seen[""].shape == (B, H, T, T)


class Sizes(TorchDispatchMode):
    """How many numbers each tensor has that a call makes: no view, and nothing written in place."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        several = output if isinstance(output, (tuple, list)) else (output,)
        tensors = [x for x in several if isinstance(x, torch.Tensor)]
        if not func.is_view and not func._schema.is_mutable:
            self.made += [x.numel() for x in tensors]
        return output


@pytest.mark.parametrize("way", ["in one call", "folded"])
@pytest.mark.parametrize("Tq", [1, 3])
@pytest.mark.parametrize("mask", [name for name in MASKS if name != "none"])
@pytest.mark.parametrize(
    "score", [name for name in SCORES if "cap" not in name] + ["all but a cap"]
)
def test_shared_keys_are_read_as_copied_ones(score, mask, Tq, way, monkeypatch):
    torch.manual_seed(0)
    score, mask = SCORES[score](), MASKS[mask]
    mask = mask[..., -Tq:, :] if isinstance(mask, torch.Tensor) else mask
    q, k, v = (torch.randn(B, heads, t, 8) for heads, t in ((H, Tq), (KV, T), (KV, T)))
    monkeypatch.setattr("attnbook.scores.takes_gqa", lambda q: way == "in one call")
    with torch.no_grad():
        ours = score.fused(q, k, v, mask, Grid(B, Tq, T))
        copies = score.fused(q, repeat_kv(k, H), repeat_kv(v, H), mask, Grid(B, Tq, T))
    assert_close(ours, copies)


@pytest.mark.parametrize("way", ["in one call", "folded"])
def test_a_step_makes_nothing_as_large_as_its_keys(way, monkeypatch):
    monkeypatch.setattr("attnbook.scores.takes_gqa", lambda q: way == "in one call")
    cache = StaticCache(64)
    layer = Attention(Projection(32, 8, 2, 8), nn.Linear(64, 32)).eval()
    with torch.no_grad():
        layer(torch.randn(B, 9, 32), cache=cache)
        with Sizes() as seen:
            layer(torch.randn(B, 1, 32), cache=cache)
    assert max(seen.made) < B * 2 * 64 * 8  # numbers of its keys


class Owner(nn.Module):
    """What transformers' functions ask of their layer."""

    def __init__(self, sinks=None):
        super().__init__()
        self.num_key_value_groups, self.sinks, self.training = H // KV, sinks, False


def qkv():
    torch.manual_seed(1)
    return [torch.randn(B, heads, T, D) for heads in (H, KV, KV)]


def additive():
    return torch.zeros(T, T).masked_fill(~(torch.arange(T)[:, None] >= torch.arange(T)), -math.inf)


def test_a_cap_is_gemma_2s():
    q, k, v = qkv()
    layer = Attention(Projection(C, H, KV, D), nn.Identity(), score=Score(scale=0.4, cap=0.9))
    theirs, weights = gemma2(Owner(), q, k, v, additive()[None, None], scaling=0.4, softcap=0.9)
    with watch(layer) as seen:
        ours = layer.mix(q, k, v, causal, places())
    assert_close(ours.transpose(1, 2), theirs)
    assert_close(seen[""], weights)


def test_sinks_are_gpt_oss():
    q, k, v = qkv()
    layer = Attention(Projection(C, H, KV, D), nn.Identity(), score=sunk(scale=0.4))
    owner = Owner(layer.score.sinks)
    theirs, weights = gpt_oss(owner, q, k, v, additive()[None, None], scaling=0.4)
    assert_close(layer.mix(q, k, v, causal, places()).transpose(1, 2), theirs)
    with watch(layer) as seen:
        layer.mix(q, k, v, causal, places())
    assert_close(seen[""], weights)
    assert (seen[""].sum(-1) < 1).all()


def places():
    from attnbook.masks import Grid

    return Grid(B, T, T)


def test_a_sink_is_one_more_key_whose_weight_is_thrown_away():
    scores, sink = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5]])
    more = torch.tensor([[1.0, 2.0, 0.5]]).softmax(-1)
    assert_close(masked_softmax(scores, None, sink), more[:, :2])
    mask = torch.tensor([[True, False]])
    assert_close(masked_softmax(scores, mask, sink)[0, 0], 1 / (1 + torch.tensor(-0.5).exp()))
    assert (masked_softmax(scores, torch.zeros(1, 2).bool(), sink) == 0).all()


def test_causal_is_told_to_the_kernel_and_a_table_only_where_needed(monkeypatch):
    told = []
    kernel = nn.functional.scaled_dot_product_attention

    def spy(q, k, v, mask=None, is_causal=False, enable_gqa=False, **named):
        told.append((mask is not None, is_causal, enable_gqa))
        return kernel(q, k, v, mask, is_causal=is_causal, enable_gqa=enable_gqa, **named)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", spy)
    layer = Attention(Projection(C, H, KV, D), nn.Linear(H * D, C))
    windowed = Attention(Projection(C, H, KV, D), nn.Linear(H * D, C), pattern=local(3))
    x = torch.randn(B, T, C)
    layer(x), layer(x, mask=causal), layer(x[:, :1], mask=causal), layer(x, mask=causal & local(T))
    layer(x, mask=causal & local(2)), windowed(x[:, :3], mask=causal), windowed(x, mask=causal)
    assert told == [
        *[(False, False, True), (False, True, True), (False, False, True), (False, True, True)],
        *[(True, False, False), (False, True, True), (True, False, False)],
    ]
    with torch.no_grad():
        layer(x, mask=causal & local(2))
    assert told[-1] == (True, False, True)


def test_dropout_drops_weights_in_training_alone():
    torch.manual_seed(0)
    layer = Attention(Projection(C, H, KV, D), nn.Identity(), dropout=0.5)
    x = torch.randn(B, T, C)
    assert not torch.equal(layer(x), layer(x))
    mean = torch.stack([layer(x) for _ in range(400)]).mean(0)
    with watch(layer):
        watched = torch.stack([layer(x) for _ in range(400)]).mean(0)
    layer.eval()
    assert_close(mean, layer(x), atol=0.25, rtol=0)
    assert_close(watched, layer(x), atol=0.25, rtol=0)
    assert_close(layer(x), layer(x), atol=0, rtol=0)


def test_a_scale_of_zero_is_a_scale():
    q, k, v = torch.randn(3, 1, 2, 4, 8).unbind()
    score = Score(scale=0.0)
    expected = v.mean(2, keepdim=True).expand_as(v)
    assert_close(score.fused(q, k, v, None, Grid(1, 4, 4)), expected)
    assert_close(attend(q, k, v, score=score)[0], expected)
