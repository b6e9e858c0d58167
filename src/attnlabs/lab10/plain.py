"""The book's language model once more, out of its weights alone, to measure what lab 10 asks for.

Nothing is shared with `attnbook.inside.circuits`, with which students measure: where both find the
same number, neither is likely to be wrong. A Llama with normed queries and keys, whose pairs of
heads share keys and values."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnbook.shipped.language import load

LAYERS, HEADS, EPS, BASE = 4, 4, 1e-6, 10_000.0
# change(what, layer, x): "stream" is that before a layer, (B, T, C); "heads" (B, H, T, D)
Change = Callable[[str, int, Tensor], Tensor]


@dataclass
class Inside:
    """What a run left behind: logits (B, T, V); stream before each layer, and the one read out;
    each layer's heads (B, H, T, D) and the weights of their attention (B, H, T, T)."""

    logits: Tensor
    stream: list[Tensor] = field(default_factory=list)
    heads: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)


@cache
def stored() -> dict[str, Tensor]:
    """The model's weights by name."""
    return dict(load("book-lm").model.state_dict())


def normed(x: Float[Tensor, "*batch C"], gain: Float[Tensor, " C"]) -> Float[Tensor, "*batch C"]:
    """RMSNorm."""
    return gain * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


def turned(x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
    """Rotary positions: coordinates i and i + D/2 are a pair."""
    T, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(T)[:, None] * BASE ** (-torch.arange(half) / half)
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], -1)


def unchanged(what: str, layer: int, x: Tensor) -> Tensor:
    return x


@torch.no_grad()
def inside(tokens: Int[Tensor, "B T"], change: Change = unchanged) -> Inside:
    """Run the model; `change` sees the stream before each layer and each layer's heads, and says
    what stands there instead."""
    w, found = stored(), Inside(torch.zeros(0))
    x = w["embed.tokens.weight"][tokens]
    for layer in range(LAYERS):
        x = change("stream", layer, x)
        found.stream.append(x)
        at = f"body.blocks.{layer}."
        heads, weights = attended(
            normed(x, w[at + "attention.norm.weight"]), at + "attention.sublayer."
        )
        heads = change("heads", layer, heads)
        found.heads.append(heads)
        found.weights.append(weights)
        x = x + heads.transpose(1, 2).flatten(2) @ w[at + "attention.sublayer.to_out.weight"].T
        y, part = normed(x, w[at + "feedforward.norm.weight"]), at + "feedforward.sublayer."
        gate, up = y @ w[part + "gate.weight"].T, y @ w[part + "up.weight"].T
        x = x + (F.silu(gate) * up) @ w[part + "down.weight"].T
    x = change("stream", LAYERS, x)
    found.stream.append(x)
    found.logits = normed(x, w["body.norm.weight"]) @ w["lm_head.weight"].T
    return found


def attended(y: Float[Tensor, "B T C"], at: str) -> tuple[Tensor, Tensor]:
    """The heads of a layer before W^O, (B, H, T, D), and their weights (B, H, T, T)."""
    w, D, T = stored(), y.shape[-1] // HEADS, y.shape[1]
    made = (y @ w[at + "project.to_qkv.weight"].T).unflatten(-1, (-1, D)).transpose(1, 2)
    shared = (made.shape[1] - HEADS) // 2
    q, k, v = made.split([HEADS, shared, shared], 1)
    q, k = (
        turned(normed(x, w[f"{at}project.{name}_norm.weight"])) for name, x in (("q", q), ("k", k))
    )
    k, v = (part.repeat_interleave(HEADS // shared, 1) for part in (k, v))
    scores = torch.einsum("bhtd,bhud->bhtu", q, k) / math.sqrt(D)
    later = torch.arange(T) > torch.arange(T)[:, None]
    weights = scores.masked_fill(later, -math.inf).softmax(-1)
    return torch.einsum("bhtu,bhud->bhtd", weights, v), weights
