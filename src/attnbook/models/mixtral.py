"""Mixtral: a Llama with a mixture of experts in each block."""

from collections.abc import Sequence

from torch import nn

from attnbook.experts import MixtureOfExperts
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, Sizes, head_width, read, rotation
from attnbook.models.llama import LLAMA, llama, of_llama
from attnbook.models.registry import family
from attnbook.positions import Rotate
from attnbook.transformer import LanguageModel


def mixtral(
    V: int = 32_000,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 14_336,
    base: float = 1_000_000.0,
    experts: int = 8,
    active: int = 2,
    D: int | None = None,
    windows: Sequence[int | None] = (None,),
    rotations: Sequence[Rotate | None] = (),
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Jiang et al. 2024, section 2 and table 1: a Llama with a mixture of SwiGLUs in each block.
    Of 46.7 billion parameters 12.9 work on a token."""

    def mixture() -> MixtureOfExperts:
        return MixtureOfExperts([SwiGLU(width, hidden) for _ in range(experts)], width, active)

    sizes = V, width, depth, heads, kv_heads, hidden
    return llama(*sizes, base, D, windows, rotations, mixture, eps=eps, tie=tie)


MIXTRAL = LLAMA | {
    "feedforward.sublayer.router": "model.layers.{i}.block_sparse_moe.gate",
    **{
        f"feedforward.sublayer.experts.{ours}": (
            f"model.layers.{{i}}.block_sparse_moe.experts.{{e}}.{theirs}"
        )
        for ours, theirs in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
    },
}


@family("mixtral", MIXTRAL, "MixtralForCausalLM", prefix="model.")
def build_mixtral(config: Config) -> nn.Module:
    sizes = of_llama(config)
    experts, active = read(config, "num_local_experts", "num_experts_per_tok")
    D = head_width(config, sizes["width"], sizes["heads"])
    parts: Sizes = {"D": D, "rotations": [rotation(config, D)]}
    parts["windows"] = [config.get("sliding_window")]
    return mixtral(experts=experts, active=active, **parts, **sizes)
