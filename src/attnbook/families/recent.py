"""Decoders of 2024 and 2025 that differ from Llama by a norm or an activation."""

from functools import partial

from torch import nn

from attnbook.attention import Attention
from attnbook.block import Block, Residual
from attnbook.families.cousins import pre_norm
from attnbook.families.decoders import decoder
from attnbook.feedforward import GatedMLP, SwiGLU
from attnbook.frequencies import linear
from attnbook.norms import RMSNorm
from attnbook.projection import Projection
from attnbook.rotary import Rotary, neighbours
from attnbook.transformer import LanguageModel


def gemma(
    V: int = 256_000,
    width: int = 3072,
    depth: int = 28,
    heads: int = 16,
    kv_heads: int = 16,
    D: int = 256,
    hidden: int = 24_576,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
) -> LanguageModel:
    """Gemma Team 2024, "Gemma", section 2 and table 1, 7B: a tied embedding times √width, norms
    whose gain is 1 + what is learned, GeGLU, heads wider than width ÷ heads."""
    norm, rotate = partial(RMSNorm, width, eps, offset=1.0), rotate or Rotary(D)

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, bias=False)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return attention, GatedMLP(width, hidden, nn.GELU(approximate="tanh"))

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), True, width**0.5)


def glm4(
    V: int = 151_552,
    width: int = 4096,
    depth: int = 40,
    heads: int = 32,
    kv_heads: int = 2,
    D: int = 128,
    hidden: int = 13_696,
    rotate: Rotary | None = None,
    bias: bool = True,
    eps: float = 1.5625e-7,
    tie: bool = False,
) -> LanguageModel:
    """Zhipu AI 2025, GLM-4-9B-0414: norms before and after each part, half of the channels rotated,
    neighbours in pairs. `bias` is that of queries, keys and values."""
    norm = partial(RMSNorm, width, eps)
    rotate = rotate or Rotary(D, frequencies=linear(D // 2), pairs=neighbours)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, D, bias)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        parts = attention, SwiGLU(width, hidden)
        return Block(*(Residual(part, norm(), norm()) for part in parts))

    return decoder(V, width, [block() for _ in range(depth)], norm(), tie)
