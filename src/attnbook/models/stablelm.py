"""StableLM."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, frame, only
from attnbook.models.layout import Table, per_head
from attnbook.models.llama import LLAMA
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import LayerNorm, PerHeadNorm
from attnbook.positions import Rotary, linear
from attnbook.transformer import LanguageModel


def stablelm(
    V: int = 50_304,
    width: int = 2560,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 32,
    hidden: int = 6912,
    rotate: Rotary | None = None,
    bias: bool = False,
    eps: float = 1e-5,
    tie: bool = False,
    qk_norm: bool = False,
) -> LanguageModel:
    """Tow et al. 2023, StableLM 3B: LayerNorm, and a quarter of the channels is rotated. `bias` is
    that of queries, keys and values, `qk_norm` norms queries and keys (StableLM 2 12B)."""
    norm, D = partial(LayerNorm, width, eps), width // heads
    rotate = rotate or Rotary(D, frequencies=linear(D // 4))

    def parts() -> tuple[nn.Module, nn.Module]:
        norms = [PerHeadNorm(n, D, eps) for n in (heads, kv_heads)] if qk_norm else []
        project = Projection(width, heads, kv_heads, None, bias, *norms)
        attention = Attention(project, nn.Linear(width, width, bias=False), rotate)
        return attention, SwiGLU(width, hidden)

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), tie)


STABLELM: Table = LLAMA | {
    f"attention.sublayer.project.{n}_norm": (
        f"model.layers.{{i}}.self_attn.{n}_layernorm",
        per_head,
    )
    for n in "qk"
}


@family("stablelm", STABLELM, "StableLmForCausalLM", prefix="model.")
def build_stablelm(config: Config) -> nn.Module:
    only(config, "hidden_act", "silu")
    only(config, "use_parallel_residual", False)
    bias = config.get("use_qkv_bias", False)
    eps = config.get("layer_norm_eps", 1e-5)
    qk_norm = config.get("qk_layernorm", False)
    return stablelm(bias=bias, eps=eps, qk_norm=qk_norm, **frame(config))
