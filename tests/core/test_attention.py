import copy
import math
from contextlib import nullcontext

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.attention import (
    AdditiveScores,
    MultiHeadAttention,
    attend,
    dot_scores,
    masked_softmax,
    scaled_dot_scores,
)
from attnbook.cache import KVCache
from attnbook.inside.watch import watch
from attnbook.masks import causal, causal_mask, length_mask, local
from attnbook.positions import Alibi, RelativeBias, Rotary

B, Tq, Tk, D, Dv = 2, 3, 5, 7, 11
C, H = 24, 4  # heads of width 6


def qkv():
    torch.manual_seed(0)
    return torch.randn(B, Tq, D), torch.randn(B, Tk, D), torch.randn(B, Tk, Dv)


def some_mask():
    mask = torch.rand(B, Tq, Tk) < 0.5
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("masked", [False, True])
def test_attend_is_torchs_scaled_dot_product_attention(masked):
    q, k, v = qkv()
    mask = some_mask() if masked else None
    assert_close(attend(q, k, v, mask)[0], F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def test_gradients_are_torchs_too():
    ours, theirs = ([x.double().requires_grad_() for x in qkv()] for _ in range(2))
    mask = some_mask()
    attend(*ours, mask)[0].square().sum().backward()
    F.scaled_dot_product_attention(*theirs, attn_mask=mask).square().sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a.grad, b.grad)


def test_boolean_mask_means_the_opposite_in_multihead_attention():
    q, k, v = torch.randn(3, B, Tk, D).unbind(0)
    layer = nn.MultiheadAttention(D, 1, bias=False, batch_first=True)
    layer.in_proj_weight.data = torch.eye(D).repeat(3, 1)
    layer.out_proj.weight.data = torch.eye(D)
    mask = torch.ones(Tk, Tk, dtype=torch.bool).tril()
    assert_close(attend(q, k, v, mask)[0], layer(q, k, v, attn_mask=~mask)[0])


def test_two_keys_by_hand():
    q, k, v = torch.tensor([[2.0]]), torch.tensor([[0.0], [math.log(3) / 2]]), torch.eye(2)
    assert_close(attend(q, k, v)[0], torch.tensor([[0.25, 0.75]]))


def test_a_batch_is_its_rows_attended_one_by_one():
    q, k, v = qkv()
    alone, _ = attend(q[1], k[1], v[1])
    many, _ = attend(q, k, v)
    assert_close(alone, many[1])


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_rows_sum_to_one_or_are_zero_and_masked_weights_are_zero(Tq, Tk, seed):
    g = torch.Generator().manual_seed(seed)
    scores = 30 * torch.randn(Tq, Tk, generator=g)
    mask = torch.rand(Tq, Tk, generator=g) < 0.5
    weights = masked_softmax(scores, mask)
    assert (weights >= 0).all() and (weights[~mask] == 0).all()
    assert_close(weights.sum(-1), mask.any(-1).float())


