"""Decoders of 2024 and 2025 that differ from Llama by a norm, an activation or a pattern."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention
from attnbook.block import Block, Residual
from attnbook.families.cousins import pre_norm
from attnbook.families.decoders import decoder
from attnbook.feedforward import MLP, XIELU, GatedMLP, SwiGLU
from attnbook.frequencies import linear, llama3
from attnbook.masks import local
from attnbook.norms import RMSNorm
from attnbook.projection import AcrossHeads, Projection
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


def apertus(
    V: int = 131_072,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 8,
    D: int = 128,
    hidden: int = 21_504,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Swiss AI Initiative 2025, "Apertus", section 2.1, 8B: a plain network with xIELU, whose two
    curvatures are learned, and norms of queries and keys."""
    norm = partial(RMSNorm, eps=eps)
    rotate = rotate or Rotary(D, frequencies=llama3(D, 12e6, 8.0, 1.0, 4.0, 8192))

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, False, norm(D), norm(D))
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return attention, MLP(width, hidden, XIELU(), bias=False)

    return decoder(V, width, pre_norm(parts, depth, partial(norm, width)), norm(width), tie)


def normed_after(
    V: int,
    width: int,
    heads: int,
    kv_heads: int,
    D: int,
    hidden: int,
    seen: Sequence[tuple[Rotary | None, int | None]],
    across: bool,
    eps: float,
    tie: bool,
) -> LanguageModel:
    """Blocks with the norm behind each part; `seen` is the rotation and the window of each. Queries
    and keys are normed head by head, or `across` all heads together."""
    norm = partial(RMSNorm, eps=eps)

    def block(rotate: Rotary | None, window: int | None) -> Block:
        sizes = heads * D, kv_heads * D
        norms = [AcrossHeads(norm(all)) for all in sizes] if across else [norm(D), norm(D)]
        project, to_out = (
            Projection(width, heads, kv_heads, D, False, *norms),
            nn.Linear(heads * D, width, bias=False),
        )
        pattern = None if window is None else local(window)
        attention = Attention(project, to_out, rotate, pattern=pattern)
        return Block(*(Residual(p, after=norm(width)) for p in (attention, SwiGLU(width, hidden))))

    return decoder(V, width, [block(*each) for each in seen], norm(width), tie)


def olmo3(
    V: int = 100_278,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int = 32,
    hidden: int = 11_008,
    windows: Sequence[int | None] = (4096, 4096, 4096, None) * 8,
    rotations: tuple[Rotary | None, Rotary | None] = (None, None),
    eps: float = 1e-6,
    tie: bool = False,
) -> LanguageModel:
    """OLMo Team 2025, "Olmo 3", section 3.2, 7B: OLMo 2 with a window in three blocks of four.
    `rotations` are those of blocks with a window and without."""
    D = width // heads
    near, far = (rotate or Rotary(D, 500_000.0) for rotate in rotations)
    seen = [(far if window is None else near, window) for window in windows]
    return normed_after(V, width, heads, kv_heads, D, hidden, seen, True, eps, tie)


def exaone4(
    V: int = 102_400,
    width: int = 5120,
    heads: int = 40,
    kv_heads: int = 8,
    D: int = 128,
    hidden: int = 27_392,
    windows: Sequence[int | None] = (4096, 4096, 4096, None) * 16,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """LG AI Research 2025, "EXAONE 4.0", section 2.1, 32B: norms behind the parts, and blocks that
    see everything do not turn what they see, if others have a window."""
    rotate, mixed = rotate or Rotary(D, 1_000_000.0), any(windows)
    seen = [(None if mixed and window is None else rotate, window) for window in windows]
    return normed_after(V, width, heads, kv_heads, D, hidden, seen, False, eps, tie)
