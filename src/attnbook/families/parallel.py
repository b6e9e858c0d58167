"""Decoders with attention and network side by side, or with a bias for distance: 2022 and 2023."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from attnbook.attention import Attention
from attnbook.block import Block, ParallelBlock, PreNorm, Stack
from attnbook.families.cousins import Times
from attnbook.families.decoders import decoder
from attnbook.families.settings import given
from attnbook.feedforward import MLP, SwiGLU
from attnbook.frequencies import linear
from attnbook.initial import initialise, normal, tied
from attnbook.masks import local
from attnbook.norms import LayerNorm, PerHeadNorm
from attnbook.positions import Alibi
from attnbook.projection import Projection
from attnbook.rotary import Rotary, neighbours
from attnbook.score import Score
from attnbook.transformer import Embed, LanguageModel


def gpt_neox(
    V: int = 50_432,
    width: int = 6144,
    depth: int = 44,
    heads: int = 64,
    hidden: int = 24_576,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
    parallel: bool = True,
) -> LanguageModel:
    """Black et al. 2022, section 2.1, 20B: both parts read the same x, each through its own norm,
    and a quarter of the channels is rotated. Pythia is of this family."""
    norm, D = partial(LayerNorm, width, eps), width // heads
    rotate = rotate or Rotary(D, frequencies=linear(D // 4))

    def block() -> nn.Module:
        attention = Attention(Projection(width, heads), nn.Linear(width, width), rotate)
        network = MLP(width, hidden, given(activation, nn.GELU()))
        if parallel:
            return ParallelBlock(attention, network, norm(), norm())
        return Block(PreNorm(attention, norm()), PreNorm(network, norm()))

    return decoder(V, width, [block() for _ in range(depth)], norm())


def falcon(
    V: int = 65_024,
    width: int = 4544,
    depth: int = 32,
    heads: int = 71,
    kv_heads: int = 1,
    hidden: int = 18_176,
    rotate: Rotary | None = None,
    norms: int = 1,
    eps: float = 1e-5,
) -> LanguageModel:
    """Almazrouei et al. 2023, section 4, 7B: one key for all queries, attention and network side by
    side behind one norm (`norms=2` in the larger ones), no biases."""
    norm, D = partial(LayerNorm, width, eps), width // heads
    rotate = rotate or Rotary(D)

    def block() -> ParallelBlock:
        project = Projection(width, heads, kv_heads, bias=False)
        attention = Attention(project, nn.Linear(width, width, bias=False), rotate)
        network = MLP(width, hidden, nn.GELU(), bias=False)
        return ParallelBlock(attention, network, norm(), norm() if norms == 2 else None)

    return decoder(V, width, [block() for _ in range(depth)], norm(), tie=True)


def bloom(
    V: int = 250_880, width: int = 14_336, depth: int = 70, heads: int = 112, eps: float = 1e-5
) -> LanguageModel:
    """Scao et al. 2022, section 3.2, 176B: ALiBi in place of positions, and a norm behind the
    embedding."""
    norm, distance = partial(LayerNorm, width, eps), Alibi(heads, published=True)

    def block() -> Block:
        project, to_out = Projection(width, heads), nn.Linear(width, width)
        attention = Attention(project, to_out, score=Score(relative=distance))
        network = MLP(width, 4 * width, nn.GELU(approximate="tanh"))
        return Block(PreNorm(attention, norm()), PreNorm(network, norm()))

    embed = Embed(V, width, norm=norm())
    body = Stack([block() for _ in range(depth)], norm())
    return initialise(LanguageModel(embed, body, tied(embed)), normal)


def side_by_side(
    V: int,
    width: int,
    depth: int,
    heads: int,
    network: Callable[[], nn.Module],
    rotate: Rotary,
    norm: Callable[[], nn.Module],
    kv_heads: int | None = None,
    biases: tuple[bool, bool] = (False, False),
    qk_norm: Callable[[int], nn.Module] | None = None,
    **ends: Any,
) -> LanguageModel:
    """Attention and network behind one norm. `biases` are those of the attention and of the map to
    the vocabulary, `qk_norm` makes the norm of so many heads' queries or keys, `ends` is what
    `decoder` is told besides."""

    def block() -> ParallelBlock:
        norms = [qk_norm(n) for n in (heads, kv_heads or heads)] if qk_norm else []
        project = Projection(width, heads, kv_heads, None, biases[0], *norms)
        attention = Attention(project, nn.Linear(width, width, bias=biases[0]), rotate)
        return ParallelBlock(attention, network(), norm())

    blocks = [block() for _ in range(depth)]
    return decoder(V, width, blocks, norm(), bias=biases[1], **ends)


def gptj(
    V: int = 50_400,
    width: int = 4096,
    depth: int = 28,
    heads: int = 16,
    hidden: int = 16_384,
    turning: int = 64,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
) -> LanguageModel:
    """Wang and Komatsuzaki 2021, 6B: the first with both parts side by side; `turning` channels of
    a head are rotated, neighbours in pairs, and the map to the vocabulary has a bias."""
    rotate = Rotary(width // heads, frequencies=linear(turning), pairs=neighbours)
    network = partial(MLP, width, hidden, given(activation, nn.GELU(approximate="tanh")))
    norm = partial(LayerNorm, width, eps)
    return side_by_side(V, width, depth, heads, network, rotate, norm, biases=(False, True))


def phi(
    V: int = 51_200,
    width: int = 2560,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 32,
    hidden: int = 10_240,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
    qk_norm: bool = False,
) -> LanguageModel:
    """Javaheripi et al. 2023, Phi-2: GPT-J's block with biases everywhere; 40 % of the channels
    are rotated. `qk_norm` norms each head's queries and keys."""
    D = width // heads
    rotate = rotate or Rotary(D, frequencies=linear(int(0.4 * D)))
    network = partial(MLP, width, hidden, given(activation, nn.GELU(approximate="tanh")))
    norm, each = partial(LayerNorm, width, eps), (lambda n: LayerNorm(D, eps)) if qk_norm else None
    parts = network, rotate, norm
    return side_by_side(V, width, depth, heads, *parts, kv_heads, (True, True), each)


