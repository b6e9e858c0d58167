"""Selective state spaces: what is kept, and for how long, depends on what is read."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.masks import Mask
from attnbook.recurrence.gated import gated_chunks, gated_loop
from attnbook.recurrence.layer import (
    ShortConvolution,
    StateCache,
    hide_padding,
    softplus_inverse,
    wide,
)


def some_steps(number: int) -> Float[Tensor, " n"]:
    """Numbers whose softplus lies between 0.001 and 0.1, as many in each tenth of that by logs."""
    return softplus_inverse(torch.empty(number).uniform_(-6.9, -2.3).exp())


class Mamba(nn.Module):
    """The selective state space as a layer: each of `inner` channels keeps `state` numbers, which
    fade at speeds of their own. The input decides on the length Δ of its step: a long one forgets
    much and writes much.

    h ← exp(−Δ a) h + Δ k x, y = q · h + d x, with k (B in the paper) and q (C) of each position, a
    and d of each channel; then a gate. Δ comes through `rank` numbers. `norm` makes norms of Δ's
    numbers, k and q (Jamba). `biases` are those of the convolution and of the first and last map.
    Gu and Dao 2023, "Mamba", section 3.2 and algorithm 2.
    """

    def __init__(
        self,
        width: int,
        inner: int | None = None,
        state: int = 16,
        rank: int | None = None,
        kernel: int = 4,
        norm: Callable[[int], nn.Module] | None = None,
        biases: tuple[bool, bool] = (True, False),
    ):
        super().__init__()
        inner = 2 * width if inner is None else inner
        rank = -(-width // 16) if rank is None else rank
        if min(inner, state, rank) < 1:
            raise ValueError(f"{inner} channels, a state of {state} and a rank of {rank}: too few")
        self.widths = [rank, state, state]
        self.to_inner = nn.Linear(width, 2 * inner, bias=biases[1])
        self.convolve = ShortConvolution(inner, kernel, bias=biases[0])
        self.to_selection = nn.Linear(inner, sum(self.widths), bias=False)
        make = norm or (lambda width: nn.Identity())
        self.step_norm, self.k_norm, self.q_norm = (make(n) for n in self.widths)
        self.to_step = nn.Linear(rank, inner, bias=False)
        self.shift = nn.Parameter(some_steps(inner))
        speeds = torch.arange(1, state + 1, dtype=torch.float32).log()
        self.log_speed = nn.Parameter(speeds.repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.to_out = nn.Linear(inner, width, bias=biases[1])

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: StateCache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """Causal by nature: `mask` may say so, and hide padding. A `cache` is the past in short.

        Order is known without `positions`.
        """
        x, gate = self.to_inner(hide_padding(x, mask, cache)).chunk(2, -1)
        x = hide_padding(F.silu(self.convolve(x, cache)), mask, cache)  # (B T inner)
        step, k, q = self.to_selection(x).split(self.widths, -1)
        step = F.softplus(wide(self.to_step(self.step_norm(step))) + self.shift)[..., None]
        log_decay = -self.log_speed.exp() * step  # (B T inner state)
        k = step * wide(self.k_norm(k))[:, :, None]
        q = wide(self.q_norm(q))[:, :, None].expand_as(k)
        q, k, v = (part.transpose(1, 2) for part in (q, k, wide(x)[..., None]))  # (B inner T …)
        state = None if cache is None else cache.state
        y, state = gated_loop(q, k, v, log_decay.transpose(1, 2), state)
        if cache is not None:
            cache.advance(x.shape[1], state)
        y = y[..., 0].mT + self.skip * x
        return self.to_out(y.to(x.dtype) * F.silu(gate))

    def cache(self, max_len: int | None = None) -> StateCache:
        """An empty cache for this layer; it needs no more room for a longer text."""
        return StateCache()


class GroupedRMSNorm(nn.Module):
    """`rms_norm` of each of some groups of channels by itself."""

    def __init__(self, width: int, groups: int, eps: float = 1e-5):
        super().__init__()
        self.weight, self.groups, self.eps = nn.Parameter(torch.ones(width)), groups, eps

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        apart = x.unflatten(-1, (self.groups, -1))
        return self.weight * F.rms_norm(apart, apart.shape[-1:], eps=self.eps).flatten(-2)


class Mamba2(nn.Module):
    """A selective state space whose channels come in heads that fade as one, so that it is computed
    by matrix products: gated linear attention with keys that heads of a group share.

    S ← exp(−Δ a) S + Δ k vᵀ, y = Sᵀ q + d v, with Δ, a and d of each head; then a gate and a norm.
    `heads` are how many there are, and their width; `state` is the width of keys and queries.
    Steps stay within `limits`. `biases` are those of the convolution and of the first and last map.
    Dao and Gu 2024, "Transformers are SSMs", section 7 and figure 6.
    """

    def __init__(
        self,
        width: int,
        heads: tuple[int, int],
        state: int = 128,
        groups: int = 1,
        kernel: int = 4,
        limits: tuple[float, float] = (0.0, math.inf),
        biases: tuple[bool, bool] = (True, False),
        eps: float = 1e-5,
    ):
        super().__init__()
        H, inner = heads[0], heads[0] * heads[1]
        if min(*heads, state, groups) < 1 or H % groups:
            raise ValueError(f"{H} heads do not share the keys of {groups} groups evenly")
        self.heads, self.keys, self.limits = heads, (groups, state), limits
        self.widths = [inner, inner + 2 * groups * state, H]  # gate, what is convolved, steps
        self.to_inner = nn.Linear(width, sum(self.widths), bias=biases[1])
        self.convolve = ShortConvolution(self.widths[1], kernel, bias=biases[0])
        self.shift = nn.Parameter(some_steps(H))
        self.log_speed = nn.Parameter(torch.empty(H).uniform_(1, 16).log())
        self.skip = nn.Parameter(torch.ones(H))
        self.norm = GroupedRMSNorm(inner, groups, eps)
        self.to_out = nn.Linear(inner, width, bias=biases[1])

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: StateCache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """As `Mamba`."""
        gate, x, step = self.to_inner(hide_padding(x, mask, cache)).split(self.widths, -1)
        x = hide_padding(F.silu(self.convolve(x, cache)), mask, cache)
        step = F.softplus(wide(step) + self.shift).clamp(*self.limits).mT  # (B H T)
        q, k, v = self.split(wide(x))
        log_decay = -self.log_speed.exp()[:, None] * step
        state = None if cache is None else cache.state
        y, state = gated_chunks(q, k, step[..., None] * v, log_decay, state)
        if cache is not None:
            cache.advance(x.shape[1], state)
        y = (y + self.skip[:, None, None] * v).transpose(1, 2).flatten(2)
        return self.to_out(self.norm(y.to(x.dtype) * F.silu(gate)))

    def split(self, x: Float[Tensor, "B T all"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, H, T, width)."""
        (H, Dv), (groups, D) = self.heads, self.keys
        v, k, q = x.split([H * Dv, groups * D, groups * D], -1)
        q, k = (part.unflatten(-1, (groups, D)).transpose(1, 2) for part in (q, k))
        q, k = (part.repeat_interleave(H // groups, 1) for part in (q, k))
        return q, k, v.unflatten(-1, (H, Dv)).transpose(1, 2)

    def cache(self, max_len: int | None = None) -> StateCache:
        """An empty cache for this layer; it needs no more room for a longer text."""
        return StateCache()
