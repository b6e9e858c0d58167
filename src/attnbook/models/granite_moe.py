"""Granite-MoE: Granite with a mixture of small experts in each block."""

from functools import partial

from torch import nn

from attnbook.experts import MixtureOfExperts, TopKSoftmax
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, read
from attnbook.models.granite import GRANITE, granite, of_granite
from attnbook.models.layout import Names, rows_of_expert
from attnbook.models.registry import family
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel


def granite_moe(
    V: int = 49_155,
    width: int = 1536,
    depth: int = 32,
    heads: int = 24,
    kv_heads: int = 8,
    hidden: int = 512,
    experts: tuple[int, int] = (40, 8),
    rotate: Rotary | None = None,
    multipliers: tuple[float, float, float, float] = (12.0, 1 / 128, 0.22, 1 / 16),
    eps: float = 1e-5,
    tie: bool = True,
) -> LanguageModel:
    """Granite Team 2024, "Granite 3.0 language models", table 1, 3B-A800M: 40 small experts in each
    block, of which 8 work on a token. `experts` are how many there are, and how many work."""

    def mixture() -> MixtureOfExperts:
        networks = [SwiGLU(width, hidden) for _ in range(experts[0])]
        return MixtureOfExperts(networks, router=TopKSoftmax(width, *experts, bias=False))

    sizes = V, width, depth, heads, kv_heads, hidden
    return granite(*sizes, rotate, multipliers, eps, tie, mixture)


def granite_moe_names(model: nn.Module) -> Names:
    """Granite-MoE's names: all experts in one tensor, gate and up one after the other."""
    E = len(list(model.get_submodule("body.blocks.0.feedforward.sublayer.experts").children()))
    ours, stem = "feedforward.sublayer.experts", "model.layers.{i}.block_sparse_moe"
    rows = partial(rows_of_expert, E)
    return GRANITE | {
        "feedforward.sublayer.router": f"{stem}.router.layer",
        f"{ours}.gate.weight": (f"{stem}.input_linear.weight#{{e}}", rows(0, 2)),
        f"{ours}.up.weight": (f"{stem}.input_linear.weight#{{e}}", rows(1, 2)),
        f"{ours}.down.weight": (f"{stem}.output_linear.weight#{{e}}", rows(0, 1)),
    }


@family("granitemoe", granite_moe_names, "GraniteMoeForCausalLM", prefix="model.")
def build_granite_moe(config: Config) -> nn.Module:
    experts = tuple(read(config, "num_local_experts", "num_experts_per_tok"))
    return granite_moe(experts=experts, **of_granite(config))
