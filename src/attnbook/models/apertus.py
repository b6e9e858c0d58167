"""Apertus."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import MLP, XIELU
from attnbook.models.config import Config, head_width, only, rotation
from attnbook.models.layout import Table
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, llama3
from attnbook.transformer import LanguageModel


def apertus(
    V: int = 131_072,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 8,
    D: int = 128,
    hidden: int = 21_504,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Swiss AI Initiative 2025, "Apertus", section 2.1, 8B: a plain network with xIELU, whose two
    curvatures are learned, and norms of queries and keys."""
    norm = partial(RMSNorm, eps=eps)
    rotate = rotate or Rotary(D, frequencies=llama3(D, 12e6, 8.0, 1.0, 4.0, 8192))

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, False, norm(D), norm(D))
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return attention, MLP(width, hidden, XIELU(), bias=False)

    return decoder(V, width, pre_norm(parts, depth, partial(norm, width)), norm(width), tie)


APERTUS: Table = LLAMA | {
    "attention.norm": "model.layers.{i}.attention_layernorm",
    "feedforward.norm": "model.layers.{i}.feedforward_layernorm",
    **{
        f"feedforward.sublayer.activation.{ours}": f"model.layers.{{i}}.mlp.act_fn.{theirs}"
        for ours, theirs in zip(
            ("above", "below", "beta", "eps"), ("alpha_p", "alpha_n", "beta", "eps"), strict=True
        )
    },
}


@family("apertus", APERTUS, "ApertusForCausalLM", prefix="model.")
def build_apertus(config: Config) -> nn.Module:
    only(config, "hidden_act", "xielu")
    only(config, "qk_norm", True)
    only(config, "post_norm", False)
    only(config, "attention_bias", False)
    sizes = of_llama(dict(config) | {"hidden_act": "silu"})
    D = head_width(config, sizes["width"], sizes["heads"])
    return apertus(D=D, rotate=rotation(config, D), **sizes)
