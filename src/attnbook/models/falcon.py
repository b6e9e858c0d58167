"""Falcon."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import ParallelBlock
from attnbook.feedforward import MLP
from attnbook.models.config import SIZES, Config, only, read, rotation
from attnbook.models.layout import Names, Table, by_group
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel


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


FALCON: Table = {
    "embed.tokens": "transformer.word_embeddings",
    "attention.project.to_qkv": ("transformer.h.{i}.self_attention.query_key_value", by_group),
    "attention.to_out": "transformer.h.{i}.self_attention.dense",
    "feedforward.up": "transformer.h.{i}.mlp.dense_h_to_4h",
    "feedforward.down": "transformer.h.{i}.mlp.dense_4h_to_h",
    "body.norm": "transformer.ln_f",
}
FALCON_1 = FALCON | {"norm": "transformer.h.{i}.input_layernorm"}
FALCON_2 = FALCON | {
    "norm": "transformer.h.{i}.ln_attn",
    "feedforward_norm": "transformer.h.{i}.ln_mlp",
}


def falcon_names(model: nn.Module) -> Names:
    """Falcon's names: the larger ones have two norms in a block."""
    norm = getattr(model.get_submodule("body.blocks.0"), "feedforward_norm", None)
    return FALCON_1 if norm is None else FALCON_2


@family("falcon", falcon_names, "FalconForCausalLM", prefix="transformer.")
def build_falcon(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, *SIZES)
    only(config, "activation", "gelu")
    only(config, "alibi", False)
    only(config, "bias", False)
    only(config, "parallel_attn", True)
    only(config, "tie_word_embeddings", True)
    larger = config.get("new_decoder_architecture", False)
    kv_heads = (config.get("num_kv_heads") or heads) if larger else 1
    if not larger and not config.get("multi_query", True):
        kv_heads = heads
    norms = config.get("num_ln_in_parallel_attn") or (2 if larger else 1)
    hidden = config.get("ffn_hidden_size") or 4 * width
    rotate, eps = rotation(config, width // heads), config.get("layer_norm_epsilon", 1e-5)
    return falcon(V, width, depth, heads, kv_heads, hidden, rotate, norms, eps)
