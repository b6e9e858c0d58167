"""Blocks: attention, then a feed-forward network, each with a way around it and a norm.

The parts are passed in, so a block is what you put into it.
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


class PostNorm(nn.Module):
    """Add what the part found, then normalise the sum: norm(x + part(x)).

    Vaswani et al. 2017, section 3.1; dropout on the part's output, section 5.4.
    """

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.part, self.norm, self.dropout = part, norm, nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"], *given: Any, **named: Any) -> Tensor:
        return self.norm(x + self.dropout(self.part(x, *given, **named)))


class PreNorm(nn.Module):
    """Let the part see a normalised copy and add what it found: x + part(norm(x)).

    Xiong et al. 2020, figure 1b. Nothing stands in the way of x itself: the path from the last
    block back to the first is the identity.
    """

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.part, self.norm, self.dropout = part, norm, nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"], *given: Any, **named: Any) -> Tensor:
        return x + self.dropout(self.part(self.norm(x), *given, **named))


class Block(nn.Module):
    """Self-attention mixes the positions; the feed-forward network works on each alone.

    Both come wrapped in `PreNorm` or `PostNorm`.
    """

    def __init__(self, attention: nn.Module, feedforward: nn.Module):
        super().__init__()
        self.attention, self.feedforward = attention, feedforward

    def forward(
        self, x: Float[Tensor, "B T C"], mask: Tensor | None = None, cache: Any = None
    ) -> Float[Tensor, "B T C"]:
        return self.feedforward(self.attention(x, mask=mask, cache=cache))


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
        memory: Float[Tensor, "B Tk C"],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Float[Tensor, "B Tq C"]:
        """`memory` is the encoder's output; `mask` is over the target, `memory_mask` over it."""
        x = self.attention(x, mask=mask, cache=cache)
        return self.feedforward(self.cross_attention(x, memory, mask=memory_mask))


class Stack(nn.Module):
    """Blocks one after the other, and a last norm if there is one. Pre-norm needs it."""

    def __init__(self, blocks: Sequence[nn.Module], norm: nn.Module | None = None):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm or nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        *given: Tensor,
        caches: Sequence[Any] | None = None,
        **named: Any,
    ) -> Float[Tensor, "B T C"]:
        """`given` and `named` (memory, masks) go to every block; each block has its own cache."""
        caches = [None] * len(self.blocks) if caches is None else caches
        if len(caches) != len(self.blocks):
            raise ValueError(f"{len(self.blocks)} blocks need a cache each; got {len(caches)}")
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, *given, cache=cache, **named)
        return self.norm(x)
