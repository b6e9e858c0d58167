"""Projections: fused as apart, widths of their own, norms apart, wrapped linear maps, gates."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.attention import (
    AcrossHeads,
    Attention,
    MultiHeadAttention,
    Projection,
    SigmoidGate,
    SplitProjection,
)
from attnbook.norms import RMSNorm

B, Tq, Tk, C, H, KV, D = 2, 3, 5, 12, 4, 2, 7


def parts(made):
    """The fused map's rows as three maps."""
    linears = [nn.Linear(C, width, bias=made.to_qkv.bias is not None) for width in made.widths]
    for name in dict(made.to_qkv.named_parameters()):
        pieces = getattr(made.to_qkv, name).split(made.widths)
        for linear, piece in zip(linears, pieces, strict=True):
            getattr(linear, name).data = piece.detach().clone()
    return linears


def norms(width):
    made = RMSNorm(width), RMSNorm(width)
    for norm in made:
        nn.init.normal_(norm.weight)
    return made


@pytest.mark.parametrize("cross", [False, True])
def test_a_fused_projection_is_three_maps_with_norms_apart(cross):
    x, memory = torch.randn(B, Tq, C), torch.randn(B, Tk, C)
    given = (x, memory) if cross else (x,)
    fused = Projection(C, H, KV, D, True, *norms(D))
    split = SplitProjection(H, *parts(fused), fused.q_norm, fused.k_norm)
    assert (split.heads, split.kv_heads, split.D) == (H, KV, D)
    for mine, apart in zip(fused(*given), split(*given), strict=True):
        assert_close(mine, apart)
    q, k, v = fused(*given)
    assert [part.shape[1] for part in (q, k, v)] == [H, KV, KV] and q.shape[-1] == D
    raw = split.to_q(x).view(B, Tq, H, D).transpose(1, 2)
    assert_close(q, fused.q_norm(raw))


def test_a_norm_across_heads_sees_all_of_them():
    fused = Projection(
        C, H, KV, D, False, AcrossHeads(RMSNorm(H * D)), AcrossHeads(RMSNorm(KV * D))
    )
    q, k, _ = fused(torch.randn(B, Tq, C))
    for part in (q, k):
        whole = part.transpose(1, 2).flatten(2).square().mean(-1)
        assert_close(whole, torch.ones(B, Tq), atol=1e-3, rtol=0)


def test_memory_and_values_may_have_widths_of_their_own():
    project = SplitProjection(H, nn.Linear(C, H * D), nn.Linear(9, KV * D), nn.Linear(9, KV * 3))
    layer = Attention(project, nn.Linear(H * 3, C))
    memory = torch.randn(B, Tk, 9)
    assert layer(torch.randn(B, Tq, C), memory).shape == (B, Tq, C)
    with pytest.raises(ValueError, match="memory has width 12, this layer has width 9"):
        layer(torch.randn(B, Tq, C), torch.randn(B, Tk, C))


class Adapted(nn.Module):
    """A linear map and a thin product beside it, as peft wraps one."""

    def __init__(self, base, rank=2):
        super().__init__()
        self.base_layer = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base_layer(x) + self.up(self.down(x))


@pytest.mark.parametrize("cross", [False, True])
def test_an_adapter_around_the_map_works_to_itself_and_to_a_memory(cross):
    layer = MultiHeadAttention(C, H)
    x, memory = torch.randn(B, Tq, C), torch.randn(B, Tk, C)
    given = (x, memory) if cross else (x,)
    before = layer(*given)
    layer.to_qkv = Adapted(layer.to_qkv)  # as well as layer.project.to_qkv
    assert isinstance(layer.project.to_qkv, Adapted) and "to_qkv" not in dict(
        layer.named_children()
    )
    adapted = layer(*given)
    assert (adapted - before).abs().max() > 1e-3
    adapted.sum().backward()
    assert layer.to_qkv.up.weight.grad.abs().max() > 0
    merged = MultiHeadAttention(C, H)
    merged.to_out.load_state_dict(layer.to_out.state_dict())
    wrapped = layer.to_qkv
    merged.to_qkv.weight.data = wrapped.base_layer.weight + wrapped.up.weight @ wrapped.down.weight
    merged.to_qkv.bias.data = wrapped.base_layer.bias.data
    assert_close(merged(*given), adapted)


def test_torchs_dynamic_quantisation_goes_through_to_a_memory():
    layer = MultiHeadAttention(C, H).eval()
    small = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear}, dtype=torch.qint8)
    assert type(small.to_qkv) is not nn.Linear
    x, memory = torch.randn(B, Tq, C), torch.randn(B, Tk, C)
    assert_close(small(x, memory), layer(x, memory), atol=0.05, rtol=0)


@pytest.mark.parametrize("gates", [H, H * D])
def test_a_gate_closes_heads_or_channels(gates):
    project = Projection(C, H, KV, D)
    layer = Attention(project, nn.Identity(), gate=SigmoidGate(C, gates, bias=True))
    plain = Attention(project, nn.Identity())
    x = torch.randn(B, Tq, C)
    share = layer.gate.to_gate(x).sigmoid().repeat_interleave(H * D // gates, -1)
    assert_close(layer(x), plain(x) * share)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="width 12 does not divide into 5 heads"):
        Projection(C, 5)
    assert Projection(C, 5, D=3).widths == [15, 15, 15]
    for wrong in (0, -4):
        with pytest.raises(ValueError, match=f"head width D is {wrong}; a whole number, 1 or more"):
            Projection(8, 2, D=wrong)
    with pytest.raises(ValueError, match="4 query heads cannot share 3 key heads"):
        Projection(C, H, 3)
    linear = nn.Linear
    for maps, message in [
        ((linear(C, 9), linear(C, 8), linear(C, 8)), "queries of 9 do not divide into 4 heads"),
        ((linear(C, 8), linear(C, 7), linear(C, 8)), "keys of 7 do not divide into heads of 2"),
        ((linear(C, 8), linear(C, 4), linear(9, 4)), "values of 9 → 4 do not go with"),
    ]:
        with pytest.raises(ValueError, match=message):
            SplitProjection(H, *maps)
    with pytest.raises(ValueError, match="28 channels do not divide among 5 gates"):
        SigmoidGate(C, 5)(torch.randn(B, Tq, 28), torch.randn(B, Tq, C))
