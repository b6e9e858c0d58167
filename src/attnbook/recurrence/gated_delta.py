"""A layer that stands where attention does in a block, and keeps a matrix instead of a cache."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.masks import Mask
from attnbook.norms import RMSNorm
from attnbook.recurrence.delta import delta_chunks
from attnbook.recurrence.layer import (
    ShortConvolution,
    StateCache,
    hide_padding,
    softplus_inverse,
    unit,
    wide,
)


class Decay(nn.Module):
    """How much of its memory a head keeps at each position: log α = −exp(a) · softplus(W x + b).

    `map` makes the W x: of as many numbers as there are `heads`, or of that many times D, a decay
    for each row of the memory. Starts as Mamba does: steps from 0.001 to 0.1, speeds from 1 to 16.
    """

    def __init__(self, map: nn.Module, heads: int, D: int | None = None):
        super().__init__()
        self.map, self.heads, self.D = map, heads, D
        self.log_speed = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        low, high = math.log(0.001), math.log(0.1)
        steps = torch.empty(heads * (D or 1)).uniform_(low, high).exp()
        self.shift = nn.Parameter(softplus_inverse(steps))

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T *D"]:
        steps = F.softplus(wide(self.map(x)) + self.shift).unflatten(-1, (self.heads, -1))
        log_decay = (-self.log_speed.exp()[:, None] * steps).transpose(1, 2)
        return log_decay if self.D else log_decay[..., 0]


def decay_per_head(width: int, heads: int) -> Decay:
    """One number per head and position (Yang et al. 2025, gated delta networks)."""
    return Decay(nn.Linear(width, heads, bias=False), heads)


def decay_per_channel(width: int, heads: int, D: int) -> Decay:
    """D numbers per head and position, through D in all (Kimi team 2025, Kimi delta attention)."""
    two = nn.Linear(width, D, bias=False), nn.Linear(D, heads * D, bias=False)
    return Decay(nn.Sequential(*two), heads, D)


class GatedNorm(nn.Module):
    """What a head has read, brought to a standard size, times what `map(x)` lets through."""

    def __init__(self, norm: nn.Module, map: nn.Module):
        super().__init__()
        self.norm, self.map = norm, map

    def forward(
        self, y: Float[Tensor, "B T H Dv"], x: Float[Tensor, "B T C"]
    ) -> Float[Tensor, "B T H*Dv"]:
        return self.norm(y).flatten(2) * self.map(x)


class GatedDelta(nn.Module):
    """The gated delta rule as a layer: attention to all of the past by a memory of fixed size.

    A convolution over the last few positions, SiLU, keys and queries of length 1, `delta_chunks`,
    and a `gate` on what was read, a `GatedNorm` with SiLU unless given. `keys` and `values` are
    (heads, width of a head); several value heads may share a key head. `largest` is that of the
    strength β: with 2 the memory can turn around what it holds, and count modulo 2 (Grazzi et al.
    2025). Without a `decay` it is the plain delta rule. As in Qwen3-Next, and with other parts as
    in Kimi Linear and OLMo Hybrid.
    """

    def __init__(
        self,
        width: int,
        keys: tuple[int, int],
        values: tuple[int, int] | None = None,
        decay: nn.Module | None = None,
        gate: nn.Module | None = None,
        largest: float = 1.0,
        kernel: int = 4,
    ):
        super().__init__()
        values = keys if values is None else values
        if min(*keys, *values) < 1 or values[0] % keys[0]:
            raise ValueError(f"{values[0]} value heads cannot share {keys[0]} key heads evenly")
        inner = values[0] * values[1]
        self.keys, self.values, self.largest = keys, values, largest
        self.widths = [keys[0] * keys[1], keys[0] * keys[1], inner]
        self.to_qkv = nn.Linear(width, sum(self.widths), bias=False)
        self.convolve = ShortConvolution(sum(self.widths), kernel)
        self.to_strength = nn.Linear(width, values[0], bias=False)
        self.decay = decay
        if gate is None:
            opens = nn.Sequential(nn.Linear(width, inner, bias=False), nn.SiLU())
            gate = GatedNorm(RMSNorm(values[1]), opens)
        self.gate = gate
        self.to_out = nn.Linear(inner, width, bias=False)
        self.rule = delta_chunks

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
        q, k, v = self.project(x, cache)
        beta = self.largest * torch.sigmoid(wide(self.to_strength(x))).mT
        log_decay = None if self.decay is None else self.decay(x)
        state = None if cache is None else cache.state
        y, state = self.rule(q, k, v, beta, log_decay, state)
        if cache is not None:
            cache.advance(x.shape[1], state)
        return self.to_out(self.gate(y.to(x.dtype).transpose(1, 2), x))

    def project(self, x: Tensor, cache: StateCache | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys of length 1 / √D and 1, and values, each (B, value heads, T, width)."""
        qkv = F.silu(self.convolve(self.to_qkv(x), cache)).split(self.widths, -1)
        shapes = self.keys, self.keys, self.values
        q, k, v = (
            wide(part.unflatten(-1, shape).transpose(1, 2))
            for part, shape in zip(qkv, shapes, strict=True)
        )
        share = self.values[0] // self.keys[0]
        q, k = (unit(part).repeat_interleave(share, 1) for part in (q, k))
        return q / self.keys[1] ** 0.5, k, v

    def cache(self, max_len: int | None = None) -> StateCache:
        """An empty cache for this layer; it needs no more room for a longer text."""
        return StateCache()
