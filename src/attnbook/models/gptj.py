"""GPT-J: the first with attention and network side by side."""

from functools import partial

from torch import nn

from attnbook.feedforward import MLP
from attnbook.models.config import Config, activation, only, or_default, read
from attnbook.models.layout import Table
from attnbook.models.parts import side_by_side
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary, linear, neighbours
from attnbook.transformer import LanguageModel


def gptj(
    V: int = 50_400,
    width: int = 4096,
    depth: int = 28,
    heads: int = 16,
    hidden: int = 16_384,
    turning: int = 64,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
) -> LanguageModel:
    """Wang and Komatsuzaki 2021, 6B: the first with both parts side by side; `turning` channels of
    a head are rotated, neighbours in pairs, and the map to the vocabulary has a bias."""
    rotate = Rotary(width // heads, frequencies=linear(turning), pairs=neighbours)
    network = partial(MLP, width, hidden, or_default(activation, nn.GELU(approximate="tanh")))
    norm = partial(LayerNorm, width, eps)
    return side_by_side(V, width, depth, heads, network, rotate, norm, biases=(False, True))


GPTJ: Table = {
    "embed.tokens": "transformer.wte",
    "norm": "transformer.h.{i}.ln_1",
    "attention.project.to_qkv": "transformer.h.{i}.attn.q_proj k_proj v_proj",
    "attention.to_out": "transformer.h.{i}.attn.out_proj",
    "feedforward.up": "transformer.h.{i}.mlp.fc_in",
    "feedforward.down": "transformer.h.{i}.mlp.fc_out",
    "body.norm": "transformer.ln_f",
    "lm_head": "lm_head",
}


@family("gptj", GPTJ, "GPTJForCausalLM", prefix="transformer.")
def build_gptj(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, "vocab_size", "n_embd", "n_layer", "n_head")
    (turning,) = read(config, "rotary_dim")
    only(config, "tie_word_embeddings", False)
    function, eps = config.get("activation_function", "gelu_new"), config["layer_norm_epsilon"]
    hidden = config.get("n_inner") or 4 * width
    return gptj(V, width, depth, heads, hidden, turning, eps, activation(function))
