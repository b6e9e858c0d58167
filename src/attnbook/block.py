"""Blocks: attention, then a feed-forward network, each with a way around it and a norm.

The parts are passed in, so a block is what you put into it.
"""

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.cache import CrossCache, Kept, cache_of
from attnbook.masks import Mask
from attnbook.step import step


class PostNorm(nn.Module):
    """Add what the part found, then normalise the sum: norm(x + part(x)).

    Vaswani et al. 2017, section 3.1; dropout on the part's output, section 5.4.
    """

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.part, self.norm, self.dropout = part, norm, nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"], *given: object, **named: object) -> Tensor:
        return self.norm(x + self.dropout(self.part(x, *given, **named)))


class PreNorm(nn.Module):
    """Let the part see a normalised copy and add what it found: x + part(norm(x)).

    Xiong et al. 2020, figure 1b. Nothing stands in the way of x itself: the path from the last
    block back to the first is the identity.
    """

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.part, self.norm, self.dropout = part, norm, nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"], *given: object, **named: object) -> Tensor:
        return x + self.dropout(self.part(self.norm(x), *given, **named))


class Residual(nn.Module):
    """x + after(part(before(x))): with a norm after the part, before the sum (OLMo 2), or with one
    on both sides (Gemma 2). Without `after` it is `PreNorm`.

    Kim et al. 2025, "Peri-LN", figure 1.
    """

    def __init__(
        self,
        part: nn.Module,
        before: nn.Module | None = None,
        after: nn.Module | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.before = nn.Identity() if before is None else before
        self.part, self.dropout = part, nn.Dropout(dropout)
        self.after = nn.Identity() if after is None else after

    def forward(self, x: Float[Tensor, "B T C"], *given: object, **named: object) -> Tensor:
        return x + self.dropout(self.after(self.part(self.before(x), *given, **named)))


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
        cache: Kept | None = None,
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
        cache: Kept | None = None,
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
        look = {"mask": memory_mask} if kept is None else {"mask": memory_mask, "cache": kept}
        return self.feedforward(self.cross_attention(x, memory, **look))

    def cache(self, room: int | None = None) -> CrossCache:
        """An empty cache for this block."""
        return CrossCache(cache_of(self.attention, room))


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
        caches: Sequence[Kept | None] | None = None,
        **named: Mask | Tensor | None,
    ) -> Float[Tensor, "B T C"]:
        """`given` and `named` (memory, masks) go to every block; each block has its own cache."""
        with step():
            for block, cache in zip(self.blocks, one_each(self.blocks, caches), strict=True):
                x = block(x, *given, cache=cache, **named)
        return self.norm(x)

    def caches(self, room: int | None = None) -> list[Kept]:
        """An empty cache for each block, of the kind that its attention needs; with `room`, of
        fixed room for so many positions."""
        return [cache_of(block, room) for block in self.blocks]


def one_each(blocks: nn.ModuleList, caches: Sequence[Kept | None] | None) -> Sequence[Kept | None]:
    """A cache for each block, or None for each; ValueError if there are more blocks, or fewer."""
    if caches is None:
        return [None] * len(blocks)
    if len(caches) != len(blocks):
        raise ValueError(f"{len(blocks)} blocks need a cache each; got {len(caches)}")
    return caches
