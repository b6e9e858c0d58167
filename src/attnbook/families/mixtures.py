"""Mixtures after Mixtral: many small experts, other routers, an expert that a gate lets in."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import nn

from attnbook.attention import Attention
from attnbook.block import Block, PreNorm
from attnbook.experts import GatedExpert, MixtureOfExperts, by_expert
from attnbook.families.cousins import pre_norm
from attnbook.families.decoders import decoder, qwen2, qwen3
from attnbook.families.experts import deepseek_v3
from attnbook.families.settings import Sizes
from attnbook.feedforward import SwiGLU
from attnbook.masks import chunked
from attnbook.norms import RMSNorm
from attnbook.projection import AcrossHeads, Projection
from attnbook.rotary import Rotary, Tempered, neighbours
from attnbook.routing import SoftmaxTopK, TopKSigmoid
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


def deepseek_v2(
    experts: tuple[int, int, int] = (160, 6, 2),
    groups: tuple[int, int] = (8, 3),
    factor: float = 16.0,
    **sizes: Any,
) -> LanguageModel:
    """DeepSeek-AI 2024 (V2), sections 2 and 3.1.2, 236B: V3 before its router: one softmax over all
    experts, whose chances are not scaled to sum to 1, and a group is as good as its best."""
    usual: Sizes = {"V": 102_400, "width": 5120, "depth": 60, "hidden": (12_288, 1536), "dense": 1}
    sizes = usual | sizes
    route = partial(SoftmaxTopK, sizes["width"], *experts[:2], False, factor, *groups)
    return deepseek_v3(experts=experts, route=route, **sizes)


def llama4(
    V: int = 202_048,
    width: int = 5120,
    heads: int = 40,
    kv_heads: int = 8,
    D: int = 128,
    hidden: tuple[int, int] = (16_384, 8192),
    experts: tuple[int, int] = (16, 1),
    kinds: Sequence[tuple[bool, bool]] = (*[(True, True)] * 3, (False, True)) * 12,
    chunk: int = 8192,
    rotations: tuple[Rotary | None, Tempered | None] = (None, Tempered()),
    qk_norm: bool = True,
    eps: float = 1e-5,
) -> LanguageModel:
    """Meta 2025, Llama 4 Scout. `kinds` says of each block whether it sees its own chunk alone,
    rotated and normed, or everything, by queries that grow with the position; and whether it has a
    mixture or one network. `hidden` are the widths of network and expert."""
    norm, turn = partial(RMSNorm, width, eps), rotations[0] or Rotary(D, 5e5, pairs=neighbours)
    unit = partial(nn.RMSNorm, D, eps, elementwise_affine=False)

    def attention(near: bool) -> Attention:
        norms = [unit(), unit()] if near and qk_norm else []
        project = Projection(width, heads, kv_heads, D, False, *norms)
        seen = (turn, None, chunked(chunk)) if near else (rotations[1], None, None)
        return Attention(project, nn.Linear(heads * D, width, bias=False), *seen)

    def network(sparse: bool) -> nn.Module:
        if not sparse:
            return SwiGLU(width, hidden[0])
        *networks, shared = [SwiGLU(width, hidden[1]) for _ in range(experts[0] + 1)]
        router, run = TopKSigmoid(width, *experts), partial(by_expert, before=True)
        return MixtureOfExperts(networks, router=router, shared=shared, run=run)

    parts = [(attention(near), network(sparse)) for near, sparse in kinds]
    blocks = [Block(*(PreNorm(part, norm()) for part in both)) for both in parts]
    return decoder(V, width, blocks, norm())
