"""Mamba-2: a state space model, which is linear attention with a gate that fades the memory."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.masks import Mask
from attnbook.recurrence.gated import gated_chunks
from attnbook.recurrence.layer import (
    ShortConvolution,
    StateCache,
    hide_padding,
    softplus_inverse,
    wide,
)


class GroupedNorm(nn.Module):
    """What was read, times SiLU of a gate, each group of its numbers brought to a standard size."""

    def __init__(self, width: int, groups: int = 1, eps: float = 1e-5):
        super().__init__()
        self.gain, self.groups, self.eps = nn.Parameter(torch.ones(width)), groups, eps

    def forward(
        self, y: Float[Tensor, "*batch C"], gate: Float[Tensor, "*batch C"]
    ) -> Float[Tensor, "*batch C"]:
        y = (y * F.silu(gate)).unflatten(-1, (self.groups, -1))
        return F.rms_norm(y, y.shape[-1:], eps=self.eps).flatten(-2) * self.gain


class Mamba2(nn.Module):
    """Mamba-2's mixer: each of `heads` has a memory of `state` × D numbers, and how fast it fades
    is its choice.

    In attention's words: queries C and keys B are shared by the heads of a group, values are x
    times a step Δ = softplus(W x + b), the memory fades by exp(−speed · Δ), and x · `skip` is
    added. One map makes them all; C, B and x go through a short convolution. D is `inner` /
    `heads`, and `inner` twice the width unless given. Dao & Gu 2024, sections 6 and 7.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        state: int = 128,
        groups: int = 1,
        inner: int | None = None,
        kernel: int = 4,
    ):
        super().__init__()
        inner = 2 * width if inner is None else inner
        if heads < 1 or inner % heads:
            raise ValueError(f"an inner width of {inner} does not divide into {heads} heads")
        if groups < 1 or heads % groups:
            raise ValueError(f"{heads} heads cannot share {groups} groups of keys evenly")
        self.heads, self.groups, mixed = heads, groups, inner + 2 * groups * state
        self.parts, self.mixed = [inner, mixed, heads], [inner, groups * state, groups * state]
        self.to_parts = nn.Linear(width, sum(self.parts), bias=False)
        self.convolve = ShortConvolution(mixed, kernel, bias=True)
        self.log_speed = nn.Parameter(torch.arange(1.0, heads + 1).log())
        low, high = math.log(0.001), math.log(0.1)
        steps = torch.empty(heads).uniform_(low, high).exp().clamp(min=1e-4)
        self.shift, self.skip = (
            nn.Parameter(softplus_inverse(steps)),
            nn.Parameter(torch.ones(heads)),
        )
        self.norm = GroupedNorm(inner, groups)
        self.to_out = nn.Linear(inner, width, bias=False)
        self.rule = gated_chunks

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
        x = hide_padding(x, mask, cache)
        gate, mixed, steps = self.to_parts(x).split(self.parts, -1)
        mixed = F.silu(self.convolve(mixed, cache))
        mixed = hide_padding(mixed, mask, cache)  # the convolution's bias fills padding
        v, k, q = (wide(part) for part in mixed.split(self.mixed, -1))
        q, k = (self.by_head(part, self.groups) for part in (q, k))
        v, steps = self.by_head(v, self.heads), F.softplus(wide(steps) + self.shift).mT
        log_decay = -self.log_speed.exp()[:, None] * steps
        state = None if cache is None else cache.state
        y, state = self.rule(q, k, steps[..., None] * v, log_decay, state)
        if cache is not None:
            cache.went_on(x.shape[1], state)
        y = (y + self.skip[:, None, None] * v).transpose(1, 2).flatten(2)
        return self.to_out(self.norm(y.to(x.dtype), gate))

    def by_head(self, x: Float[Tensor, "B T all"], count: int) -> Float[Tensor, "B H T each"]:
        """The parts of `count` groups or heads, each for all heads that share it."""
        x = x.unflatten(-1, (count, -1)).transpose(1, 2)
        return x.repeat_interleave(self.heads // count, 1)

    def cache(self, room: int | None = None) -> StateCache:
        """An empty cache for this layer; it needs no more room for a longer text."""
        return StateCache()
