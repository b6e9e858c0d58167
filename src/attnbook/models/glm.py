"""GLM: GLM-4, first without and then with norms behind each part."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, Residual
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, Sizes, head_width, rotation
from attnbook.models.granite import GRANITE
from attnbook.models.layout import Table, rows
from attnbook.models.llama import of_llama
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, linear, neighbours
from attnbook.transformer import LanguageModel


def glm(
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
    """GLM Team 2024, "ChatGLM", section 2, GLM-4-9B: a norm before each part, keys that many
    queries share, biases on queries, keys and values."""
    sizes = V, width, depth, heads, kv_heads, D, hidden
    return glm4(*sizes, rotate, bias, eps, tie, after=False)


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
    after: bool = True,
) -> LanguageModel:
    """Zhipu AI 2025, GLM-4-9B-0414: norms before and after each part, half of the channels rotated,
    neighbours in pairs. `bias` is that of queries, keys and values; without `after` there are norms
    before the parts only."""
    norm = partial(RMSNorm, width, eps)
    rotate = rotate or Rotary(D, frequencies=linear(D // 2), pairs=neighbours)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, D, bias)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        parts = attention, SwiGLU(width, hidden)
        return Block(*(Residual(part, norm(), norm() if after else None) for part in parts))

    return decoder(V, width, [block() for _ in range(depth)], norm(), tie)


GLM4: Table = GRANITE | {
    "attention.after": "model.layers.{i}.post_self_attn_layernorm",
    "feedforward.after": "model.layers.{i}.post_mlp_layernorm",
    "feedforward.sublayer.gate": ("model.layers.{i}.mlp.gate_up_proj", rows(0, 2)),
    "feedforward.sublayer.up": ("model.layers.{i}.mlp.gate_up_proj", rows(1, 2)),
}


def of_glm(config: Config) -> Sizes:
    """The settings that both share."""
    sizes = of_llama(config)
    D = head_width(config, sizes["width"], sizes["heads"])
    rotate = rotation({"partial_rotary_factor": 0.5} | dict(config), D, pairs=neighbours)
    return sizes | {"D": D, "rotate": rotate, "bias": config.get("attention_bias", True)}


@family("glm", GLM4, "GlmForCausalLM", prefix="model.")
def build_glm(config: Config) -> nn.Module:
    return glm(**of_glm(config))


@family("glm4", GLM4, "Glm4ForCausalLM", prefix="model.")
def build_glm4(config: Config) -> nn.Module:
    return glm4(**of_glm(config))
