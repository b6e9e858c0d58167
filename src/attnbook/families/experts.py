"""Decoders with many networks of which a token uses a few: Mixtral, DeepSeek-V3, gpt-oss."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention
from attnbook.block import Block, PreNorm
from attnbook.efficient.latent import MLA, LatentProjection
from attnbook.experts import MixtureOfExperts
from attnbook.families.decoders import decoder
from attnbook.feedforward import ClampedSwiGLU, SwiGLU
from attnbook.frequencies import yarn, yarn_temperature
from attnbook.masks import local
from attnbook.norms import RMSNorm
from attnbook.projection import Projection
from attnbook.rotary import Rotary, Rotate, neighbours
from attnbook.routing import Router, SigmoidTopK, SoftmaxTopK, TopKSoftmax
from attnbook.score import Score
from attnbook.transformer import LanguageModel


def mixtral_blocks(
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    D: int,
    hidden: int,
    experts: tuple[int, int] = (8, 2),
    rotate: Rotary | None = None,
    window: int | None = None,
    eps: float = 1e-5,
) -> list[Block]:
    """Jiang et al. 2024, section 2: Mistral's block with `experts` networks, of which some work."""
    norm, rotate = partial(RMSNorm, width, eps), rotate or Rotary(D, 1_000_000.0)
    pattern = None if window is None else local(window)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, D, bias=False)
        to_out = nn.Linear(heads * D, width, bias=False)
        attention = Attention(project, to_out, rotate, pattern=pattern)
        networks = [SwiGLU(width, hidden) for _ in range(experts[0])]
        mixture = MixtureOfExperts(networks, router=SoftmaxTopK(width, *experts))
        return Block(PreNorm(attention, norm()), PreNorm(mixture, norm()))

    return [block() for _ in range(depth)]


def latent_attention(
    width: int,
    heads: int,
    latents: tuple[int | None, int],
    parts: tuple[int, int, int],
    rotate: Rotate,
    scale: float | None = None,
    eps: float = 1e-6,
) -> MLA:
    """DeepSeek-AI 2024 (V2), section 2.1. `latents` are the widths of the short vectors for queries
    (None: none) and for keys and values, `parts` those of a head: key, rotated key, value."""
    (for_q, for_kv), (D, turned, Dv) = latents, parts
    linear = partial(nn.Linear, bias=False)
    wide = heads * (D + turned)
    to_q: nn.Module = linear(width, wide)
    if for_q is not None:
        to_q = nn.Sequential(linear(width, for_q), RMSNorm(for_q, eps), linear(for_q, wide))
    to_latent, to_kv = linear(width, for_kv + turned), linear(for_kv, heads * (D + Dv))
    project = LatentProjection(heads, to_q, to_latent, RMSNorm(for_kv, eps), to_kv)
    return MLA(project, linear(heads * Dv, width), rotate, Score(scale))


def deepseek_v3(
    V: int = 129_280,
    width: int = 7168,
    depth: int = 61,
    heads: int = 128,
    latents: tuple[int | None, int] = (1536, 512),
    parts: tuple[int, int, int] = (128, 64, 128),
    hidden: tuple[int, int] = (18_432, 2048),
    dense: int = 3,
    experts: tuple[int, int, int] = (256, 8, 1),
    groups: tuple[int, int] = (8, 4),
    factor: float = 2.5,
    rotate: Rotary | None = None,
    scale: float | None = None,
    eps: float = 1e-6,
    route: Callable[[], Router] | None = None,
) -> LanguageModel:
    """DeepSeek-AI 2024 (V3), sections 2.1 and 4.2, 671B: latent attention; after `dense` blocks
    with a network each, mixtures of many small experts and shared ones. `hidden` are the widths of
    both kinds, `experts` how many there are, work, and are shared."""
    route = route or partial(SigmoidTopK, width, *experts[:2], factor, *groups)
    norm, rotate = partial(RMSNorm, width, eps), rotate or Rotary(parts[1], pairs=neighbours)

    def mixture() -> MixtureOfExperts:
        networks = [SwiGLU(width, hidden[1]) for _ in range(experts[0])]
        shared = SwiGLU(width, experts[2] * hidden[1])
        return MixtureOfExperts(networks, router=route(), shared=shared)

    def block(i: int) -> Block:
        attention = latent_attention(width, heads, latents, parts, rotate, scale, eps)
        network = SwiGLU(width, hidden[0]) if i < dense else mixture()
        return Block(PreNorm(attention, norm()), PreNorm(network, norm()))

    return decoder(V, width, [block(i) for i in range(depth)], norm())


def gpt_oss(
    V: int = 201_088,
    width: int = 2880,
    heads: int = 64,
    kv_heads: int = 8,
    D: int = 64,
    hidden: int = 2880,
    windows: Sequence[int | None] = (128, None) * 12,
    experts: tuple[int, int] = (32, 4),
    rotate: Rotary | None = None,
    limit: float = 7.0,
    eps: float = 1e-5,
) -> LanguageModel:
    """OpenAI 2025, "gpt-oss", section 2, 20B: a learned sink for each head, every other block with
    a window of 128, biases, experts whose SwiGLU is clamped."""
    norm = partial(RMSNorm, width, eps)
    stretched = yarn(D, 150_000.0, 32.0, 4096, whole=False)
    rotate = rotate or Rotary(D, frequencies=stretched, scale=yarn_temperature(32.0))

    def block(window: int | None) -> Block:
        project, to_out = Projection(width, heads, kv_heads, D), nn.Linear(heads * D, width)
        pattern = None if window is None else local(window)
        attention = Attention(project, to_out, rotate, Score(sinks=heads), pattern)
        networks = [ClampedSwiGLU(width, hidden, limit) for _ in range(experts[0])]
        mixture = MixtureOfExperts(networks, router=TopKSoftmax(width, *experts))
        return Block(PreNorm(attention, norm()), PreNorm(mixture, norm()))

    return decoder(V, width, [block(window) for window in windows], norm())
