"""Gemma 1 to 3, and EmbeddingGemma."""

from collections.abc import Sequence
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, Residual
from attnbook.feedforward import GatedMLP
from attnbook.masks import local
from attnbook.models.config import (
    Config,
    Sizes,
    head_width,
    near_and_far,
    only,
    rotation,
    windows_of,
)
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.olmo import AFTER
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.scores import Score
from attnbook.transformer import LanguageModel, MaskedLanguageModel


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
    whose weight is 1 + what is learned, GeGLU, heads wider than width ÷ heads."""
    norm, rotate = partial(RMSNorm, width, eps, offset=1.0), rotate or Rotary(D)

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, bias=False)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return attention, GatedMLP(width, hidden, nn.GELU(approximate="tanh"))

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), True, width**0.5)


class Cap(nn.Module):
    """Soft cap: cap · tanh(x / cap), so that none is larger. Gemma Team 2024, section 2."""

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


def embedding_gemma(
    V: int = 262_144,
    width: int = 768,
    depth: int = 24,
    heads: int = 3,
    kv_heads: int = 1,
    D: int = 256,
    hidden: int = 1152,
    windows: Sequence[int | None] = (257, 257, 257, 257, 257, None),
    rotations: tuple[Rotary | None, Rotary | None] = (None, None),
    scale: float = 256**-0.5,
    eps: float = 1e-6,
) -> MaskedLanguageModel:
    """Vera et al. 2025, "EmbeddingGemma", section 2.1, 300M: a Gemma 3 that sees the text on both
    sides, without a head. A window is 256 positions either way."""
    sizes = V, width, depth, heads, kv_heads, D, hidden
    model = gemma3(*sizes, windows, rotations, scale, eps)
    return MaskedLanguageModel(model.embed, model.body, nn.Identity())


BOTH = AFTER | {
    "attention.before": "model.layers.{i}.input_layernorm",
    "feedforward.before": "model.layers.{i}.pre_feedforward_layernorm",
}


@family("gemma", LLAMA, "GemmaForCausalLM", prefix="model.")
def build_gemma(config: Config) -> nn.Module:
    # "gelu" in the first files meant its approximation, too
    only(config, "hidden_act", "gelu_pytorch_tanh", "gelu")
    only(config, "hidden_activation", "gelu_pytorch_tanh", None)
    only(config, "attention_bias", False)
    only(config, "use_bidirectional_attention", False, None)
    only(config, "tie_word_embeddings", True)
    sizes = of_llama(dict(config) | {"hidden_act": "silu"})
    del sizes["tie"]
    D = head_width(config, sizes["width"], sizes["heads"])
    return gemma(D=D, rotate=rotation(config, D), **sizes)


def of_gemma(config: Config, every: int) -> Sizes:
    """The settings that Gemma 2 and 3 share; each `every`-th block sees everything."""
    only(config, "hidden_activation", "gelu_pytorch_tanh")
    only(config, "attention_bias", False)
    sizes = of_llama(dict(config) | {"hidden_act": "silu"})
    del sizes["tie"]
    only(config, "tie_word_embeddings", True)
    sizes["D"] = head_width(config, sizes["width"], sizes["heads"])
    sizes["windows"] = windows_of(config, every)
    return sizes


@family("gemma2", BOTH, "Gemma2ForCausalLM", prefix="model.")
def build_gemma2(config: Config) -> nn.Module:
    sizes = of_gemma(config, every=2)
    score = config["query_pre_attn_scalar"] ** -0.5, config.get("attn_logit_softcapping")
    cap, rotate = config.get("final_logit_softcapping"), rotation(config, sizes["D"])
    return gemma2(score=score, cap=cap, rotate=rotate, **sizes)


@family("gemma3_text", BOTH, "Gemma3ForCausalLM", prefix="model.")
def build_gemma3(config: Config) -> nn.Module:
    sizes = of_gemma(config, every=6)
    only(config, "attn_logit_softcapping", None)
    only(config, "final_logit_softcapping", None)
    bases = ("rope_local_base_freq", 10_000.0), ("rope_theta", 1_000_000.0)
    rotations = near_and_far(config, sizes["D"], *bases)
    sizes |= {"rotations": rotations, "scale": config["query_pre_attn_scalar"] ** -0.5}
    if not config.get("use_bidirectional_attention"):
        return gemma3(**sizes)
    sizes["windows"] = [window and window // 2 + 1 for window in sizes["windows"]]
    return embedding_gemma(**sizes)
