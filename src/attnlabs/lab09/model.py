"""The ward's model: a decoder of two blocks, small enough to be trained in half a second.

All numbers are of double precision, and training rounds gradients to a grid: every machine finds
the same runs.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlabs.lab09.language import LETTERS

V, WIDTH, DEPTH, HEADS, CONTEXT = len(LETTERS), 32, 2, 2, 24
STD = 0.1
Weights = dict[str, Tensor]


@dataclass
class Inside:
    """What a forward pass leaves for the instruments.

    Of each block the attention weights (B, H, T, T) and what the units of its network return
    (B, T, 4C), and what the last block returns, the stream (B, T, C).
    """

    attention: list[Tensor] = field(default_factory=list)
    active: list[Tensor] = field(default_factory=list)
    stream: Tensor = field(default_factory=lambda: torch.zeros(0))


def first_weights(seed: int, scale: int | float = 1.0) -> Weights:
    """The weights before the first step; `scale` multiplies their standard deviation of 0.1."""
    numbers = torch.Generator().manual_seed(seed)

    def drawn(*shape: int, by: float = 1.0) -> Tensor:
        values = torch.randn(*shape, generator=numbers, dtype=torch.float64)
        values.mul_(2**20).round_().div_(2**20)
        return (values * STD * scale * by).requires_grad_()

    found = {"embed": drawn(V, WIDTH), "place": drawn(CONTEXT, WIDTH), "out": drawn(V, WIDTH)}
    deep = 1 / math.sqrt(2 * DEPTH)
    for n in range(DEPTH):
        found |= {f"{n}.qkv": drawn(3 * WIDTH, WIDTH), f"{n}.o": drawn(WIDTH, WIDTH, by=deep)}
        found |= {f"{n}.up": drawn(4 * WIDTH, WIDTH), f"{n}.down": drawn(WIDTH, 4 * WIDTH, by=deep)}
    return found


def attend(x: Tensor, w: Weights, n: int, seen: Tensor, inside: Inside) -> Tensor:
    """Block n's attention, (B, T, C) to (B, T, C); queries see the keys where `seen` is true."""
    B, T, _ = x.shape
    q, k, v = (x @ w[f"{n}.qkv"].T).view(B, T, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.mT / math.sqrt(WIDTH // HEADS)
    weights = scores.masked_fill(~seen[:T, :T], -math.inf).softmax(-1)
    inside.attention.append(weights)
    return (weights @ v).transpose(1, 2).reshape(B, T, WIDTH) @ w[f"{n}.o"].T


def network(x: Tensor, w: Weights, n: int, inside: Inside) -> Tensor:
    """Block n's network of two layers, (B, T, C) to (B, T, C)."""
    active = F.relu(x @ w[f"{n}.up"].T)
    inside.active.append(active)
    return active @ w[f"{n}.down"].T


def logits(x: Tensor, w: Weights, diagonal: int = 0, inside: Inside | None = None) -> Tensor:
    """Logits (B, T, V) of tokens (B, T). `diagonal` is the mask's, `tril(diagonal)`."""
    inside = inside or Inside()
    seen = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril(diagonal)
    h = w["embed"][x] + w["place"][: x.shape[1]]
    for n in range(DEPTH):
        h = h + attend(F.layer_norm(h, (WIDTH,)), w, n, seen, inside)
        h = h + network(F.layer_norm(h, (WIDTH,)), w, n, inside)
    inside.stream = h
    return F.layer_norm(h, (WIDTH,)) @ w["out"].T
