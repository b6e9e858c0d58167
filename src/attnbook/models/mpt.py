"""MPT."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import MLP
from attnbook.models.config import Config, only, read
from attnbook.models.layout import Table
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Alibi
from attnbook.scores import Score
from attnbook.transformer import LanguageModel


def mpt(
    V: int = 50_432, width: int = 4096, depth: int = 32, heads: int = 32, eps: float = 1e-5
) -> LanguageModel:
    """MosaicML 2023, "Introducing MPT-7B": ALiBi in place of positions, and nothing has a bias, not
    even the norms."""
    norm, distance = partial(LayerNorm, width, eps, bias=False), Alibi(heads, published=True)

    def parts() -> tuple[nn.Module, nn.Module]:
        project, to_out = Projection(width, heads, bias=False), nn.Linear(width, width, bias=False)
        attention = Attention(project, to_out, score=Score(relative=distance))
        return attention, MLP(width, 4 * width, nn.GELU(), bias=False)

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), tie=True)


MPT: Table = {
    "embed.tokens": "transformer.wte",
    "attention.norm": "transformer.blocks.{i}.norm_1",
    "attention.sublayer.project.to_qkv": "transformer.blocks.{i}.attn.Wqkv",
    "attention.sublayer.to_out": "transformer.blocks.{i}.attn.out_proj",
    "feedforward.norm": "transformer.blocks.{i}.norm_2",
    "feedforward.sublayer.up": "transformer.blocks.{i}.ffn.up_proj",
    "feedforward.sublayer.down": "transformer.blocks.{i}.ffn.down_proj",
    "body.norm": "transformer.norm_f",
}


@family("mpt", MPT, "MptForCausalLM", prefix="transformer.")
def build_mpt(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, "vocab_size", "d_model", "n_layers", "n_heads")
    only(config, "expansion_ratio", 4)
    only(config, "no_bias", True)
    only(config, "logit_scale", None)
    only(config, "tie_word_embeddings", True)
    attention = config.get("attn_config") or {}
    only(attention, "attn_type", "multihead_attention")
    only(attention, "alibi", True)
    only(attention, "alibi_bias_max", 8)
    for name in ("clip_qkv", "softmax_scale"):
        only(attention, name, None)
    for name in ("prefix_lm", "qk_ln", "attn_uses_sequence_id"):
        only(attention, name, False)
    return mpt(V, width, depth, heads, config.get("layer_norm_epsilon", 1e-5))
