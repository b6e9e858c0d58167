"""OLMo 2 and 3, and OLMoE: the norm stands behind each part."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import AcrossHeads, Attention, Projection
from attnbook.block import Block, Residual
from attnbook.feedforward import SwiGLU
from attnbook.masks import local
from attnbook.models.config import Config, near_and_far, only, rotation, windows_of
from attnbook.models.llama import ATTENTION, ENDS, NETWORK, of_llama
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.qwen import QWEN_MOE, of_mixture, softmax_mixture
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel


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


def olmoe(
    V: int = 50_304,
    width: int = 2048,
    depth: int = 16,
    heads: int = 16,
    kv_heads: int = 16,
    hidden: int = 1024,
    experts: tuple[int, int] = (64, 8),
    sum_to_one: bool = False,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Muennighoff et al. 2024, "OLMoE", section 2 and table 1, 1B-7B: 64 small experts, whose
    chances stay as they are, and norms of queries and keys over all heads together."""
    norm, D = partial(RMSNorm, eps=eps), width // heads
    rotate = rotate or Rotary(D)

    def parts() -> tuple[nn.Module, nn.Module]:
        norms = AcrossHeads(norm(heads * D)), AcrossHeads(norm(kv_heads * D))
        project = Projection(width, heads, kv_heads, D, False, *norms)
        attention = Attention(project, nn.Linear(width, width, bias=False), rotate)
        return attention, softmax_mixture(width, hidden, experts, sum_to_one)

    return decoder(V, width, pre_norm(parts, depth, partial(norm, width)), norm(width), tie)


AFTER = (
    ATTENTION
    | NETWORK
    | ENDS
    | {
        "attention.after": "model.layers.{i}.post_attention_layernorm",
        "feedforward.after": "model.layers.{i}.post_feedforward_layernorm",
    }
)


@family("olmo2", AFTER, "Olmo2ForCausalLM", prefix="model.")
def build_olmo2(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    D = sizes["width"] // sizes["heads"]
    return olmo2(rotate=rotation(config, D), **sizes)


@family("olmo3", AFTER, "Olmo3ForCausalLM", prefix="model.")
def build_olmo3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    bases = [("rope_theta", 500_000.0)] * 2
    rotations = near_and_far(config, sizes["width"] // sizes["heads"], *bases)
    del sizes["depth"]
    return olmo3(windows=windows_of(config, every=4), rotations=rotations, **sizes)


@family("olmoe", QWEN_MOE, "OlmoeForCausalLM", prefix="model.")
def build_olmoe(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    rotate = rotation(config, sizes["width"] // sizes["heads"])
    return olmoe(rotate=rotate, **sizes)