def cohere(
    V: int = 256_000,
    width: int = 8192,
    depth: int = 40,
    heads: int = 64,
    kv_heads: int = 64,
    hidden: int = 22_528,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    logits: float = 0.0625,
    tie: bool = True,
    qk_norm: bool = False,
) -> LanguageModel:
    """Cohere 2024, Command R: one LayerNorm without shift before a SwiGLU and an attention, no
    biases, neighbours rotated in pairs, `logits` multiplied. `qk_norm` norms each head's queries
    and keys (Command R+)."""
    D = width // heads
    rotate = rotate or Rotary(D, 8_000_000.0, pairs=neighbours)
    network, norm = partial(SwiGLU, width, hidden), partial(LayerNorm, width, eps, shift=False)
    parts, each = (network, rotate, norm), partial(PerHeadNorm, D=D, eps=eps) if qk_norm else None
    sizes, last = (V, width, depth, heads), Times(logits)
    return side_by_side(*sizes, *parts, kv_heads, qk_norm=each, tie=tie, after=last)


def cohere2(
    V: int = 256_000,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 14_336,
    windows: Sequence[int | None] = (4096, 4096, 4096, None) * 8,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    logits: float = 0.25,
    tie: bool = True,
) -> LanguageModel:
    """Cohere 2024, Command R7B: Command R's block; three with a window to one that sees all of the
    past and turns nothing, so that it compares content alone."""
    norm = partial(LayerNorm, width, eps, shift=False)
    rotate = rotate or Rotary(width // heads, 50_000.0, pairs=neighbours)

    def block(window: int | None) -> ParallelBlock:
        project = Projection(width, heads, kv_heads, bias=False)
        to_out = nn.Linear(width, width, bias=False)
        turn, pattern = (None, None) if window is None else (rotate, local(window))
        attention = Attention(project, to_out, turn, pattern=pattern)
        return ParallelBlock(attention, SwiGLU(width, hidden), norm())

    blocks = [block(window) for window in windows]
    return decoder(V, width, blocks, norm(), tie, after=Times(logits))
