"""Cohere's Command R and R7B."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import ParallelBlock
from attnbook.feedforward import SwiGLU
from attnbook.masks import local
from attnbook.models.config import Config, Sizes, decoder_config, only, rotation, windows_of
from attnbook.models.layout import Table
from attnbook.models.llama import ENDS
from attnbook.models.parts import decoder, side_by_side
from attnbook.models.registry import family
from attnbook.norms import LayerNorm, PerHeadNorm, Times
from attnbook.positions import Rotary, neighbours
from attnbook.transformer import LanguageModel


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
    """Cohere 2024, Command R: one LayerNorm without bias before a SwiGLU and an attention, no
    biases, neighbours rotated in pairs, `logits` multiplied. `qk_norm` norms each head's queries
    and keys (Command R+)."""
    D = width // heads
    rotate = rotate or Rotary(D, 8_000_000.0, pairs=neighbours)
    network, norm = partial(SwiGLU, width, hidden), partial(LayerNorm, width, eps, bias=False)
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
    norm = partial(LayerNorm, width, eps, bias=False)
    rotate = rotate or Rotary(width // heads, 50_000.0, pairs=neighbours)

    def block(window: int | None) -> ParallelBlock:
        project = Projection(width, heads, kv_heads, bias=False)
        to_out = nn.Linear(width, width, bias=False)
        turn, pattern = (None, None) if window is None else (rotate, local(window))
        attention = Attention(project, to_out, turn, pattern=pattern)
        return ParallelBlock(attention, SwiGLU(width, hidden), norm())

    blocks = [block(window) for window in windows]
    return decoder(V, width, blocks, norm(), tie, after=Times(logits))


COHERE: Table = ENDS | {
    **{f"attention.project.{n}_norm": f"model.layers.{{i}}.self_attn.{n}_norm" for n in "qk"},
    "norm": "model.layers.{i}.input_layernorm",
    "attention.project.to_qkv": "model.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.to_out": "model.layers.{i}.self_attn.o_proj",
    **{f"feedforward.{p}": f"model.layers.{{i}}.mlp.{p}_proj" for p in ("gate", "up", "down")},
}


def cohere_sizes(config: Config) -> Sizes:
    """The settings that Command R and R7B share."""
    sizes = decoder_config(config, tie=True)
    only(config, "hidden_act", "silu")
    only(config, "attention_bias", False)
    return {
        **vars(sizes),
        "rotate": rotation(config, sizes.D, pairs=neighbours),
        "eps": config.get("layer_norm_eps", 1e-5),
        "logits": config.get("logit_scale", 0.0625),
    }


@family("cohere", COHERE, "CohereForCausalLM", prefix="model.")
def build_cohere(config: Config) -> nn.Module:
    return cohere(qk_norm=config.get("use_qk_norm", False), **cohere_sizes(config))


@family("cohere2", COHERE, "Cohere2ForCausalLM", prefix="model.")
def build_cohere2(config: Config) -> nn.Module:
    only(config, "use_qk_norm", False)
    sizes = cohere_sizes(config)
    del sizes["depth"]  # there are as many as windows
    return cohere2(windows=windows_of(config, every=4), **sizes)
