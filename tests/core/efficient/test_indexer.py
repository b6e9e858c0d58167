"""A cheap indexer chooses keys: as DeepSeek's, trained by KL, and exact where it chooses all."""

import pytest
import torch
from torch.nn import functional as F

from attnbook.attention import MultiHeadAttention, attend
from attnbook.efficient.indexer import (
    IndexedAttention,
    IndexedCache,
    Indexer,
    attend_to,
    best,
    indexer_loss,
    only,
)
from attnbook.generate.sampling import generate
from attnbook.masks import causal, causal_mask, padding
from attnbook.models.llama import llama
from attnbook.positions import Rotary

WIDTH = 12


def x(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def indexer(rotate=None):
    torch.manual_seed(1)
    return Indexer(WIDTH, 3, 4, rotate)


def test_the_choice_is_transformers():
    theirs = pytest.importorskip("transformers.models.glm_moe_dsa.modeling_glm_moe_dsa")
    config = theirs.GlmMoeDsaConfig(
        hidden_size=WIDTH, index_n_heads=3, index_head_dim=4, index_topk=5, q_lora_rank=WIDTH,
        qk_rope_head_dim=2, num_hidden_layers=1,
    )  # fmt: skip
    ours, theirs = indexer(), theirs.GlmMoeDsaIndexer(config, 0)
    pairs = [
        (theirs.wq_b.weight, ours.to_q.weight), (theirs.wk.weight, ours.to_k.weight),
        (theirs.k_norm.weight, ours.norm.weight), (theirs.k_norm.bias, ours.norm.bias),
        (theirs.weights_proj.weight, ours.to_weights.weight),
    ]  # fmt: skip
    with torch.no_grad():
        for i, (their, our) in enumerate(pairs):
            our.copy_(x(*our.shape, seed=i)), their.copy_(our)
    given, still = x(2, 9, WIDTH), (torch.ones(2, 9, 2), torch.zeros(2, 9, 2))  # turned by 0
    allowed = causal_mask(9).expand(2, 9, 9)
    expected = theirs(given, given, still, allowed, torch.arange(9)[None])
    found = best(ours(given, ours.keys(given)), 5, allowed)
    assert torch.equal(only(found, 9), only(expected.long(), 9) & allowed)


def test_scores_by_the_formula():
    made, given = indexer(Rotary(4)), x(2, 5, WIDTH)
    scores, keys = made(given, made.keys(given)), made.keys(given)
    q = Rotary(4)(made.to_q(given).view(2, 5, 3, 4).transpose(1, 2), 0)
    for i in range(5):
        for j in range(5):
            each = torch.stack(
                [F.relu((q[:, h, i] * keys[:, j]).sum(-1) / 2) for h in range(3)], -1
            )
            expected = (made.to_weights(given[:, i]) / 3**0.5 * each).sum(-1)
            assert torch.allclose(scores[:, i, j], expected, atol=1e-6)


def test_the_best_of_the_allowed():
    scores = torch.tensor([[[1.0, 9.0, 3.0, 2.0], [4.0, 1.0, 9.0, 9.5]]])
    allowed = torch.tensor([[True, False, False, False], [True, True, True, False]])
    index = best(scores, 2, allowed)
    assert index.tolist() == [[[0, -1], [2, 0]]]
    assert only(index, 4).int().tolist() == [[[1, 0, 0, 0], [1, 0, 1, 0]]]


@pytest.mark.parametrize("count", [1, 3, 9])
def test_gathered_keys_are_masked_keys(count):
    q, k, v = (x(2, 3, 9, n, seed=n).requires_grad_() for n in (4, 4, 5))
    v = x(2, 3, 9, 5, seed=8).requires_grad_()
    index = best(x(2, 9, 9), count, causal_mask(9))
    one = attend_to(q, k, v, index)
    two, _ = attend(q, k, v, only(index, 9)[:, None])
    assert torch.allclose(one, two, atol=1e-6)
    slopes = [torch.autograd.grad(y.square().sum(), (q, k, v)) for y in (one, two)]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*slopes, strict=True))


