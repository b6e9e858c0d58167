"""Sparse attention: which few of the others a position looks at.

A pattern is a function of two positions, `pattern(i, j)`: True where i may look at j. It is given
tensors of integers that broadcast, and makes no table before somebody needs one.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import attend, check_mask

Pattern = Callable[[Tensor, Tensor], Tensor]


def causal(i: Tensor, j: Tensor) -> Tensor:
    """Look at the past and at yourself: `causal_mask` as a pattern."""
    return j <= i


def local(window: int) -> Pattern:
    """Look at less than `window` positions away, on either side: Beltagy et al. 2020, section 3.1.

    With `causal` these are the last `window` positions, the sliding window of Jiang et al. 2023.
    """
    at_least_one("a window", window)
    return lambda i, j: (i - j).abs() < window


def strided(stride: int) -> Pattern:
    """Look at every `stride`-th position, counted from yourself. Child et al. 2019, section 4.3."""
    at_least_one("a stride", stride)
    return lambda i, j: (i - j) % stride == 0


def hubs(count: int) -> Pattern:
    """The first `count` positions look at all and are looked at by all: global attention.

    Beltagy et al. 2020, section 3.1. Over two steps every position hears of every other.
    """
    at_least_one("a number of hubs", count)
    return lambda i, j: (i < count) | (j < count)


def either(*patterns: Pattern) -> Pattern:
    """Look where at least one of the patterns lets you."""
    return lambda i, j: torch.stack([p(i, j) for p in patterns]).any(0)


def both(*patterns: Pattern) -> Pattern:
    """Look where all of the patterns let you."""
    return lambda i, j: torch.stack([p(i, j) for p in patterns]).all(0)


def pattern_mask(
    pattern: Pattern, Tq: int, Tk: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "Tq Tk"]:
    """The pattern as a mask. The Tq queries are the last of the Tk positions."""
    Tk = Tq if Tk is None else Tk
    if Tk < Tq:
        raise ValueError(f"{Tq} queries cannot be the last of {Tk} positions")
    j = torch.arange(Tk, device=device)
    return pattern(j[Tk - Tq :, None], j)


class Sparse(nn.Module):
    """An attention that looks only where a pattern lets it: wrap a MultiHeadAttention in it.

    What it may not see is masked, so it computes no less than before (`window_attend` does).
    """

    def __init__(self, attention: nn.Module, pattern: Pattern):
        super().__init__()
        self.attention, self.pattern = attention, pattern

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk C"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: Any = None,
    ) -> Float[Tensor, "B Tq C"]:
        """As MultiHeadAttention; `mask` allows less still."""
        Tq, Tk = x.shape[1], (x if memory is None else memory).shape[1]
        Tk = Tk if cache is None else cache.length + Tk
        allowed = pattern_mask(self.pattern, Tq, Tk, x.device)
        if mask is not None:
            check_mask(mask, (len(x), Tq, Tk))
            allowed = allowed & mask
        return self.attention(x, memory, mask=allowed, cache=cache)


def window_attend(
    q: Float[Tensor, "*batch T D"],
    k: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    window: int,
) -> Float[Tensor, "*batch T Dv"]:
    """Each query looks at the last `window` positions; time and memory grow with T × window.

    The sequence is cut into chunks of a window; a chunk needs itself and the one before.
    """
    at_least_one("a window", window)
    T, missing = q.shape[-2], -q.shape[-2] % window
    q, k, v = (F.pad(x, (0, 0, 0, missing)).unflatten(-2, (-1, window)) for x in (q, k, v))
    chunks = q.shape[-3]
    k, v = (torch.cat((F.pad(x, (0, 0, 0, 0, 1, -1)), x), -2) for x in (k, v))  # (… n 2·window D)
    i = torch.arange(chunks * window, device=q.device).view(chunks, window, 1)
    j = i[:, :1] - window + torch.arange(2 * window, device=q.device)  # (n 1 2·window)
    output, _ = attend(q, k, v, (j >= 0) & both(causal, local(window))(i, j))
    return output.flatten(-3, -2)[..., :T, :]


def at_least_one(name: str, number: int) -> None:
    """Raise a ValueError unless the number is 1 or more."""
    if number < 1:
        raise ValueError(f"{name} is at least 1; got {number}")
