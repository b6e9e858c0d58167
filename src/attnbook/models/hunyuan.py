"""Hunyuan's dense models."""

from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, head_width, only, rotation
from attnbook.models.layout import Table
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.parts import decoder, pre_norm
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel


class NormedLast(Attention):
    """Attention that norms queries and keys after they are turned, where others do it before.

    A rotation changes no length, so only the norms' weights tell the two orders apart: here they
    stay with the channel, whatever was turned into it, and the score of two tokens depends on where
    they stand, not on their distance alone.
    """

    def __init__(self, project: Projection, to_out: nn.Module, rotate: Rotary, eps: float):
        super().__init__(project, to_out, rotate)
        self.q_norm, self.k_norm = RMSNorm(project.D, eps), RMSNorm(project.D, eps)

    def rotate_both(
        self, *given: Any
    ) -> tuple[Float[Tensor, "B H Tq D"], Float[Tensor, "B kv_heads Tk D"]]:
        q, k = super().rotate_both(*given)
        return self.q_norm(q), self.k_norm(k)


def stretched(D: int, base: float = 10_000.0, alpha: float = 1000.0) -> Rotary:
    """A rotation whose base is stretched once for all lengths, so that the slowest pair turns
    `alpha` times slower and the fastest as before: "NTK-aware", Peng et al. 2024, section 3.1."""
    return Rotary(D, base * alpha ** (D / (D - 2)))


def hunyuan(
    V: int = 128_167,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 14_336,
    D: int = 128,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = True,
) -> LanguageModel:
    """Tencent 2025, Hunyuan-7B: a Llama whose queries and keys are normed after the rotation."""
    rotate, norm = rotate or stretched(D), partial(RMSNorm, width, eps)

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, bias=False)
        attention = NormedLast(project, nn.Linear(heads * D, width, bias=False), rotate, eps)
        return attention, SwiGLU(width, hidden)

    return decoder(V, width, pre_norm(parts, depth, norm), norm(), tie)


HUNYUAN: Table = LLAMA | {
    "attention.sublayer.q_norm": "model.layers.{i}.self_attn.query_layernorm",
    "attention.sublayer.k_norm": "model.layers.{i}.self_attn.key_layernorm",
}


@family("hunyuan_v1_dense", HUNYUAN, "HunYuanDenseV1ForCausalLM", prefix="model.")
def build_hunyuan(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "use_qk_norm", True)
    only(config, "use_cla", False)
    D = head_width(config, sizes["width"], sizes["heads"])
    rope: Config = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rotate = rotation(config, D)
    if rope.get("alpha"):
        only(rope, "rope_type", "dynamic")
        rotate = stretched(D, rotate.base, float(rope["alpha"]))
    return hunyuan(D=D, rotate=rotate, **sizes)
