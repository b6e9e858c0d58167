"""Blocks: attention, then a feed-forward network, each with a residual connection and a norm.

The parts are passed in, so a block is what you put into it.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.cache import CrossCache, DecodingState, cache_of
from attnbook.masks import Mask
from attnbook.memo import MEMO


class PostNorm(nn.Module):
    """Post-norm residual connection: add, then normalise: norm(x + sublayer(x)).

    Vaswani et al. 2017, section 3.1; dropout on the sublayer's output, section 5.4.
    """

    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"], *given: object, **named: object) -> Tensor:
        return self.norm(x + self.dropout(self.sublayer(x, *given, **named)))


class PreNorm(nn.Module):
    """Pre-norm residual connection: the sublayer reads a normalised copy: x + sublayer(norm(x)).

    Xiong et al. 2020, figure 1b. Nothing stands in the way of x itself: the path from the last
    block back to the first is the identity.
    """

    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"], *given: object, **named: object) -> Tensor:
        return x + self.dropout(self.sublayer(self.norm(x), *given, **named))


class Residual(nn.Module):
    """x + after(sublayer(before(x))): with a norm after the sublayer, before the sum (OLMo 2), or
    with one on both sides (Gemma 2). Without `after` it is `PreNorm`.

    Kim et al. 2025, "Peri-LN", figure 1.
    """

    def __init__(
        self,
        sublayer: nn.Module,
        before: nn.Module | None = None,
        after: nn.Module | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.before = nn.Identity() if before is None else before
        self.sublayer, self.dropout = sublayer, nn.Dropout(dropout)
        self.after = nn.Identity() if after is None else after

    def forward(self, x: Float[Tensor, "B T C"], *given: object, **named: object) -> Tensor:
        return x + self.dropout(self.after(self.sublayer(self.before(x), *given, **named)))


class Block(nn.Module):
    """Self-attention mixes the positions; the feed-forward network works on each alone.

    Both come wrapped in `PreNorm`, `PostNorm` or `Residual`.
    """

    def __init__(self, attention: nn.Module, feedforward: nn.Module):
        super().__init__()
        self.attention, self.feedforward = attention, feedforward

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: DecodingState | None = None,
        **where: Int[Tensor, "..."],
    ) -> Float[Tensor, "B T C"]:
        """`where` may name the `positions` of x, if they are not counted on from the cache."""
        return self.feedforward(self.attention(x, mask=mask, cache=cache, **where))


class ParallelBlock(nn.Module):
    """Attention and feed-forward network side by side: x + attention(norm(x)) + network(norm(x)).

    The network may have a norm of its own, as in GPT-NeoX and the larger Falcon; GPT-J, the smaller
    Falcon and Cohere share one. Black et al. 2022, section 2.1.2.
    """

    def __init__(
        self,
        attention: nn.Module,
        feedforward: nn.Module,
        norm: nn.Module,
        feedforward_norm: nn.Module | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.attention, self.feedforward = attention, feedforward
        self.norm, self.feedforward_norm = norm, feedforward_norm
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: DecodingState | None = None,
        **where: Int[Tensor, "..."],
    ) -> Float[Tensor, "B T C"]:
        """`where` as in `Block`."""
        seen = self.norm(x)
        mixed = self.attention(seen, mask=mask, cache=cache, **where)
        seen = seen if self.feedforward_norm is None else self.feedforward_norm(x)
        return x + self.dropout(mixed) + self.dropout(self.feedforward(seen))


class CrossBlock(nn.Module):
    """A decoder's block: look at the target so far, then at the source, then think.

    Vaswani et al. 2017, figure 1, right. Each part comes wrapped in `PreNorm` or `PostNorm`.
    """

    def __init__(self, attention: nn.Module, cross_attention: nn.Module, feedforward: nn.Module):
        super().__init__()
        self.attention, self.cross_attention = attention, cross_attention
        self.feedforward = feedforward

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk Cm"],
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        cache: CrossCache | None = None,
        **where: Int[Tensor, "..."],
    ) -> Float[Tensor, "B Tq C"]:
        """`mask` is over the target; `memory` is the encoder's output, `memory_mask` is over it."""
        own, kept = (None, None) if cache is None else (cache.own, cache.memory)
        x = self.attention(x, mask=mask, cache=own, **where)
        cross = {"mask": memory_mask, **where} | ({} if kept is None else {"cache": kept})
        return self.feedforward(self.cross_attention(x, memory, **cross))

    def cache(self, max_len: int | None = None) -> CrossCache:
        """An empty cache for this block."""
        return CrossCache(cache_of(self.attention, max_len))


class Stack(nn.Module):
    """Blocks one after the other, and a last norm if there is one. Pre-norm needs it."""

    def __init__(self, blocks: Sequence[nn.Module], norm: nn.Module | None = None):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.Identity() if norm is None else norm

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        *given: Tensor,
        caches: Sequence[DecodingState | None] | None = None,
        **named: Mask | Tensor | None,
    ) -> Float[Tensor, "B T C"]:
        """`given` and `named` (memory, masks) go to every block; each block has its own cache."""
        opened = None if torch.compiler.is_compiling() or MEMO.get() is not None else MEMO.set({})
        try:  # masks and tables of rotations are made once for all blocks: attnbook.memo
            for block, cache in zip(self.blocks, cache_for_each(self.blocks, caches), strict=True):
                x = block(x, *given, cache=cache, **named)
        finally:
            if opened is not None:
                MEMO.reset(opened)
        return self.norm(x)

    def caches(self, max_len: int | None = None) -> list[DecodingState]:
        """An empty cache for each block, of the kind that its attention needs; with `max_len`, of
        fixed room for so many positions."""
        return [cache_of(block, max_len) for block in self.blocks]


def cache_for_each(
    blocks: nn.ModuleList, caches: Sequence[DecodingState | None] | None
) -> Sequence[DecodingState | None]:
    """A cache for each block, or None for each; ValueError if there are more blocks, or fewer."""
    if caches is None:
        return [None] * len(blocks)
    if len(caches) != len(blocks):
        raise ValueError(f"{len(blocks)} blocks need a cache each; got {len(caches)}")
    return caches
