"""GPT-NeoX and Pythia."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, ParallelBlock, PreNorm
from attnbook.feedforward import MLP
from attnbook.models.config import SIZES, Config, activation, only, or_default, read, rotation
from attnbook.models.layout import Table, by_group
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary, linear
from attnbook.transformer import LanguageModel


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
        network = MLP(width, hidden, or_default(activation, nn.GELU()))
        if parallel:
            return ParallelBlock(attention, network, norm(), norm())
        return Block(PreNorm(attention, norm()), PreNorm(network, norm()))

    return decoder(V, width, [block() for _ in range(depth)], norm())


NEOX: Table = {
    "embed.tokens": "gpt_neox.embed_in",
    "norm": "gpt_neox.layers.{i}.input_layernorm",
    "feedforward_norm": "gpt_neox.layers.{i}.post_attention_layernorm",
    "attention.project.to_qkv": ("gpt_neox.layers.{i}.attention.query_key_value", by_group),
    "attention.to_out": "gpt_neox.layers.{i}.attention.dense",
    "feedforward.up": "gpt_neox.layers.{i}.mlp.dense_h_to_4h",
    "feedforward.down": "gpt_neox.layers.{i}.mlp.dense_4h_to_h",
    "body.norm": "gpt_neox.final_layer_norm",
    "lm_head": "embed_out",
}
NEOX |= {  # the same with one part after the other
    "attention.norm": NEOX["norm"],
    "feedforward.norm": NEOX["feedforward_norm"],
    **{f"attention.sublayer.{p}": NEOX[f"attention.{p}"] for p in ("project.to_qkv", "to_out")},
    **{f"feedforward.sublayer.{p}": NEOX[f"feedforward.{p}"] for p in ("up", "down")},
}


@family("gpt_neox", NEOX, "GPTNeoXForCausalLM", prefix="gpt_neox.")
def build_gpt_neox(config: Config) -> nn.Module:
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    only(config, "attention_bias", True)
    only(config, "tie_word_embeddings", False)
    rope = config.get("rope_parameters") or {}
    share = rope.get("partial_rotary_factor", config.get("rotary_pct", 0.25))
    rotate = rotation(dict(config) | {"partial_rotary_factor": share}, width // heads)
    return gpt_neox(
        *(V, width, depth, heads, hidden, rotate),
        eps=config.get("layer_norm_eps", 1e-5),
        activation=activation(config.get("hidden_act", "gelu")),
        parallel=config.get("use_parallel_residual", True),
    )
