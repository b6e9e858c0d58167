"""Nemotron-4."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import MLP, SquaredReLU
from attnbook.models.config import Config, frame, head_width, only
from attnbook.models.llama import LLAMA
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary, linear
from attnbook.transformer import LanguageModel


def nemotron(
    V: int = 256_000,
    width: int = 6144,
    depth: int = 32,
    heads: int = 48,
    kv_heads: int = 8,
    hidden: int = 24_576,
    D: int = 128,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Parmar et al. 2024, "Nemotron-4 15B", section 2: LayerNorm whose weight is 1 + what it
    learned, a network with a squared ReLU, half of the channels rotated, no biases."""
    norm = partial(LayerNorm, width, eps, offset=1.0)
    rotate = rotate or Rotary(D, frequencies=linear(D // 2))

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, bias=False)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return attention, MLP(width, hidden, SquaredReLU(), bias=False)

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), tie)


@family("nemotron", LLAMA, "NemotronForCausalLM", prefix="model.")
def build_nemotron(config: Config) -> nn.Module:
    only(config, "hidden_act", "relu2")
    only(config, "attention_bias", False)
    only(config, "mlp_bias", False)
    sizes = frame(config)
    D = head_width(config, sizes["width"], sizes["heads"])
    return nemotron(D=D, eps=config.get("norm_eps", 1e-5), **sizes)
