"""Persimmon."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import MLP, SquaredReLU
from attnbook.models.config import SIZES, Config, only, read, rotation
from attnbook.models.layout import Table, by_group
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary, linear
from attnbook.transformer import LanguageModel


def persimmon(
    V: int = 262_144,
    width: int = 4096,
    depth: int = 36,
    heads: int = 64,
    hidden: int = 16_384,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    qk_norm: bool = True,
    tie: bool = False,
) -> LanguageModel:
    """Adept 2023, "Releasing Persimmon-8B": LayerNorm before each part and for each head's queries
    and keys, half of the channels rotated, a network with a squared ReLU."""
    norm, D = partial(LayerNorm, eps=eps), width // heads
    rotate = rotate or Rotary(D, frequencies=linear(D // 2, 25_000.0))

    def parts() -> tuple[nn.Module, nn.Module]:
        norms = [norm(D), norm(D)] if qk_norm else []
        project = Projection(width, heads, None, None, True, *norms)
        attention = Attention(project, nn.Linear(width, width), rotate)
        return attention, MLP(width, hidden, SquaredReLU())

    return decoder(V, width, pre_norm(parts, depth, partial(norm, width)), norm(width), tie)


_LAYER = "model.layers.{i}"
PERSIMMON: Table = {
    "embed.tokens": "model.embed_tokens",
    "attention.norm": f"{_LAYER}.input_layernorm",
    "attention.sublayer.project.to_qkv": (f"{_LAYER}.self_attn.query_key_value", by_group),
    "attention.sublayer.project.q_norm": f"{_LAYER}.self_attn.q_layernorm",
    "attention.sublayer.project.k_norm": f"{_LAYER}.self_attn.k_layernorm",
    "attention.sublayer.to_out": f"{_LAYER}.self_attn.dense",
    "feedforward.norm": f"{_LAYER}.post_attention_layernorm",
    "feedforward.sublayer.up": f"{_LAYER}.mlp.dense_h_to_4h",
    "feedforward.sublayer.down": f"{_LAYER}.mlp.dense_4h_to_h",
    "body.norm": "model.final_layernorm",
    "lm_head": "lm_head",
}


@family("persimmon", PERSIMMON, "PersimmonForCausalLM", prefix="model.")
def build_persimmon(config: Config) -> nn.Module:
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    only(config, "hidden_act", "relu2")
    rotate = rotation({"partial_rotary_factor": 0.5} | dict(config), width // heads)
    eps, qk_norm = config.get("layer_norm_eps", 1e-5), config.get("qk_layernorm", True)
    tie = config.get("tie_word_embeddings", False)
    return persimmon(V, width, depth, heads, hidden, rotate, eps, qk_norm, tie)
