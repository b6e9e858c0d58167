"""StarCoder 2."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import MLP
from attnbook.masks import local
from attnbook.models.config import Config, activation, frame, only, or_default
from attnbook.models.layout import Table
from attnbook.models.llama import LLAMA
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel


def starcoder2(
    V: int = 49_152,
    width: int = 3072,
    depth: int = 30,
    heads: int = 24,
    kv_heads: int = 2,
    hidden: int = 12_288,
    window: int | None = 4096,
    rotate: Rotary | None = None,
    bias: bool = True,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
) -> LanguageModel:
    """Lozhkov et al. 2024, "StarCoder 2", table 6, 3B: LayerNorm, a plain network, biases, shared
    keys, a window, and a tied embedding."""
    norm, D = partial(LayerNorm, width, eps), width // heads
    rotate = rotate or Rotary(D, 999_999.442)
    gelu = or_default(activation, nn.GELU(approximate="tanh"))
    pattern = None if window is None else local(window)

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, bias=bias)
        to_out = nn.Linear(width, width, bias=bias)
        attention = Attention(project, to_out, rotate, pattern=pattern)
        return attention, MLP(width, hidden, gelu, bias=bias)

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), tie=True)


STARCODER2: Table = LLAMA | {
    "feedforward.sublayer.up": "model.layers.{i}.mlp.c_fc",
    "feedforward.sublayer.down": "model.layers.{i}.mlp.c_proj",
}


@family("starcoder2", STARCODER2, "Starcoder2ForCausalLM", prefix="model.")
def build_starcoder2(config: Config) -> nn.Module:
    only(config, "tie_word_embeddings", True)
    sizes = frame(config)
    del sizes["tie"]
    return starcoder2(
        window=config.get("sliding_window"),
        bias=config.get("use_bias", True),
        eps=config.get("norm_epsilon", 1e-5),
        activation=activation(config.get("hidden_act", "gelu_pytorch_tanh")),
        **sizes,
    )
