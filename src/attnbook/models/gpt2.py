"""GPT-2."""

from functools import partial

from torch import nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.models.config import Config, only, read
from attnbook.models.layout import Table, transposed
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, normal


def gpt2(
    V: int = 50_257,
    T: int = 1024,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    dropout: float = 0.1,
    bias: bool = True,
    hidden: int | None = None,
    eps: float = 1e-5,
    attention_dropout: float = 0.0,
    embedding_dropout: float | None = None,
) -> LanguageModel:
    """Radford et al. 2019, section 2.3 and table 2, the smallest: 124 million parameters
    (the paper says 117). Without `bias` nothing is added anywhere, in norms neither (nanoGPT).
    `hidden` is 4 × width. `dropout` acts on what is added to the residual path, and on the
    embedding unless that has a rate of its own; `attention_dropout` on the weights."""
    inner = 4 * width if hidden is None else hidden
    norm = partial(LayerNorm, width, eps, bias=bias)

    def pre(part: nn.Module) -> PreNorm:
        return PreNorm(part, norm(), dropout)

    def block() -> Block:
        attention = MultiHeadAttention(width, heads, bias=bias, dropout=attention_dropout)
        return Block(pre(attention), pre(MLP(width, inner, nn.GELU(approximate="tanh"), bias=bias)))

    rate = dropout if embedding_dropout is None else embedding_dropout
    embed = Embed(V, width, Learned(T, width), dropout=rate)
    body = Stack([block() for _ in range(depth)], norm())
    return initialise(LanguageModel(embed, body, Tied(embed)), partial(normal, depth=depth))


GPT2: Table = {
    "embed.tokens": "transformer.wte",
    "embed.positions": "transformer.wpe",
    "attention.norm": "transformer.h.{i}.ln_1",
    "attention.sublayer.project.to_qkv": ("transformer.h.{i}.attn.c_attn", transposed),
    "attention.sublayer.to_out": ("transformer.h.{i}.attn.c_proj", transposed),
    "feedforward.norm": "transformer.h.{i}.ln_2",
    "feedforward.sublayer.up": ("transformer.h.{i}.mlp.c_fc", transposed),
    "feedforward.sublayer.down": ("transformer.h.{i}.mlp.c_proj", transposed),
    "body.norm": "transformer.ln_f",
}


@family("gpt2", GPT2, "GPT2LMHeadModel", prefix="transformer.")
def build_gpt2(config: Config) -> nn.Module:
    names = "vocab_size", "n_positions", "n_embd", "n_layer", "n_head"
    V, T, width, depth, heads = read(config, *names)
    only(config, "activation_function", "gelu_new", "gelu_pytorch_tanh")
    only(config, "tie_word_embeddings", True)
    only(config, "scale_attn_weights", True)
    only(config, "scale_attn_by_inverse_layer_idx", False)
    only(config, "add_cross_attention", False)
    rates = (config.get(f"{place}_pdrop", 0.1) for place in ("resid", "attn", "embd"))
    dropout, on_weights, on_embedding = rates
    eps, hidden = config.get("layer_norm_epsilon", 1e-5), config.get("n_inner")
    rest = {"attention_dropout": on_weights, "embedding_dropout": on_embedding}
    return gpt2(V, T, width, depth, heads, dropout, hidden=hidden, eps=eps, **rest)
