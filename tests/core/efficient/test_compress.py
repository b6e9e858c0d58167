"""Entries for the far past: as DeepSeek-V4's, seen from their last token on, and cached."""

import pytest
import torch

from attnbook.efficient.compress import Compress, CompressedAttention
from attnbook.generate.sampling import generate
from attnbook.masks import causal, local
from attnbook.models.llama import llama
from attnbook.positions import Rotary

WIDTH = 12


def x(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(rotate=None, window=4):
    torch.manual_seed(1)
    made = CompressedAttention(WIDTH, 3, 6, rate=3, window=window, rotate=rotate)
    torch.nn.init.normal_(made.compress.place)
    return made


def test_entries_are_transformers(monkeypatch):
    theirs = pytest.importorskip("transformers.models.deepseek_v4.modeling_deepseek_v4")
    monkeypatch.setattr(theirs, "apply_rotary_pos_emb", lambda x, cos, sin: x)
    rates = {"heavily_compressed_attention": 3, "compressed_sparse_attention": 3}
    config = theirs.DeepseekV4Config(hidden_size=WIDTH, head_dim=6, compress_rates=rates)
    other, ours = theirs.DeepseekV4HCACompressor(config), layer().compress
    with torch.no_grad():
        other.kv_proj.weight.copy_(ours.to_value.weight)
        other.gate_proj.weight.copy_(ours.to_logit.weight)
        other.position_bias.copy_(ours.place)
    one, two = x(2, 11, WIDTH).requires_grad_(), x(2, 11, WIDTH).requires_grad_()
    expected, _ = other(two, None, torch.arange(11)[None], None, 0)
    found = ours(one)
    assert found.shape == (2, 3, 6) and torch.allclose(found, expected[:, 0], atol=1e-6)
    found.sum().backward(), expected.sum().backward()
    assert torch.allclose(one.grad, two.grad, atol=1e-5)


@pytest.mark.parametrize("rotate", [None, Rotary(6)])
def test_it_is_the_softmax_over_near_and_far_one_query_at_a_time(rotate):
    made, given = layer(rotate), x(1, 8, WIDTH)
    q = made.to_q(given).view(8, 3, 6)
    near, far = made.norm(made.to_near(given))[0], made.compress(given)[0]

    def turned(vector, place):
        return vector if rotate is None else rotate(vector[None], torch.tensor([place]))[0]

    for i in range(8):
        keys = [(near[j], j) for j in range(max(0, i - 3), i + 1)]
        keys += [(far[w], 3 * w) for w in range(2) if 3 * w + 2 <= i]
        found = 0
        for h in range(3):
            scores = [turned(q[i, h], i) @ turned(key, place) / 6**0.5 for key, place in keys]
            shares = torch.stack(scores).softmax(0)
            expected = sum(share * key for share, (key, _) in zip(shares, keys, strict=True))
            found = found + made.to_out.weight[:, 6 * h : 6 * h + 6] @ expected
        assert torch.allclose(made(given)[0, i], found, atol=1e-5)


@pytest.mark.parametrize("pieces", [[1] * 11, [5, 6], [2, 7, 1, 1]])
@pytest.mark.parametrize("window", [1, 4, 20])
def test_read_piece_by_piece_it_is_the_same(pieces, window):
    made, given = layer(Rotary(6), window), x(2, 11, WIDTH)
    cache = made.cache()
    found = [made(piece, cache=cache) for piece in given.split(pieces, 1)]
    assert torch.allclose(torch.cat(found, 1), made(given), atol=1e-5)
    assert cache.near.shape[1] <= window and cache.far.shape[1] == 3


def test_future_cannot_leak():
    given = x(2, 9, WIDTH).requires_grad_()
    (slope,) = torch.autograd.grad(layer()(given)[:, 5].sum(), given)
    assert slope[:, :6].abs().sum(-1).min() > 0 and not slope[:, 6:].any()


def test_it_stands_in_a_model_and_writes_with_its_cache():
    torch.manual_seed(2)
    made = llama(V=11, width=WIDTH, depth=2, heads=3, hidden=20)
    made.body.blocks[0].attention.sublayer = layer(Rotary(6))
    start = torch.tensor([[3, 1, 4], [1, 5, 9]])
    assert torch.equal(generate(made, start, 8), generate(made, start, 8, cached=False))


def test_rows_are_chosen_and_entries_cannot_be_cut():
    made, given = layer(), x(2, 9, WIDTH)
    cache = made.cache()
    made(given[:, :6], cache=cache)
    cache.select(torch.tensor([1, 0]))
    assert torch.allclose(made(given[[1, 0], 6:], cache=cache), made(given)[[1, 0], 6:], atol=1e-5)
    with pytest.raises(ValueError, match="9 positions cannot be cut to 5"):
        cache.cut(5)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="group size is 0; a whole number"):
        Compress(WIDTH, 6, 0)
    with pytest.raises(ValueError, match="no mask but a causal one"):
        layer()(x(2, 9, WIDTH), mask=causal & local(3))
