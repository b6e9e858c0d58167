"""Decoders since Llama, each a short list of parts: read one beside another to see what changed.

Defaults are the published sizes of one model of the family. Whatever is not a size is a part.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import Attention
from attnbook.block import Block, PreNorm, Residual, Stack
from attnbook.feedforward import GatedMLP, SwiGLU
from attnbook.initial import initialise, normal, tied
from attnbook.masks import Pattern, local
from attnbook.norms import RMSNorm
from attnbook.projection import AcrossHeads, Projection
from attnbook.rotary import Rotary
from attnbook.score import Score
from attnbook.transformer import Embed, LanguageModel


def decoder(
    V: int,
    width: int,
    blocks: Sequence[nn.Module],
    norm: nn.Module,
    tie: bool = False,
    scale: float = 1.0,
    after: nn.Module | None = None,
    bias: bool = False,
) -> LanguageModel:
    """A language model of these blocks, and no positions beside theirs.

    `tie` uses the embedding as the map to the vocabulary, too, which has a `bias` or none; `after`
    changes its logits.
    """
    embed = Embed(V, width, scale=scale)
    to_vocab: nn.Module = tied(embed, bias) if tie else nn.Linear(width, V, bias)
    if after is not None:
        to_vocab = nn.Sequential(to_vocab, after)
    return initialise(LanguageModel(embed, Stack(blocks, norm), to_vocab), normal)


def qwen2(
    V: int = 151_936,
    width: int = 3584,
    depth: int = 28,
    heads: int = 28,
    kv_heads: int = 4,
    hidden: int = 18_944,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = False,
    network: Callable[[], nn.Module] | None = None,
) -> LanguageModel:
    """Yang et al. 2024, "Qwen2", table 1, 7B: Llama with biases on queries, keys and values."""
    norm, D = partial(RMSNorm, width, eps), width // heads
    rotate, network = rotate or Rotary(D, 1_000_000.0), network or partial(SwiGLU, width, hidden)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, bias=True)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return Block(PreNorm(attention, norm()), PreNorm(network(), norm()))

    return decoder(V, width, [block() for _ in range(depth)], norm(), tie)


def qwen3(
    V: int = 151_936,
    width: int = 4096,
    depth: int = 36,
    heads: int = 32,
    kv_heads: int = 8,
    D: int = 128,
    hidden: int = 12_288,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = False,
    network: Callable[[], nn.Module] | None = None,
) -> LanguageModel:
    """Yang et al. 2025, "Qwen3", section 2, 8B: no biases, and a norm for each head's queries and
    one for its keys."""
    norm = partial(RMSNorm, eps=eps)
    rotate, network = rotate or Rotary(D, 1_000_000.0), network or partial(SwiGLU, width, hidden)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, D, False, norm(D), norm(D))
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return Block(PreNorm(attention, norm(width)), PreNorm(network(), norm(width)))

    return decoder(V, width, [block() for _ in range(depth)], norm(width), tie)


def windows(
    patterns: Sequence[Pattern | None],
    V: int = 32_000,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    D: int = 128,
    hidden: int = 14_336,
    rotations: Sequence[Rotary | None] = (),
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """A Llama whose blocks differ: each has its own pattern (None: all of the past) and its own
    rotation (None: no positions at all)."""
    norm = partial(RMSNorm, width, eps)

    def block(pattern: Pattern | None, rotate: Rotary | None) -> Block:
        project = Projection(width, heads, kv_heads, D, bias=False)
        to_out = nn.Linear(heads * D, width, bias=False)
        attention = Attention(project, to_out, rotate, pattern=pattern)
        return Block(PreNorm(attention, norm()), PreNorm(SwiGLU(width, hidden), norm()))

    rotations = rotations or [Rotary(D)] * len(patterns)
    blocks = [block(*parts) for parts in zip(patterns, rotations, strict=True)]
    return decoder(V, width, blocks, norm(), tie)


def mistral(depth: int = 32, window: int | None = 4096, **sizes: Any) -> LanguageModel:
    """Jiang et al. 2023, table 1: a Llama of shared keys that sees the last 4,096 positions."""
    return windows([None if window is None else local(window)] * depth, **sizes)


def smollm3(
    depth: int = 36, every: int = 4, rotate: Rotary | None = None, **sizes: Any
) -> LanguageModel:
    """Hugging Face 2025, SmolLM3 3B: in every fourth block queries and keys are not rotated, so
    that it compares content alone (Yang et al. 2025, "Rope to Nope and Back Again")."""
    sizes = {"V": 128_256, "width": 2048, "heads": 16, "kv_heads": 4, "hidden": 11_008} | sizes
    rotate = rotate or Rotary(int(sizes.get("D", 128)), 5_000_000.0)
    rotations = [rotate if (i + 1) % every else None for i in range(depth)]
    return windows([None] * depth, rotations=rotations, **{"eps": 1e-6, "tie": True, **sizes})


class Cap(nn.Module):
    """Numbers bent so that none is larger: cap · tanh(x / cap). Gemma Team 2024, section 2."""

    def __init__(self, cap: float):
        super().__init__()
        self.cap = cap

    def forward(self, x: Float[Tensor, "*batch V"]) -> Float[Tensor, "*batch V"]:
        return self.cap * (x / self.cap).tanh()


def gemma2(
    V: int = 256_000,
    width: int = 2304,
    depth: int = 26,
    heads: int = 8,
    kv_heads: int = 4,
    D: int = 256,
    hidden: int = 9216,
    windows: Sequence[int | None] = (4096, None),
    rotate: Rotary | None = None,
    score: tuple[float, float | None] = (256**-0.5, 50.0),
    cap: float | None = 30.0,
    eps: float = 1e-6,
) -> LanguageModel:
    """Gemma Team 2024, "Gemma 2", table 1, 2B: a norm on both sides of each part, GeGLU, scores and
    logits with a soft cap, every other block with a window. `score` is its scale and its cap."""
    norm = partial(RMSNorm, eps=eps, offset=1.0)
    rotate = rotate or Rotary(D)

    def block(window: int | None) -> Block:
        project = Projection(width, heads, kv_heads, D, bias=False)
        pattern = None if window is None else local(window)
        to_out = nn.Linear(heads * D, width, bias=False)
        attention = Attention(project, to_out, rotate, Score(*score), pattern)
        network = GatedMLP(width, hidden, nn.GELU(approximate="tanh"))
        return Block(*(Residual(p, norm(width), norm(width)) for p in (attention, network)))

    blocks = [block(windows[i % len(windows)]) for i in range(depth)]
    after = None if cap is None else Cap(cap)
    return decoder(V, width, blocks, norm(width), True, width**0.5, after)


def gemma3(
    V: int = 262_208,
    width: int = 2560,
    depth: int = 34,
    heads: int = 8,
    kv_heads: int = 4,
    D: int = 256,
    hidden: int = 10_240,
    windows: Sequence[int | None] = (1024, 1024, 1024, 1024, 1024, None),
    rotations: tuple[Rotary | None, Rotary | None] = (None, None),
    scale: float = 256**-0.5,
    eps: float = 1e-6,
) -> LanguageModel:
    """Gemma Team 2025, "Gemma 3", section 2, 4B: norms of queries and keys in place of the caps,
    five blocks with a window to one without. `rotations` are those of the two kinds."""
    norm = partial(RMSNorm, eps=eps, offset=1.0)
    near, far = rotations[0] or Rotary(D), rotations[1] or Rotary(D, 1_000_000.0)

    def block(window: int | None) -> Block:
        project = Projection(width, heads, kv_heads, D, False, norm(D), norm(D))
        to_out = nn.Linear(heads * D, width, bias=False)
        seen = (far, None) if window is None else (near, local(window))
        attention = Attention(project, to_out, seen[0], Score(scale), seen[1])
        network = GatedMLP(width, hidden, nn.GELU(approximate="tanh"))
        return Block(*(Residual(p, norm(width), norm(width)) for p in (attention, network)))

    blocks = [block(windows[i % len(windows)]) for i in range(depth)]
    return decoder(V, width, blocks, norm(width), True, width**0.5)


def olmo2(
    V: int = 100_352,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int | None = None,
    hidden: int = 11_008,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = False,
) -> LanguageModel:
    """OLMo Team 2025, "2 OLMo 2 Furious", section 3.1, 7B: the norm stands behind each part, and
    queries and keys have norms over all heads together."""
    norm, D = partial(RMSNorm, eps=eps), width // heads
    shared, rotate = heads if kv_heads is None else kv_heads, rotate or Rotary(D, 500_000.0)

    def block() -> Block:
        norms = AcrossHeads(norm(heads * D)), AcrossHeads(norm(shared * D))
        project = Projection(width, heads, shared, D, False, *norms)
        attention = Attention(project, nn.Linear(width, width, bias=False), rotate)
        return Block(*(Residual(p, after=norm(width)) for p in (attention, SwiGLU(width, hidden))))

    return decoder(V, width, [block() for _ in range(depth)], norm(width), tie)


def phi3(depth: int = 32, window: int | None = 2047, **sizes: Any) -> LanguageModel:
    """Abdin et al. 2024, "Phi-3", section 2, mini: a Llama with a window. Phi-4-mini turns a
    part of the channels only, as a `Rotary` of fewer frequencies does."""
    sizes = {"V": 32_064, "width": 3072, "kv_heads": 32, "D": 96, "hidden": 8192} | sizes
    return mistral(depth, window, **sizes)
