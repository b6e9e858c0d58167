"""Cousins of Llama: the same frame, with another norm, another network, or some multipliers."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from attnbook.attention import Attention
from attnbook.block import Block, PreNorm, Residual, Stack
from attnbook.families.decoders import decoder
from attnbook.families.encoders import Later
from attnbook.families.settings import given
from attnbook.feedforward import MLP, SquaredReLU, SwiGLU
from attnbook.frequencies import linear
from attnbook.initial import initialise, normal, tied
from attnbook.masks import local
from attnbook.norms import LayerNorm, PerHeadNorm, RMSNorm
from attnbook.projection import Projection
from attnbook.rotary import Rotary
from attnbook.score import Score
from attnbook.transformer import Embed, LanguageModel


class Times(nn.Module):
    """Each number times a constant."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def granite(
    V: int = 49_155,
    width: int = 4096,
    depth: int = 40,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 12_800,
    rotate: Rotary | None = None,
    multipliers: tuple[float, float, float, float] = (12.0, 1 / 128, 0.22, 1 / 16),
    eps: float = 1e-5,
    tie: bool = True,
) -> LanguageModel:
    """Granite Team 2024, "Granite 3.0 language models", table 1, 8B: a Llama in which the
    embedding, the scores, what each part adds, and the logits have a multiplier (in this order), so
    that settings found with a small model hold for a large one (Yang et al. 2022, "µP")."""
    norm, D = partial(RMSNorm, width, eps), width // heads
    embedding, scores, added, logits = multipliers
    rotate = rotate or Rotary(D)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, bias=False)
        to_out = nn.Linear(width, width, bias=False)
        parts = Attention(project, to_out, rotate, Score(scores)), SwiGLU(width, hidden)
        return Block(*(Residual(part, norm(), Times(added)) for part in parts))

    blocks = [block() for _ in range(depth)]
    return decoder(V, width, blocks, norm(), tie, embedding, Times(logits))


def pre_norm(
    parts: Callable[[], tuple[nn.Module, nn.Module]], depth: int, norm: Callable[[], nn.Module]
) -> list[Block]:
    """Blocks of an attention and a network, each behind a norm of its own."""
    return [Block(*(PreNorm(part, norm()) for part in parts())) for _ in range(depth)]


def stablelm(
    V: int = 50_304,
    width: int = 2560,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 32,
    hidden: int = 6912,
    rotate: Rotary | None = None,
    bias: bool = False,
    eps: float = 1e-5,
    tie: bool = False,
    qk_norm: bool = False,
) -> LanguageModel:
    """Tow et al. 2023, StableLM 3B: LayerNorm, and a quarter of the channels is rotated. `bias` is
    that of queries, keys and values, `qk_norm` norms queries and keys (StableLM 2 12B)."""
    norm, D = partial(LayerNorm, width, eps), width // heads
    rotate = rotate or Rotary(D, frequencies=linear(D // 4))

    def parts() -> tuple[nn.Module, nn.Module]:
        norms = [PerHeadNorm(n, D, eps) for n in (heads, kv_heads)] if qk_norm else []
        project = Projection(width, heads, kv_heads, None, bias, *norms)
        attention = Attention(project, nn.Linear(width, width, bias=False), rotate)
        return attention, SwiGLU(width, hidden)

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), tie)


def starcoder2(
    V: int = 49_152,
    width: int = 3072,
    depth: int = 30,
    heads: int = 24,
    kv_heads: int = 2,
    hidden: int = 12_288,
    window: int | None = 4096,
    rotate: Rotary | None = None,
    bias: bool = True,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
) -> LanguageModel:
    """Lozhkov et al. 2024, "StarCoder 2", table 6, 3B: LayerNorm, a plain network, biases, shared
    keys, a window, and a tied embedding."""
    norm, D = partial(LayerNorm, width, eps), width // heads
    rotate = rotate or Rotary(D, 999_999.442)
    gelu = given(activation, nn.GELU(approximate="tanh"))
    pattern = None if window is None else local(window)

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, bias=bias)
        to_out = nn.Linear(width, width, bias=bias)
        attention = Attention(project, to_out, rotate, pattern=pattern)
        return attention, MLP(width, hidden, gelu, bias=bias)

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), tie=True)


def nemotron(
    V: int = 256_000,
    width: int = 6144,
    depth: int = 32,
    heads: int = 48,
    kv_heads: int = 8,
    hidden: int = 24_576,
    D: int = 128,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
) -> LanguageModel:
    """Parmar et al. 2024, "Nemotron-4 15B", section 2: LayerNorm whose gain is 1 + what is learned,
    a network with a squared ReLU, half of the channels rotated, no biases."""
    norm = partial(LayerNorm, width, eps, offset=1.0)
    rotate = rotate or Rotary(D, frequencies=linear(D // 2))

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, bias=False)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return attention, MLP(width, hidden, SquaredReLU(), bias=False)

    return decoder(V, width, pre_norm(parts, depth, norm), norm())


def opt(
    V: int = 50_272,
    T: int = 2048,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    activation: nn.Module | None = None,
) -> LanguageModel:
    """Zhang et al. 2022, "OPT", table 1, 125M: GPT-2 with ReLU; its positions begin at 2."""
    norm = partial(LayerNorm, width)

    def parts() -> tuple[nn.Module, nn.Module]:
        attention = Attention(Projection(width, heads), nn.Linear(width, width))
        return attention, MLP(width, hidden, activation)

    embed = Embed(V, width, Later(T, width, first=2))
    body = Stack(pre_norm(parts, depth, norm), norm())
    return initialise(LanguageModel(embed, body, tied(embed)), normal)