def test_the_loss_is_torchs_divergence_and_trains_the_indexer_alone():
    scores, weights = x(2, 5, 5).requires_grad_(), x(2, 3, 5, 5, seed=1).requires_grad_()
    shares = weights.softmax(-1)
    expected = F.kl_div(scores.log_softmax(-1), shares.mean(1).detach(), reduction="sum") / 10
    loss = indexer_loss(scores, shares)
    assert torch.allclose(loss, expected)
    loss.backward()
    assert scores.grad.abs().sum() > 0 and weights.grad is None


def test_hidden_keys_do_not_count():
    hidden, allowed = x(2, 3, 5, 5), causal_mask(5)
    weights = hidden.masked_fill(~allowed, -torch.inf).softmax(-1)
    scores = x(2, 5, 5, seed=1).requires_grad_()
    loss = indexer_loss(scores, weights, allowed)
    loss.backward()
    assert loss.isfinite() and scores.grad.isfinite().all()
    assert not scores.grad[:, ~allowed].any()
    exact = weights.sum(1).log().masked_fill(~allowed, 7.0)
    assert indexer_loss(exact, weights, allowed).abs() < 1e-6


def test_it_learns_what_the_attention_sees():
    """Trained on the attention's weights, 3 of 16 keys hold most of them; untrained, few."""
    torch.manual_seed(0)
    made = Indexer(8, 4, 8)
    W = 1.5 * torch.randn(8, 8)

    def batch():
        given = torch.randn(16, 16, 8)
        return given, (given @ W @ given.mT / 8**0.5).softmax(-1)[:, None]

    def held():
        given, weights = batch()
        return (weights[:, 0] * only(best(made(given, made.keys(given)), 3), 16)).sum(-1).mean()

    before, optimizer = held(), torch.optim.Adam(made.parameters(), lr=0.02)
    for _ in range(150):
        given, weights = batch()
        loss = indexer_loss(made(given, made.keys(given)), weights)
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    assert held() > before + 0.2


def model(count):
    torch.manual_seed(2)
    made = llama(V=11, width=WIDTH, depth=2, heads=3, hidden=20)
    for block in made.body.blocks:
        block.attention.sublayer = IndexedAttention(
            block.attention.sublayer, Indexer(WIDTH, 2, 4, Rotary(4)), count
        )
    return made


def test_choosing_all_is_the_attention_itself():
    attention = MultiHeadAttention(WIDTH, 3, rotate=Rotary(4))
    wrapped, given = IndexedAttention(attention, indexer(), 50), x(2, 7, WIDTH)
    there = torch.tensor([[False] * 2 + [True] * 5, [True] * 7])
    for mask in (causal, causal_mask(7), causal & padding(there)):
        assert torch.allclose(wrapped(given, mask=mask), attention(given, mask=mask), atol=1e-6)


def test_it_writes_the_same_with_its_cache():
    made, start = model(3), torch.tensor([[3, 1, 4], [1, 5, 9]])
    assert all(isinstance(cache, IndexedCache) for cache in made.caches())
    assert torch.equal(generate(made, start, 8), generate(made, start, 8, cached=False))
    caches = made.caches()
    whole = made(torch.tensor([[3, 1, 4, 1, 5]]), caches)
    for cache in caches:
        cache.cut(3)
    again = made(torch.tensor([[1, 5]]), caches)
    assert torch.allclose(again, whole[:, 3:], atol=1e-5)


def test_the_indexer_is_trained_by_its_loss_alone():
    made = model(3)
    made(torch.tensor([[3, 1, 4, 1, 5]])).sum().backward()
    assert all(weight.grad is None for name, weight in made.named_parameters() if "indexer" in name)
    layer = made.body.blocks[0].attention.sublayer
    indexer_loss(layer.scores, x(1, 3, 5, 5).softmax(-1), causal_mask(5)).backward()
    assert layer.indexer.to_q.weight.grad.abs().sum() > 0


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 1 key; got 0"):
        best(x(1, 2, 2), 0)
    with pytest.raises(ValueError, match="at least 1 head of width 1; got 0"):
        Indexer(WIDTH, 0, 4)
