"""Several residual streams instead of one, mixed before and after each part: hyper-connections.

A part reads a mixture of the streams and writes into all of them, and the streams are mixed with
each other by a matrix whose rows and columns sum to 1: many such matrices in a row still keep what
they are given from growing. Zhu et al. 2025 (hyper-connections); Xie et al. 2026 (mHC).
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.block import one_each
from attnbook.cache import Kept
from attnbook.masks import Mask

Streams = Float[Tensor, "B T n C"]


def sinkhorn(logits: Float[Tensor, "*batch n n"], rounds: int = 20) -> Float[Tensor, "*batch n n"]:
    """A matrix of positive numbers whose rows and columns sum to 1, by dividing them in turn.

    Sinkhorn and Knopp 1967; columns are exact, rows nearly.
    """
    if rounds < 1:
        raise ValueError(f"at least 1 round is needed; got {rounds}")
    mixed = logits.softmax(-1)
    mixed = mixed / mixed.sum(-2, keepdim=True)
    for _ in range(rounds - 1):
        mixed = mixed / mixed.sum(-1, keepdim=True)
        mixed = mixed / mixed.sum(-2, keepdim=True)
    return mixed


class Shares(nn.Module):
    """Numbers that say how to mix the streams of a token, from the streams themselves.

    scale · W norm(streams) + base. W starts at 0, so the mixture starts as `base` says.
    """

    def __init__(self, width: int, n: int, base: Float[Tensor, " m"], scales: Sequence[int]):
        super().__init__()
        self.to_shares = nn.Linear(n * width, len(base), bias=False)
        self.base, self.sizes = nn.Parameter(base.clone()), list(scales)
        self.scale = nn.Parameter(torch.ones(len(self.sizes)))
        nn.init.zeros_(self.to_shares.weight)

    def forward(self, streams: Streams) -> list[Float[Tensor, "B T _"]]:
        flat = streams.flatten(2).float()
        shares = self.to_shares(F.rms_norm(flat, flat.shape[-1:], eps=1e-6))
        scales = self.scale.repeat_interleave(torch.tensor(self.sizes, device=flat.device))
        return list((scales * shares + self.base).split(self.sizes, -1))


class HyperConnection(nn.Module):
    """A part between streams: H ← Mᵀ H + post · part(norm(pre · H)), all three chosen per token.

    Stands in place of `PreNorm`. At the start, with streams that are alike, it does the same.
    Xie et al. 2026, section 4; as in DeepSeek-V4.
    """

    def __init__(self, part: nn.Module, norm: nn.Module, width: int, n: int = 4, rounds: int = 20):
        super().__init__()
        check_streams(n)
        self.part, self.norm, self.n, self.rounds = part, norm, n, rounds
        even = torch.full((n,), even_share(n))
        base = torch.cat((even, torch.zeros(n), 4 * torch.eye(n).flatten()))
        self.shares = Shares(width, n, base, (n, n, n * n))

    def forward(self, streams: Streams, *given: object, **named: object) -> Streams:
        check_count(streams, self.n)
        pre, post, mix = self.shares(streams)
        mix = sinkhorn(mix.unflatten(-1, (self.n, self.n)), self.rounds).to(streams.dtype)
        x = torch.einsum("btn,btnc->btc", pre.sigmoid().to(streams.dtype), streams)
        found = self.part(self.norm(x), *given, **named)
        written = (2 * post.sigmoid()).to(found.dtype)[..., None] * found[..., None, :]
        return mix.mT @ streams + written


class StreamBlock(nn.Module):
    """`Block` for streams: attention and feed-forward network, each in a `HyperConnection`."""

    def __init__(self, attention: HyperConnection, feedforward: HyperConnection):
        super().__init__()
        self.attention, self.feedforward = attention, feedforward

    def forward(self, streams: Streams, mask: Mask | None = None, **named: object) -> Streams:
        return self.feedforward(self.attention(streams, mask=mask, **named))


class StreamStack(nn.Module):
    """`Stack` for streams: each token starts in `n` alike, which are mixed into one at the end."""

    def __init__(self, blocks: Sequence[StreamBlock], norm: nn.Module, width: int, n: int = 4):
        super().__init__()
        check_streams(n)
        self.blocks, self.norm, self.n = nn.ModuleList(blocks), norm, n
        self.shares = Shares(width, n, torch.full((n,), even_share(n)), (n,))

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        *given: object,
        caches: Sequence[Kept | None] | None = None,
        **named: object,
    ) -> Float[Tensor, "B T C"]:
        """`given` and `named` (masks) go to every block; each block has its own cache."""
        streams = x[:, :, None].expand(-1, -1, self.n, -1)
        for block, cache in zip(self.blocks, one_each(self.blocks, caches), strict=True):
            streams = block(streams, *given, cache=cache, **named)
        (pre,) = self.shares(streams)
        return self.norm(torch.einsum("btn,btnc->btc", pre.sigmoid().to(x.dtype), streams))


def even_share(n: int) -> float:
    """The number whose sigmoid is 1/n."""
    return -math.log(n - 1)


def check_streams(n: int) -> None:
    """Raise a ValueError unless there is something to mix."""
    if n < 2:
        raise ValueError(f"needs at least 2 streams to mix; got {n}")


def check_count(streams: Tensor, n: int) -> None:
    """Raise a ValueError unless there are as many streams as a layer mixes."""
    if streams.dim() != 4 or streams.shape[2] != n:
        raise ValueError(f"got streams {tuple(streams.shape)}; needs (B, T, {n}, width)")
