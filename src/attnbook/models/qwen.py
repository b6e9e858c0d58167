"""Qwen2 and Qwen3, dense and as mixtures."""

from collections.abc import Callable
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm
from attnbook.experts import GatedExpert, MixtureOfExperts, SoftmaxTopK
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, Sizes, head_width, only, read, rotation
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel


def qwen2(
    V: int = 151_936,
    width: int = 3584,
    depth: int = 28,
    heads: int = 28,
    kv_heads: int = 4,
    hidden: int = 18_944,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = False,
    network: Callable[[], nn.Module] | None = None,
) -> LanguageModel:
    """Yang et al. 2024, "Qwen2", table 1, 7B: Llama with biases on queries, keys and values."""
    norm, D = partial(RMSNorm, width, eps), width // heads
    rotate, network = rotate or Rotary(D, 1_000_000.0), network or partial(SwiGLU, width, hidden)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, bias=True)
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return Block(PreNorm(attention, norm()), PreNorm(network(), norm()))

    return decoder(V, width, [block() for _ in range(depth)], norm(), tie)


def qwen3(
    V: int = 151_936,
    width: int = 4096,
    depth: int = 36,
    heads: int = 32,
    kv_heads: int = 8,
    D: int = 128,
    hidden: int = 12_288,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = False,
    network: Callable[[], nn.Module] | None = None,
) -> LanguageModel:
    """Yang et al. 2025, "Qwen3", section 2, 8B: no biases, and a norm for each head's queries and
    one for its keys."""
    norm = partial(RMSNorm, eps=eps)
    rotate, network = rotate or Rotary(D, 1_000_000.0), network or partial(SwiGLU, width, hidden)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, D, False, norm(D), norm(D))
        attention = Attention(project, nn.Linear(heads * D, width, bias=False), rotate)
        return Block(PreNorm(attention, norm(width)), PreNorm(network(), norm(width)))

    return decoder(V, width, [block() for _ in range(depth)], norm(width), tie)


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
    V: int = 151_936,
    width: int = 2048,
    depth: int = 24,
    heads: int = 16,
    kv_heads: int = 16,
    hidden: int = 1408,
    experts: tuple[int, int] = (60, 4),
    shared: int = 5632,
    sum_to_one: bool = False,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = False,
) -> LanguageModel:
    """Qwen Team 2024, Qwen1.5-MoE-A2.7B, and Yang et al. 2024, "Qwen2", section 2.2.2: Qwen2 with
    60 small experts, of which 4 work on a token, beside a gated one that works on all."""
    mixture = partial(softmax_mixture, width, hidden, experts, sum_to_one, shared)
    return qwen2(V, width, depth, heads, kv_heads, hidden, rotate, eps, tie, mixture)


def qwen3_moe(
    V: int = 151_936,
    width: int = 2048,
    depth: int = 48,
    heads: int = 32,
    kv_heads: int = 4,
    D: int = 128,
    hidden: int = 768,
    experts: tuple[int, int] = (128, 8),
    sum_to_one: bool = True,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = False,
) -> LanguageModel:
    """Yang et al. 2025, "Qwen3", section 2 and table 2, 30B-A3B: Qwen3 with 128 small experts, of
    which 8 work on a token, and no shared one."""
    mixture = partial(softmax_mixture, width, hidden, experts, sum_to_one)
    return qwen3(V, width, depth, heads, kv_heads, D, hidden, rotate, eps, tie, mixture)


QWEN_MOE = LLAMA | {
    "feedforward.sublayer.router": "model.layers.{i}.mlp.gate",
    "feedforward.sublayer.shared.gate": "model.layers.{i}.mlp.shared_expert_gate",
    **{
        f"feedforward.sublayer.{ours}.{part}": f"model.layers.{{i}}.mlp.{theirs}.{part}_proj"
        for ours, theirs in (("experts", "experts.{e}"), ("shared.expert", "shared_expert"))
        for part in ("gate", "up", "down")
    },
}


@family("qwen2", LLAMA, "Qwen2ForCausalLM", prefix="model.")
def build_qwen2(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "use_sliding_window", False)
    D = sizes["width"] // sizes["heads"]
    return qwen2(rotate=rotation(config, D), **sizes)


@family("qwen3", LLAMA, "Qwen3ForCausalLM", prefix="model.")
def build_qwen3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "use_sliding_window", False)
    D = head_width(config, sizes["width"], sizes["heads"])
    return qwen3(D=D, rotate=rotation(config, D), **sizes)


def of_mixture(config: Config) -> Sizes:
    """The settings that Qwen's mixtures and OLMoE share."""
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "use_sliding_window", False)
    only(config, "decoder_sparse_step", 1)
    only(config, "mlp_only_layers", [], None)
    only(config, "clip_qkv", None)
    count = "num_experts" if "num_experts" in config else "num_local_experts"
    return sizes | {
        "experts": tuple(read(config, count, "num_experts_per_tok")),
        "sum_to_one": config.get("norm_topk_prob", False),
    }


@family("qwen2_moe", QWEN_MOE, "Qwen2MoeForCausalLM", prefix="model.")
def build_qwen2_moe(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    only(config, "qkv_bias", True)
    sizes["hidden"], shared = read(
        config, "moe_intermediate_size", "shared_expert_intermediate_size"
    )
    rotate = rotation(config, sizes["width"] // sizes["heads"])
    return qwen2_moe(shared=shared, rotate=rotate, **sizes)


@family("qwen3_moe", QWEN_MOE, "Qwen3MoeForCausalLM", prefix="model.")
def build_qwen3_moe(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    (sizes["hidden"],) = read(config, "moe_intermediate_size")
    D = head_width(config, sizes["width"], sizes["heads"])
    return qwen3_moe(D=D, rotate=rotation(config, D), **sizes)
