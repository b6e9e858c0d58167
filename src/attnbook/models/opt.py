"""OPT."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Stack
from attnbook.feedforward import MLP
from attnbook.models.config import SIZES, Config, activation, only, read
from attnbook.models.layout import Table
from attnbook.models.parts import OffsetLearned, pre_norm
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, normal


def opt(
    V: int = 50_272,
    T: int = 2048,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    activation: nn.Module | None = None,
    dropout: float = 0.0,
) -> LanguageModel:
    """Zhang et al. 2022, "OPT", table 1, 125M: GPT-2 with ReLU; its positions begin at 2."""
    norm = partial(LayerNorm, width)

    def parts() -> tuple[nn.Module, nn.Module]:
        attention = Attention(Projection(width, heads), nn.Linear(width, width))
        return attention, MLP(width, hidden, activation)

    embed = Embed(V, width, OffsetLearned(T, width, first=2))
    body = Stack(pre_norm(parts, depth, norm, dropout), norm())
    return initialise(LanguageModel(embed, body, Tied(embed)), normal)


OPT: Table = {
    "embed.tokens": "model.decoder.embed_tokens",
    "embed.positions": "model.decoder.embed_positions",
    "attention.norm": "model.decoder.layers.{i}.self_attn_layer_norm",
    "attention.sublayer.project.to_qkv": "model.decoder.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.sublayer.to_out": "model.decoder.layers.{i}.self_attn.out_proj",
    "feedforward.norm": "model.decoder.layers.{i}.final_layer_norm",
    "feedforward.sublayer.up": "model.decoder.layers.{i}.fc1",
    "feedforward.sublayer.down": "model.decoder.layers.{i}.fc2",
    "body.norm": "model.decoder.final_layer_norm",
}


@family("opt", OPT, "OPTForCausalLM", prefix="model.")
def build_opt(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, *SIZES)
    T, hidden = read(config, "max_position_embeddings", "ffn_dim")
    only(config, "word_embed_proj_dim", width)
    only(config, "do_layer_norm_before", True)
    only(config, "_remove_final_layer_norm", False)
    only(config, "enable_bias", True)
    only(config, "layer_norm_elementwise_affine", True)
    only(config, "tie_word_embeddings", True)
    function = activation(config.get("activation_function", "relu"))
    dropout = config.get("dropout", 0.1)
    return opt(V, T, width, depth, heads, hidden, function, dropout)