def test_a_query_that_may_see_nothing_gets_zeros_and_sends_no_gradient():
    q, k, v = (x.requires_grad_() for x in qkv())
    mask = torch.ones(B, Tq, Tk, dtype=torch.bool)
    mask[0, 1] = False
    output, weights = attend(q, k, v, mask)
    assert (output[0, 1] == 0).all() and (weights[0, 1] == 0).all()
    output.sum().backward()
    assert (q.grad[0, 1] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    with torch.autograd.set_detect_anomaly(True):  # nor is NaN anywhere on the way
        attend(q, k, v, mask)[0].sum().backward()


def test_what_is_masked_cannot_influence_the_output():
    q, k, v = qkv()
    mask = length_mask(torch.tensor([2, 4]), Tk)[:, None]
    before = attend(q, k, v, mask)[0]
    k[0, 2:], v[0, 2:] = 99.0, torch.nan_to_num(torch.full_like(v[0, 2:], 1e30))
    assert_close(attend(q, k, v, mask)[0], before)


@pytest.mark.parametrize("score", [scaled_dot_scores, dot_scores, AdditiveScores(D, D, 4)])
def test_permuting_keys_and_values_together_changes_nothing(score):
    q, k, v = qkv()
    order = torch.tensor([3, 0, 4, 1, 2])
    assert_close(
        attend(q, k, v, score=score)[0], attend(q, k[:, order], v[:, order], score=score)[0]
    )


def test_attention_is_linear_in_the_values():
    q, k, v = qkv()
    w = torch.randn_like(v)
    assert_close(attend(q, k, 2 * v - w)[0], 2 * attend(q, k, v)[0] - attend(q, k, w)[0])


def test_unscaled_scores_grow_like_the_root_of_the_width():
    torch.manual_seed(0)
    for D in (4, 64, 256):
        q, k = torch.randn(2, 4000, 1, D).unbind(0)
        assert dot_scores(q, k).std() / math.sqrt(D) == pytest.approx(1, rel=0.1)
        assert scaled_dot_scores(q, k).std() == pytest.approx(1, rel=0.1)


def test_length_mask_counts():
    mask = length_mask(torch.tensor([2, 0, 3]))
    assert mask.tolist() == [[True, True, False], [False] * 3, [True] * 3]
    assert length_mask(torch.tensor([2]), 5).shape == (1, 5)


def test_causal_mask_by_hand():
    assert causal_mask(2).tolist() == [[True, False], [True, True]]
    assert causal_mask(2, 3).tolist() == [[True, True, False], [True, True, True]]


# Several heads


def layer_and_inputs(seed=0, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    layer = MultiHeadAttention(C, H, **options).to(dtype)
    x = torch.randn(B, Tq, C, dtype=dtype, requires_grad=True)
    return layer, x, torch.randn(B, Tk, C, dtype=dtype, requires_grad=True)


def torchs(layer):
    """torch's layer with the same weights."""
    reference = nn.MultiheadAttention(C, H, batch_first=True).to(layer.to_out.weight.dtype)
    reference.in_proj_weight.data = layer.to_qkv.weight.data.clone()
    reference.in_proj_bias.data = layer.to_qkv.bias.data.clone()
    reference.out_proj.load_state_dict(layer.to_out.state_dict())
    return reference


def gradients(output, *inputs):
    """Of a loss that no symmetry makes 0, by every input."""
    loss = (output * torch.arange(output.numel()).view_as(output).sin()).sum()
    return torch.autograd.grad(loss, inputs)


def relative_bias(heads=H):
    bias = RelativeBias(heads, buckets=8, limit=5)
    nn.init.normal_(bias.table)
    return bias


VARIANTS = {
    "plain": dict,
    "grouped": lambda: {"kv_heads": 2},
    "rotary": lambda: {"rotate": Rotary(C // H)},
    "relative": lambda: {"relative": relative_bias()},
    "alibi": lambda: {"relative": Alibi(H)},
    "all, no bias": lambda: {
        "kv_heads": 2,
        "rotate": Rotary(C // H),
        "relative": relative_bias(),
        "bias": False,
    },
}
variants = pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("cross", [False, True])
def test_many_heads_are_a_loop_over_single_ones(cross, kv_heads):
    layer, x, memory = layer_and_inputs(kv_heads=kv_heads)
    memory = memory if cross else x
    mask = torch.rand(B, Tq, memory.shape[1]) < 0.5
    d, shared = C // H, H // kv_heads
    W, b = layer.to_qkv.weight, layer.to_qkv.bias
    outputs = []
    for head in range(H):
        of_q = slice(head * d, (head + 1) * d)
        of_k = slice(C + head // shared * d, C + (head // shared + 1) * d)
        of_v = slice(of_k.start + kv_heads * d, of_k.stop + kv_heads * d)
        q = x @ W[of_q].T + b[of_q]
        k, v = (memory @ W[part].T + b[part] for part in (of_k, of_v))
        outputs.append(attend(q, k, v, mask)[0])
    expected = layer.to_out(torch.cat(outputs, -1))
    output = layer(x, memory if cross else None, mask)
    assert_close(output, expected)
    every = (x, memory, *layer.parameters()) if cross else (x, *layer.parameters())
    assert_close(gradients(output, *every), gradients(expected, *every))


@pytest.mark.parametrize("kind", ["all", "causal", "padding", "cross"])
def test_many_heads_are_torchs_whose_masks_mean_the_opposite(kind):
    layer, x, memory = layer_and_inputs(dtype=torch.float32)
    theirs = torchs(layer)
    there = length_mask(torch.tensor([2, Tk]), Tk)
    x, given, mask, named = {
        "all": (x, x, None, {}),
        "causal": (x, x, causal_mask(Tq), {"attn_mask": ~causal_mask(Tq)}),
        "padding": (memory, memory, there[:, None], {"key_padding_mask": ~there}),
        "cross": (x, memory, there[:, None], {"key_padding_mask": ~there}),
    }[kind]
    with watch(layer) as seen:
        layer(x, given, mask)
    output = layer(x, None if given is x else given, mask)
    expected, weights = theirs(x, given, given, average_attn_weights=False, **named)
    assert_close(output, expected)
    assert_close(seen[""], weights)
    every = [x] if given is x else [x, given]
    mine = gradients(output, *every, *layer.parameters())
    assert_close(mine, gradients(expected, *every, *theirs.parameters()))


@variants
def test_watched_attention_is_the_fused_one(options):
    layer, x, _ = layer_and_inputs(**options())
    some = torch.rand(B, Tq, Tq) < 0.6
    some[1, 2] = False
    for mask in (None, some, causal_mask(Tq), torch.tensor([True, False, True])):
        output = layer(x, mask=mask)
        with watch(layer):
            seen = layer(x, mask=mask)
        assert_close(output, seen)
        every = (x, *layer.parameters())
        assert_close(gradients(output, *every), gradients(seen, *every))


@variants
def test_a_query_that_may_see_nothing_gives_the_bias_of_to_out(options):
    layer, x, _ = layer_and_inputs(**options())
    mask = torch.ones(B, Tq, Tq, dtype=torch.bool)
    mask[0, 1] = False
    output = layer(x, mask=mask)
    bias = 0 if layer.to_out.bias is None else layer.to_out.bias
    assert_close(output[0, 1], torch.zeros(C, dtype=x.dtype) + bias)
    assert all(gradient.isfinite().all() for gradient in gradients(output, x, *layer.parameters()))


def test_shared_keys_are_the_same_keys_several_times():
    grouped, x, memory = layer_and_inputs(kv_heads=2)

    def repeated(rows):
        return rows.unflatten(0, (2, -1)).repeat_interleave(H // 2, 0).flatten(0, 1)

    layer = MultiHeadAttention(C, H).double()
    layer.to_out.load_state_dict(grouped.to_out.state_dict())
    for name, theirs in grouped.to_qkv.named_parameters():
        q, k, v = theirs.data.split(grouped.widths)
        getattr(layer.to_qkv, name).data = torch.cat((q, repeated(k), repeated(v)))
    assert_close(layer(x, memory), grouped(x, memory))
    q, *of_k_and_v = by_weight(grouped, x, memory).split(grouped.widths)
    alone, *of_heads = by_weight(layer, x, memory).split(C)
    assert_close(alone, q)
    for shared, each in zip(of_k_and_v, of_heads, strict=True):
        assert_close(each.unflatten(0, (2, H // 2, -1)).sum(1).flatten(0, 1), shared)


def by_weight(layer, x, memory):
    return gradients(layer(x, memory), layer.to_qkv.weight)[0]


def test_one_product_for_all_is_three_products():
    layer, x, _ = layer_and_inputs(kv_heads=2)
    assert_close(layer(x), layer(x, x))
    for mine, apart in zip(layer.project(x), layer.project(x, x), strict=True):
        assert_close(mine, apart)


SHAPES = st.tuples(*(st.sampled_from((1, size)) for size in (B, Tq, Tk)))


@settings(max_examples=60)
@given(SHAPES, st.integers(0, 3), st.sampled_from(sorted(VARIANTS)), st.integers(0, 10**6))
def test_a_mask_of_any_shape_that_broadcasts_is_the_full_one(shape, axes, variant, seed):
    layer, x, memory = layer_and_inputs(seed, **VARIANTS[variant]())
    mask = torch.rand(shape[3 - axes :]) < 0.6
    expected = layer(x, memory, mask.expand(B, Tq, Tk))
    assert_close(layer(x, memory, mask), expected)
    with watch(layer) as seen:
        assert_close(layer(x, memory, mask), expected)
    sees_something = mask.expand(B, Tq, Tk).any(-1)[:, None].expand(B, H, Tq)
    assert_close(seen[""].sum(-1), sees_something.double())


@settings(max_examples=30)
@given(st.permutations(range(Tk)), st.integers(0, 10**6))
def test_without_positions_self_attention_moves_with_its_tokens(order, seed):
    layer, _, x = layer_and_inputs(seed)
    assert_close(layer(x[:, order]), layer(x)[:, order])
    mask = torch.rand(B, Tk, Tk) < 0.5
    moved = layer(x[:, order], mask=mask[:, order][:, :, order])
    assert_close(moved, layer(x, mask=mask)[:, order])


@variants
def test_the_future_cannot_leak(options):
    layer, _, x = layer_and_inputs(**options())
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, mask=causal_mask(Tk)), x[:1])
    influence = jacobian[0, :, :, 0].abs().amax((1, 3))  # (Tk Tk): of a key on a query
    assert ((influence > 0) == causal_mask(Tk)).all()


@settings(max_examples=40)
@given(st.data())
def test_attention_in_pieces_with_a_cache_is_attention_at_once(data):
    options = VARIANTS[data.draw(st.sampled_from(sorted(VARIANTS)))]()
    layer, _, _ = layer_and_inputs(data.draw(st.integers(0, 10**6)), **options)
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    x = torch.randn(B, sum(sizes), C, dtype=torch.float64)
    there = length_mask(torch.tensor([len(sizes), sum(sizes)]), sum(sizes))[:, None]
    cache, outputs, length = KVCache(), [], 0
    with torch.no_grad():
        for piece in x.split(sizes, 1):
            length += piece.shape[1]
            mask = causal_mask(piece.shape[1], length) & there[..., :length]
            outputs.append(layer(piece, mask=mask, cache=cache))
        assert_close(torch.cat(outputs, 1), layer(x, mask=causal_mask(length) & there))


def test_gradients_are_those_of_finite_differences():
    layer, x, memory = layer_and_inputs(kv_heads=2, relative=relative_bias())
    mask = some_mask()
    mask[0, 0] = False
    assert torch.autograd.gradcheck(lambda x, memory: layer(x, memory, mask), (x, memory))
    with watch(layer):
        assert torch.autograd.gradcheck(lambda x, memory: layer(x, memory, mask), (x, memory))
    q, k, v = (given.double().requires_grad_() for given in qkv())
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, mask), (q, k, v))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@variants
def test_in_half_precision_a_query_that_sees_nothing_is_still_zeros(options, dtype):
    layer, x, memory = layer_and_inputs(dtype=torch.float32, **options())
    mask = some_mask()
    mask[0, 1] = False
    expected = layer(x, memory, mask)
    nothing = torch.zeros(C) if layer.to_out.bias is None else layer.to_out.bias.to(dtype).float()
    half = copy.deepcopy(layer).to(dtype)
    for run, precision in ((half, None), (layer, torch.autocast("cpu", dtype=dtype))):
        for context in (nullcontext(), watch(run)):
            with context as seen, precision or nullcontext():
                inputs = (x, memory) if precision else (x.to(dtype), memory.to(dtype))
                output = run(*inputs, mask)
            assert output.dtype == dtype
            assert_close(output.float(), expected, atol=0.03, rtol=0)
            assert_close(output[0, 1].float(), nothing)
            found = gradients(output, *inputs, *run.parameters())
            assert all(gradient.isfinite().all() for gradient in found)
            assert seen is None or (seen[""][0, :, 1] == 0).all()


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    q, k, v = qkv()
    with pytest.raises(ValueError, match="width 7, keys have width 4"):
        attend(q, k[..., :4], v)
    with pytest.raises(ValueError, match="5 keys but 4 values"):
        attend(q, k, v[:, :4])
    with pytest.raises(ValueError, match="boolean"):
        masked_softmax(torch.zeros(2, 3), torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"\(2, 4\) does not fit scores \(2, 3\)"):
        masked_softmax(torch.zeros(2, 3), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="length 3 does not fit into T = 2"):
        length_mask(torch.tensor([3]), 2)
    with pytest.raises(ValueError, match="3 queries cannot be the last of 2 positions"):
        causal_mask(3, 2)


def test_bad_input_to_many_heads_is_named_before_any_work(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for heads, kv_heads, message in [
        (5, None, "width 24 does not divide into 5 heads"),
        (0, None, "width 24 does not divide into 0 heads"),
        (6, 4, "6 query heads cannot share 4 key heads"),
        (3, 0, "3 query heads cannot share 0 key heads"),
    ]:
        with pytest.raises(ValueError, match=message):
            MultiHeadAttention(C, heads, kv_heads)
    layer, x, memory = layer_and_inputs()
    monkeypatch.setattr(layer.project, "to_qkv", None)  # any work would be a TypeError
    cache = KVCache()
    cache.length = 4
    for inputs, message in [
        ((x[..., :7],), "x has width 7, this layer has width 24"),
        ((x, memory[..., :7]), "memory has width 7, this layer has width 24"),
        ((x, memory[:1]), "2 sequences look at a memory of 1"),
        ((x, memory, torch.ones(Tq, Tk)), "a mask is boolean.*float32"),
        ((x, memory, causal_mask(Tq)), r"mask \(3, 3\) does not fit scores \(2, 3, 5\)"),
        ((x, None, causal_mask(Tq), cache), r"mask \(3, 3\) does not fit scores \(2, 3, 7\)"),
        ((x, memory[:, :2], causal), "3 queries cannot be the last of 2 positions"),
        ((x, memory[:, :2], causal & local(9)), "3 queries cannot be the last of 2 positions"),
        ((x, None, torch.ones(1, 2, Tq, Tq).bool()), r"mask \(1, 2, 3, 3\) does not fit scores"),
    ]:
        with pytest.raises(ValueError, match=message):
            layer(*inputs)
    rotary, x, _ = layer_and_inputs(rotate=Rotary(8))
    with pytest.raises(ValueError, match="heads have width 6, this rotation has width 8"):
        rotary(x)
    rotary, x, _ = layer_and_inputs(rotate=Rotary(4))
    for wrong, shape in [(torch.arange(1), r"\(1,\)"), (torch.zeros(3, Tq).long(), r"\(3, 3\)")]:
        with pytest.raises(ValueError, match=rf"positions {shape} do not fit tokens \(2, 3\)"):
            rotary(x, positions=wrong)
