"""BART."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import Attention, MultiHeadAttention, SplitProjection
from attnbook.block import Block, CrossBlock, PostNorm, Stack
from attnbook.feedforward import MLP
from attnbook.models.config import Config, activation, only, or_default, read
from attnbook.models.layout import Table, reshaped
from attnbook.models.parts import OffsetLearned
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.transformer import Embed, EncoderDecoder, Tied, initialise, normal


class Shift(nn.Module):
    """Logits plus a number for each token that is published and not trained; 0 in most files."""

    bias: Tensor

    def __init__(self, V: int):
        super().__init__()
        self.register_buffer("bias", torch.zeros(V))

    def forward(self, logits: Float[Tensor, "*batch V"]) -> Float[Tensor, "*batch V"]:
        return logits + self.bias


def bart(
    V: int = 50_265,
    T: int = 1024,
    width: int = 1024,
    depth: tuple[int, int] = (12, 12),
    heads: tuple[int, int] = (16, 16),
    hidden: tuple[int, int] = (4096, 4096),
    scale: float = 1.0,
    activation: nn.Module | None = None,
    dropout: float = 0.1,
) -> EncoderDecoder:
    """Lewis et al. 2020, section 2.1, large: the transformer of 2017 with GELU, learned positions
    that begin at 2, and a norm behind each embedding. Pairs are of encoder and decoder."""

    def post(part: nn.Module) -> PostNorm:
        return PostNorm(part, LayerNorm(width), dropout)

    def network(hidden: int) -> PostNorm:
        return post(MLP(width, hidden, or_default(activation, nn.GELU())))

    def across() -> PostNorm:
        maps = (nn.Linear(width, width) for _ in range(3))
        return post(Attention(SplitProjection(heads[1], *maps), nn.Linear(width, width)))

    tokens = nn.Embedding(V, width)
    source, target = (
        Embed(tokens, width, OffsetLearned(T, width, 2), scale, LayerNorm(width), dropout)
        for _ in range(2)
    )
    own = [partial(MultiHeadAttention, width, n) for n in heads]
    reads = [Block(post(own[0]()), network(hidden[0])) for _ in range(depth[0])]
    writes = [CrossBlock(post(own[1]()), across(), network(hidden[1])) for _ in range(depth[1])]
    lm_head = nn.Sequential(Tied(source), Shift(V))
    model = EncoderDecoder(source, Stack(reads), target, Stack(writes), lm_head)
    return initialise(model, normal)


BART: Table = {
    "source_embed.tokens": "model.shared",
    "lm_head.1.bias": ("final_logits_bias", reshaped(1)),
}
for _side, _stack in (("source", "encoder"), ("target", "decoder")):
    _layer = f"model.{_stack}.layers.{{i}}"
    BART[f"{_side}_embed.positions"] = f"model.{_stack}.embed_positions"
    BART[f"{_side}_embed.norm"] = f"model.{_stack}.layernorm_embedding"
    for _part, _name in (("attention", "self_attn"), ("cross_attention", "encoder_attn")):
        BART[f"{_stack}.{_part}.norm"] = f"{_layer}.{_name}_layer_norm"
        BART[f"{_stack}.{_part}.sublayer.to_out"] = f"{_layer}.{_name}.out_proj"
        BART[f"{_stack}.{_part}.sublayer.project.to_qkv"] = f"{_layer}.{_name}.q_proj k_proj v_proj"
        for _map in "qkv":
            BART[f"{_stack}.{_part}.sublayer.project.to_{_map}"] = f"{_layer}.{_name}.{_map}_proj"
    BART[f"{_stack}.feedforward.norm"] = f"{_layer}.final_layer_norm"
    for _ours, _theirs in (("up", "fc1"), ("down", "fc2")):
        BART[f"{_stack}.feedforward.sublayer.{_ours}"] = f"{_layer}.{_theirs}"


@family(
    "bart", BART, "BartForConditionalGeneration", prefix="model.", lacking=("final_logits_bias",)
)
def build_bart(config: Config) -> nn.Module:
    V, T, width = read(config, "vocab_size", "max_position_embeddings", "d_model")
    sides = ("encoder", "decoder")
    depth, heads, hidden = (
        tuple(read(config, *(f"{side}_{size}" for side in sides)))
        for size in ("layers", "attention_heads", "ffn_dim")
    )
    only(config, "tie_word_embeddings", True)
    only(config, "normalize_before", False)
    only(config, "add_final_layer_norm", False)
    only(config, "normalize_embedding", True)
    only(config, "static_position_embeddings", False)
    function = activation(config.get("activation_function", "gelu"))
    scale = width**0.5 if config.get("scale_embedding", False) else 1.0
    dropout = config.get("dropout", 0.1)
    return bart(V, T, width, depth, heads, hidden, scale, function, dropout)
