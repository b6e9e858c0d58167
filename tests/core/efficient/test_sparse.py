"""Patterns are their formulas, and what a pattern hides cannot be heard."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attnbook.attention import MultiHeadAttention, attend
from attnbook.cache import KVCache
from attnbook.efficient.sparse import Sparse, hubs, strided, window_attend
from attnbook.inside.watch import watch
from attnbook.masks import And, Or, causal, causal_mask, length_mask, local, pattern_mask
from attnbook.models.llama import llama

B, T, C, H, D, Dv = 2, 7, 12, 3, 5, 4


def picture(mask):
    return ["".join(".x"[int(seen)] for seen in row) for row in mask]


def test_patterns_by_hand():
    assert picture(pattern_mask(local(2), 4)) == ["xx..", "xxx.", ".xxx", "..xx"]
    assert picture(pattern_mask(strided(2), 4)) == ["x.x.", ".x.x", "x.x.", ".x.x"]
    assert picture(pattern_mask(hubs(1), 4)) == ["xxxx", "x...", "x...", "x..."]
    assert picture(pattern_mask(And(causal, local(2)), 4)) == ["x...", "xx..", ".xx.", "..xx"]
    longformer = Or(local(1), hubs(1))
    assert picture(pattern_mask(longformer, 4)) == ["xxxx", "xx..", "x.x.", "x..x"]


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 11))
def test_the_queries_are_the_last_positions(Tq, more, number):
    Tk = Tq + more
    assert torch.equal(pattern_mask(causal, Tq, Tk), causal_mask(Tq, Tk))
    for pattern in (local(number), strided(number), hubs(number)):
        assert torch.equal(pattern_mask(pattern, Tq, Tk), pattern_mask(pattern, Tk)[more:])


@given(st.integers(1, 20), st.integers(1, 20))
def test_how_many_pairs_are_left(T, n):
    window, stride, hub = (pattern_mask(p(n), T).sum() for p in (local, strided, hubs))
    reach = min(n, T) - 1
    assert window == T + 2 * sum(T - d for d in range(1, reach + 1))
    assert stride == T + 2 * sum(T - d for d in range(n, T, n))
    assert hub == T * T - max(0, T - n) ** 2


def test_in_two_steps_of_the_strided_pattern_all_of_the_past_is_heard():
    """Child et al. 2019: one step goes near, one goes far in strides, together everywhere."""
    T, stride = 16, 4
    near = pattern_mask(And(causal, local(stride)), T).float()
    far = pattern_mask(And(causal, strided(stride)), T).float()
    assert torch.equal(far @ near > 0, causal_mask(T))
    assert near.sum() + far.sum() < 0.8 * causal_mask(T).sum()


def layers(pattern):
    torch.manual_seed(0)
    plain = MultiHeadAttention(C, H)
    return plain, Sparse(plain, pattern), torch.randn(B, T, C)


@pytest.mark.parametrize("mask", [None, "causal", "length"])
def test_a_wrapped_attention_is_the_attention_with_both_masks(mask):
    pattern = Or(local(2), hubs(1))
    plain, sparse, x = layers(pattern)
    given = {
        None: None,
        "causal": causal_mask(T),
        "length": length_mask(torch.tensor([7, 2]))[:, None],
    }[mask]
    allowed = pattern_mask(pattern, T) if given is None else pattern_mask(pattern, T) & given
    assert_close(sparse(x, mask=given), plain(x, mask=allowed))


def test_far_padding_alone_is_zeros_and_not_nan():
    """A window over padding only: the row sees nothing."""
    plain, sparse, x = layers(local(2))
    output = sparse(x, mask=length_mask(torch.tensor([7, 2]))[:, None])
    assert_close(output[1, 5], plain.to_out.bias)
    assert output.isfinite().all()


def test_beyond_the_window_nothing_is_heard():
    _, sparse, x = layers(And(causal, local(3)))
    jacobian = (
        torch.autograd.functional.jacobian(lambda x: sparse(x)[0, :, 0], x)[:, 0].abs().sum(-1)
    )
    assert torch.equal(jacobian > 0, pattern_mask(And(causal, local(3)), T))


def test_watching_looks_inside():
    _, sparse, x = layers(local(2))
    with watch(sparse) as seen:
        sparse(x)
    assert (seen["attention"][..., ~pattern_mask(local(2), T)] == 0).all()


def test_in_pieces_with_a_cache_it_is_the_same():
    _, sparse, x = layers(And(causal, local(3)))
    cache = KVCache()
    with torch.no_grad():
        pieces = [sparse(piece, cache=cache) for piece in x.split([3, 1, 2, 1], 1)]
        assert_close(torch.cat(pieces, 1), sparse(x))


def test_a_llama_with_windows_is_transformers_mistral():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    reference = transformers.MistralForCausalLM(
        transformers.MistralConfig(
            vocab_size=13,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_key_value_heads=2,
            intermediate_size=10,
            rms_norm_eps=1e-6,
            sliding_window=3,
            rope_parameters={"rope_type": "default", "rope_theta": 50.0},
        )
    ).eval()
    with torch.no_grad():
        for weight in reference.parameters():
            weight.normal_(std=0.5)
    model = llama(13, 24, 2, 6, 2, 10, 50.0)
    copy = dict(reference.named_parameters())
    with torch.no_grad():
        model.embed.tokens.weight.copy_(copy["model.embed_tokens.weight"])
        model.body.norm.weight.copy_(copy["model.norm.weight"])
        model.lm_head.weight.copy_(copy["lm_head.weight"])
        for block, theirs in zip(model.body.blocks, reference.model.layers, strict=True):
            attention, part = theirs.self_attn, block.attention.sublayer
            qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
            part.project.to_qkv.weight.copy_(torch.cat([linear.weight for linear in qkv]))
            part.to_out.weight.copy_(attention.o_proj.weight)
            block.attention.norm.weight.copy_(theirs.input_layernorm.weight)
            block.feedforward.norm.weight.copy_(theirs.post_attention_layernorm.weight)
            for name in ("gate", "up", "down"):
                weight = getattr(theirs.mlp, f"{name}_proj").weight
                getattr(block.feedforward.sublayer, name).weight.copy_(weight)
            block.attention.sublayer = Sparse(part, local(3))
    tokens = torch.randint(13, (2, 9))
    expected = reference(tokens).logits
    assert_close(model(tokens), expected, atol=1e-5, rtol=1e-5)
    for block in model.body.blocks:
        block.attention.sublayer = block.attention.sublayer.attention
    assert not torch.allclose(model(tokens), expected, atol=0.1)


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 14), st.integers(0, 10**6))
def test_a_window_in_chunks_is_the_masked_attention(T, window, seed):
    g = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(B, H, T, D, generator=g).requires_grad_() for _ in range(2))
    v = torch.randn(B, H, T, Dv, generator=g).requires_grad_()
    ours = window_attend(q, k, v, window)
    theirs, _ = attend(q, k, v, pattern_mask(And(causal, local(window)), T))
    assert_close(ours, theirs)
    grads = [torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (ours, theirs)]
    assert_close(*grads)


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="window is 0; a whole number"):
        local(0)
    with pytest.raises(ValueError, match="stride is 0; a whole number"):
        strided(0)
    with pytest.raises(ValueError, match="the number of hubs is -2; a whole number"):
        hubs(-2)
    with pytest.raises(ValueError, match="5 queries cannot be the last of 3"):
        pattern_mask(causal, 5, 3)
    with pytest.raises(ValueError, match="window is 0; a whole number"):
        window_attend(*torch.ones(3, 2, 2), 0)
    _, sparse, x = layers(causal)
    with pytest.raises(ValueError, match=r"mask \(5, 5\) does not fit scores \(2, 7, 7\)"):
        sparse(x, mask=causal_mask(5))
