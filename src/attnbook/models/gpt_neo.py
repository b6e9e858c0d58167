"""GPT-Neo, which the small models of TinyStories are, too."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.masks import local
from attnbook.models.config import Config, activation, only, or_default, read
from attnbook.models.layout import Table
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.scores import Score
from attnbook.transformer import Embed, LanguageModel, Tied, initialise, normal


def gpt_neo(
    V: int = 50_257,
    T: int = 2048,
    width: int = 2048,
    heads: int = 16,
    windows: Sequence[int | None] = (None, 256) * 12,
    hidden: int | None = None,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
) -> LanguageModel:
    """Black et al. 2021, "GPT-Neo", 1.3 billion parameters: a GPT-2 whose scores are not divided
    by √D, and where every other block sees the last 256 positions. Queries, keys and values have no
    biases. `hidden` is 4 × width."""
    norm, gelu = partial(LayerNorm, width, eps), or_default(activation, nn.GELU("tanh"))
    inner = 4 * width if hidden is None else hidden

    def block(window: int | None) -> Block:
        project = Projection(width, heads, bias=False)
        pattern = None if window is None else local(window)
        attention = Attention(project, nn.Linear(width, width), score=Score(1.0), pattern=pattern)
        network = MLP(width, inner, gelu)
        return Block(*(PreNorm(part, norm()) for part in (attention, network)))

    embed = Embed(V, width, Learned(T, width))
    body = Stack([block(window) for window in windows], norm())
    return initialise(LanguageModel(embed, body, Tied(embed)), normal)


GPT_NEO: Table = {
    "embed.tokens": "transformer.wte",
    "embed.positions": "transformer.wpe",
    "attention.norm": "transformer.h.{i}.ln_1",
    "attention.sublayer.project.to_qkv": "transformer.h.{i}.attn.attention.q_proj k_proj v_proj",
    "attention.sublayer.to_out": "transformer.h.{i}.attn.attention.out_proj",
    "feedforward.norm": "transformer.h.{i}.ln_2",
    "feedforward.sublayer.up": "transformer.h.{i}.mlp.c_fc",
    "feedforward.sublayer.down": "transformer.h.{i}.mlp.c_proj",
    "body.norm": "transformer.ln_f",
}
MASKS = ("*.attn.attention.bias",)  # the first files hold each block's


@family("gpt_neo", GPT_NEO, "GPTNeoForCausalLM", prefix="transformer.", extra=MASKS)
def build_gpt_neo(config: Config) -> nn.Module:
    names = "vocab_size", "max_position_embeddings", "hidden_size", "num_heads"
    V, T, width, heads = read(config, *names)
    only(config, "tie_word_embeddings", True)
    kinds = config.get("attention_layers")
    if kinds is None:
        kinds = [kind for some, n in read(config, "attention_types")[0] for kind in some * n]
    window = config.get("window_size", 256)
    return gpt_neo(
        *(V, T, width, heads),
        windows=[window if kind == "local" else None for kind in kinds],
        hidden=config.get("intermediate_size"),
        eps=config.get("layer_norm_epsilon", 1e-5),
        activation=activation(config.get("activation_function", "gelu_new")),
    )
