"""BLOOM."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.models.config import Config, only, read
from attnbook.models.layout import Table, by_group
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Alibi
from attnbook.scores import Score
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, normal


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
    return initialise(LanguageModel(embed, body, Tied(embed)), normal)


BLOOM: Table = {
    "embed.tokens": "transformer.word_embeddings",
    "embed.norm": "transformer.word_embeddings_layernorm",
    "attention.norm": "transformer.h.{i}.input_layernorm",
    "attention.sublayer.project.to_qkv": (
        "transformer.h.{i}.self_attention.query_key_value",
        by_group,
    ),
    "attention.sublayer.to_out": "transformer.h.{i}.self_attention.dense",
    "feedforward.norm": "transformer.h.{i}.post_attention_layernorm",
    "feedforward.sublayer.up": "transformer.h.{i}.mlp.dense_h_to_4h",
    "feedforward.sublayer.down": "transformer.h.{i}.mlp.dense_4h_to_h",
    "body.norm": "transformer.ln_f",
}


@family("bloom", BLOOM, "BloomForCausalLM", prefix="transformer.")
def build_bloom(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, "vocab_size", "hidden_size", "n_layer", "n_head")
    only(config, "apply_residual_connection_post_layernorm", False)
    eps = config.get("layer_norm_epsilon", 1e-5)
    return bloom(V, width, depth, heads, eps)
