import math

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
    MultiplicativeScores,
    attend,
    dot_scores,
    length_mask,
    masked_softmax,
    scaled_dot_scores,
)

B, Tq, Tk, D, Dv = 2, 3, 5, 7, 11


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


def test_additive_scores_are_the_papers_formula_pair_by_pair():
    q, k, _ = qkv()
    k = k[..., :4]
    score = AdditiveScores(query_width=D, key_width=4, width=6)
    W, U, v = score.from_query.weight, score.from_key.weight, score.to_score.weight[0]
    for b in range(B):
        for i in range(Tq):
            for j in range(Tk):
                by_hand = v @ torch.tanh(W @ q[b, i] + U @ k[b, j])
                assert_close(score(q, k)[b, i, j], by_hand)


def test_multiplicative_scores_are_q_W_k_pair_by_pair():
    q, k, _ = qkv()
    score = MultiplicativeScores(query_width=D, key_width=4)
    W = score.to_query.weight
    assert_close(score(q, k[..., :4]), torch.einsum("bid,de,bje->bij", q, W, k[..., :4]))


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


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    q, k, v = qkv()
    with pytest.raises(ValueError, match="width 7, keys have width 4"):
        attend(q, k[..., :4], v)
    for score in (AdditiveScores(D, 3, 4), MultiplicativeScores(D, 3)):
        with pytest.raises(ValueError, match="keys 7; this score was made for 7 and 3"):
            score(q, k)
    with pytest.raises(ValueError, match="5 keys but 4 values"):
        attend(q, k, v[:, :4])
    with pytest.raises(ValueError, match="boolean"):
        masked_softmax(torch.zeros(2, 3), torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"\(2, 4\) does not fit scores \(2, 3\)"):
        masked_softmax(torch.zeros(2, 3), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="length 3 does not fit into T = 2"):
        length_mask(torch.tensor([3]), 2)
