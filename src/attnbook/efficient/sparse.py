"""Sparse attention: which few of the others a position looks at.

The patterns themselves are those of `attnbook.masks`, where another way to combine them is `&` and
`|`; here are those that only sparse attention needs, and what to do with them.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import attend
from attnbook.cache import DecodingState, WindowCache, cache_of
from attnbook.checks import check_int
from attnbook.masks import (
    And,
    Mask,
    Pattern,
    Rule,
    as_pattern,
    causal,
    local,
    per_row,
    position_ids,
)


@dataclass(frozen=True)
class strided(Pattern):
    """Look at every `stride`-th position, counted from yourself. Child et al. 2019, section 4.3."""

    stride: int

    def __post_init__(self) -> None:
        check_int("stride", self.stride, 1)

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return (i - j) % self.stride == 0


@dataclass(frozen=True)
class hubs(Pattern):
    """The first `count` positions look at all and are looked at by all: global attention.

    Beltagy et al. 2020, section 3.1. Over two steps every position hears of every other.
    """

    count: int

    def __post_init__(self) -> None:
        check_int("the number of hubs", self.count, 1)

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return (i < self.count) | (j < self.count)


class Sparse(nn.Module):
    """An attention that looks only where a pattern lets it: wrap any attention in it.

    What it may not see is masked, so it computes no less than before (`window_attend` does). An
    `Attention` that is made anew takes its pattern as a part.
    """

    def __init__(self, attention: nn.Module, pattern: Pattern | Rule):
        super().__init__()
        self.attention, self.pattern = attention, as_pattern(pattern)

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk C"] | None = None,
        mask: Mask | None = None,
        cache: DecodingState | None = None,
        **where: Int[Tensor, "..."],
    ) -> Float[Tensor, "B Tq C"]:
        """As the attention; `mask` allows less still."""
        own = per_row(self.pattern, position_ids(mask))
        allowed = own if mask is None else own & mask
        named = where if memory is None else {"memory": memory, **where}
        return self.attention(x, mask=allowed, cache=cache, **named)

    def cache(self, max_len: int | None = None) -> DecodingState:
        """An empty cache; it forgets what the pattern cannot reach."""
        reach = self.pattern.reach
        return cache_of(self.attention, max_len) if max_len or reach is None else WindowCache(reach)


def window_attend(
    q: Float[Tensor, "*batch T D"],
    k: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    window: int,
) -> Float[Tensor, "*batch T Dv"]:
    """Each query looks at the last `window` positions; time and memory grow with T × window.

    The sequence is cut into chunks of a window; a chunk needs itself and the one before.
    """
    check_int("window", window, 1)
    T, missing = q.shape[-2], -q.shape[-2] % window
    q, k, v = (F.pad(x, (0, 0, 0, missing)).unflatten(-2, (-1, window)) for x in (q, k, v))
    chunks = q.shape[-3]
    k, v = (torch.cat((F.pad(x, (0, 0, 0, 0, 1, -1)), x), -2) for x in (k, v))  # (… n 2·window D)
    i = torch.arange(chunks * window, device=q.device).view(chunks, window, 1)
    j = i[:, :1] - window + torch.arange(2 * window, device=q.device)  # (n 1 2·window)
    output, _ = attend(q, k, v, (j >= 0) & And(causal, local(window))(i, j))
    return output.flatten(-3, -2)[..., :T, :]
