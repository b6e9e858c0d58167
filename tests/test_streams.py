"""Many streams: doubly stochastic mixing keeps them tame, and the start is a plain residual net."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attnbook.attention import MultiHeadAttention, causal_mask
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import SwiGLU
from attnbook.norms import RMSNorm
from attnbook.streams import HyperConnection, StreamBlock, StreamStack, sinkhorn

WIDTH, N = 6, 3


def x(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(2, 6), st.integers(0, 99))
def test_rows_and_columns_sum_to_1(n, seed):
    mixed = sinkhorn(x(n, n, seed=seed), 60)
    assert mixed.min() > 0
    assert torch.allclose(mixed.sum(0), torch.ones(n), atol=1e-5)
    assert torch.allclose(mixed.sum(1), torch.ones(n), atol=1e-3)


def test_many_mixtures_in_a_row_do_not_grow():
    free, tame = torch.eye(4), torch.eye(4)
    for layer in range(24):
        logits = 0.5 * x(4, 4, seed=layer)
        free, tame = (torch.eye(4) + logits) @ free, sinkhorn(logits) @ tame
    assert tame.sum(1).max() < 1.01 and free.abs().sum(1).max() > 20


@pytest.mark.parametrize("rounds", [2, 20])
def test_it_is_deepseeks(rounds):
    theirs = pytest.importorskip("transformers.models.deepseek_v4.modeling_deepseek_v4")
    config = theirs.DeepseekV4Config(hidden_size=WIDTH, hc_mult=N, hc_sinkhorn_iters=rounds)
    other, part = theirs.DeepseekV4HyperConnection(config), nn.Linear(WIDTH, WIDTH)
    ours = HyperConnection(part, nn.Identity(), WIDTH, N, rounds)
    pairs = [(other.fn, ours.shares.to_shares.weight), (other.base, ours.shares.base)]
    with torch.no_grad():
        for i, (their, our) in enumerate([*pairs, (other.scale, ours.shares.scale)]):
            their.copy_(x(*their.shape, seed=i)), our.copy_(their)
    slopes, outputs = [], []
    for each in (ours, None):
        streams = x(2, 5, N, WIDTH, seed=7).requires_grad_()
        if each is None:
            post, mix, collapsed = other(streams)
            y = post[..., None] * part(collapsed)[..., None, :] + mix.mT @ streams
        else:
            y = each(streams)
        outputs.append(y)
        slopes.append(torch.autograd.grad(y.square().sum(), streams)[0])
    assert torch.allclose(*outputs, atol=1e-4) and torch.allclose(*slopes, atol=1e-3)


def parts(seed):
    torch.manual_seed(seed)
    attention, feed = MultiHeadAttention(WIDTH, 2), SwiGLU(WIDTH, 9)
    return attention, RMSNorm(WIDTH), feed, RMSNorm(WIDTH)


def stacks():
    blocks, plain = [], []
    for seed in range(2):
        a, norm_a, f, norm_f = parts(seed)
        plain.append(Block(PreNorm(a, norm_a), PreNorm(f, norm_f)))
        blocks.append(
            StreamBlock(HyperConnection(a, norm_a, WIDTH, N), HyperConnection(f, norm_f, WIDTH, N))
        )
    return StreamStack(blocks, RMSNorm(WIDTH), WIDTH, N), Stack(plain, RMSNorm(WIDTH))


def test_at_the_start_it_is_a_plain_stack():
    streams, plain = stacks()
    mask = causal_mask(5)
    assert torch.allclose(
        streams(x(2, 5, WIDTH), mask=mask), plain(x(2, 5, WIDTH), mask=mask), atol=1e-5
    )


def test_streams_learn_to_differ():
    streams, _ = stacks()
    streams(x(2, 5, WIDTH)).square().mean().backward()
    step = torch.optim.SGD(streams.parameters(), 0.5)
    step.step()
    assert streams.blocks[0].attention.shares.base.grad.abs().sum() > 0
    assert streams.blocks[1].feedforward.shares.to_shares.weight.abs().sum() > 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="at least 2 streams to mix; got 1"):
        HyperConnection(nn.Identity(), nn.Identity(), WIDTH, 1)
    with pytest.raises(ValueError, match="at least 1 round"):
        sinkhorn(torch.eye(2), 0)
    with pytest.raises(ValueError, match=r"needs \(B, T, 3, width\)"):
        HyperConnection(nn.Identity(), nn.Identity(), WIDTH, N)(x(2, 5, 4, WIDTH))
    with pytest.raises(ValueError, match="2 blocks need a cache each; got 1"):
        stacks()[0](x(2, 5, WIDTH), caches=[None])
