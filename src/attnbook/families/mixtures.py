"""Mixtures after Mixtral: many small experts, other shares, and an expert that a gate lets in."""

from functools import partial
from typing import Any

from torch import nn

from attnbook.attention import Attention
from attnbook.experts import GatedExpert, MixtureOfExperts
from attnbook.families.cousins import pre_norm
from attnbook.families.decoders import decoder, qwen2, qwen3
from attnbook.feedforward import SwiGLU
from attnbook.norms import RMSNorm
from attnbook.projection import AcrossHeads, Projection
from attnbook.rotary import Rotary
from attnbook.routing import SoftmaxTopK
from attnbook.transformer import LanguageModel


def softmax_mixture(
    width: int,
    hidden: int,
    experts: tuple[int, int],
    sum_to_one: bool = False,
    shared: int | None = None,
) -> MixtureOfExperts:
    """SwiGLUs of this `hidden` width; `experts` are how many there are, and how many work. The
    chances of those that work are their shares, scaled to `sum_to_one` or as they are. One more,
    `shared` wide, works on each token as much as its gate allows."""
    router = SoftmaxTopK(width, *experts, sum_to_one=sum_to_one)
    always = None if shared is None else GatedExpert(SwiGLU(width, shared), width)
    return MixtureOfExperts(
        [SwiGLU(width, hidden) for _ in range(experts[0])], router=router, shared=always
    )


def qwen2_moe(
    hidden: int = 1408,
    experts: tuple[int, int] = (60, 4),
    shared: int = 5632,
    sum_to_one: bool = False,
    **sizes: Any,
) -> LanguageModel:
    """Qwen Team 2024, Qwen1.5-MoE-A2.7B, and Yang et al. 2024, "Qwen2", section 2.2.2: Qwen2 with
    60 small experts, of which 4 work on a token, beside a gated one that works on all."""
    sizes = {"width": 2048, "depth": 24, "heads": 16, "kv_heads": 16} | sizes
    network = partial(softmax_mixture, sizes["width"], hidden, experts, sum_to_one, shared)
    return qwen2(network=network, **sizes)


def qwen3_moe(
    hidden: int = 768,
    experts: tuple[int, int] = (128, 8),
    sum_to_one: bool = True,
    **sizes: Any,
) -> LanguageModel:
    """Yang et al. 2025, "Qwen3", section 2 and table 2, 30B-A3B: Qwen3 with 128 small experts, of
    which 8 work on a token, and no shared one."""
    sizes = {"width": 2048, "depth": 48, "heads": 32, "kv_heads": 4} | sizes
    network = partial(softmax_mixture, sizes["width"], hidden, experts, sum_to_one)
    return qwen3(network=network, **sizes)


def olmoe(
    V: int = 50_304,
    width: int = 2048,
    depth: int = 16,
    heads: int = 16,
    kv_heads: int = 16,
    hidden: int = 1024,
    experts: tuple[int, int] = (64, 8),
    sum_to_one: bool = False,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Muennighoff et al. 2024, "OLMoE", section 2 and table 1, 1B-7B: 64 small experts, whose
    chances stay as they are, and norms of queries and keys over all heads together."""
    norm, D = partial(RMSNorm, eps=eps), width // heads
    rotate = rotate or Rotary(D)

    def parts() -> tuple[nn.Module, nn.Module]:
        norms = AcrossHeads(norm(heads * D)), AcrossHeads(norm(kv_heads * D))
        project = Projection(width, heads, kv_heads, D, False, *norms)
        attention = Attention(project, nn.Linear(width, width, bias=False), rotate)
        return attention, softmax_mixture(width, hidden, experts, sum_to_one)

    return decoder(V, width, pre_norm(parts, depth, partial(norm, width)), norm(width), tie)
