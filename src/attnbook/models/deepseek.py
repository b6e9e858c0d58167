"""DeepSeek-V2 and V3: latent attention, many small experts and shared ones."""

from collections.abc import Callable
from functools import partial

from torch import nn

from attnbook.block import Block, PreNorm
from attnbook.efficient.latent import MLA, LatentProjection
from attnbook.experts import MixtureOfExperts, Router, SigmoidTopK, SoftmaxTopK
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, Sizes, only, read, rotation
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, Rotate, halves, neighbours, yarn_temperature
from attnbook.scores import Score
from attnbook.transformer import LanguageModel


def latent_attention(
    width: int,
    heads: int,
    latents: tuple[int | None, int],
    parts: tuple[int, int, int],
    rotate: Rotate,
    scale: float | None = None,
    eps: float = 1e-6,
) -> MLA:
    """DeepSeek-AI 2024 (V2), section 2.1. `latents` are the widths of the short vectors for queries
    (None: none) and for keys and values, `parts` those of a head: key, rotated key, value. The
    norms of the short vectors have an ε of their own, whatever config.json says of the others."""
    (for_q, for_kv), (D, turned, Dv) = latents, parts
    linear = partial(nn.Linear, bias=False)
    wide = heads * (D + turned)
    to_q: nn.Module
    if for_q is None:
        to_q = linear(width, wide)
    else:
        to_q = nn.Sequential(linear(width, for_q), RMSNorm(for_q, eps), linear(for_q, wide))
    to_latent, to_kv = linear(width, for_kv + turned), linear(for_kv, heads * (D + Dv))
    project = LatentProjection(heads, to_q, to_latent, RMSNorm(for_kv, eps), to_kv)
    return MLA(project, linear(heads * Dv, width), rotate, Score(scale))


def deepseek_v3(
    V: int = 129_280,
    width: int = 7168,
    depth: int = 61,
    heads: int = 128,
    latents: tuple[int | None, int] = (1536, 512),
    parts: tuple[int, int, int] = (128, 64, 128),
    hidden: tuple[int, int] = (18_432, 2048),
    dense: int = 3,
    experts: tuple[int, int, int] = (256, 8, 1),
    groups: tuple[int, int] = (8, 4),
    factor: float = 2.5,
    rotate: Rotary | None = None,
    scale: float | None = None,
    eps: float = 1e-6,
    route: Callable[[], Router] | None = None,
) -> LanguageModel:
    """DeepSeek-AI 2024 (V3), sections 2.1 and 4.2, 671B: latent attention; after `dense` blocks
    with a network each, mixtures of many small experts and shared ones. `hidden` are the widths of
    both kinds, `experts` how many there are, work, and are shared."""
    route = route or partial(SigmoidTopK, width, *experts[:2], factor, *groups)
    norm, rotate = partial(RMSNorm, width, eps), rotate or Rotary(parts[1], pairs=neighbours)

    def mixture() -> MixtureOfExperts:
        networks = [SwiGLU(width, hidden[1]) for _ in range(experts[0])]
        shared = SwiGLU(width, experts[2] * hidden[1])
        return MixtureOfExperts(networks, router=route(), shared=shared)

    def block(i: int) -> Block:
        attention = latent_attention(width, heads, latents, parts, rotate, scale)
        network = SwiGLU(width, hidden[0]) if i < dense else mixture()
        return Block(PreNorm(attention, norm()), PreNorm(network, norm()))

    return decoder(V, width, [block(i) for i in range(depth)], norm())


def deepseek_v2(
    V: int = 102_400,
    width: int = 5120,
    depth: int = 60,
    heads: int = 128,
    latents: tuple[int | None, int] = (1536, 512),
    parts: tuple[int, int, int] = (128, 64, 128),
    hidden: tuple[int, int] = (12_288, 1536),
    dense: int = 1,
    experts: tuple[int, int, int] = (160, 6, 2),
    groups: tuple[int, int] = (8, 3),
    factor: float = 16.0,
    rotate: Rotary | None = None,
    scale: float | None = None,
    eps: float = 1e-6,
) -> LanguageModel:
    """DeepSeek-AI 2024 (V2), sections 2 and 3.1.2, 236B: V3 before its router: one softmax over all
    experts, whose chances are not scaled to sum to 1, and a group is as good as its best."""
    route = partial(SoftmaxTopK, width, *experts[:2], False, factor, *groups)
    sizes = V, width, depth, heads, latents, parts, hidden, dense, experts
    return deepseek_v3(*sizes, rotate=rotate, scale=scale, eps=eps, route=route)


DEEPSEEK = LLAMA | {
    "attention.sublayer.project.to_q": "model.layers.{i}.self_attn.q_proj",
    "attention.sublayer.project.to_q.0": "model.layers.{i}.self_attn.q_a_proj",
    "attention.sublayer.project.to_q.1": "model.layers.{i}.self_attn.q_a_layernorm",
    "attention.sublayer.project.to_q.2": "model.layers.{i}.self_attn.q_b_proj",
    "attention.sublayer.project.to_latent": "model.layers.{i}.self_attn.kv_a_proj_with_mqa",
    "attention.sublayer.project.norm": "model.layers.{i}.self_attn.kv_a_layernorm",
    "attention.sublayer.project.to_kv": "model.layers.{i}.self_attn.kv_b_proj",
    "feedforward.sublayer.router": "model.layers.{i}.mlp.gate",
    "feedforward.sublayer.router.correction": "model.layers.{i}.mlp.gate.e_score_correction_bias",
    **{
        f"feedforward.sublayer.{ours}.{part}": f"model.layers.{{i}}.mlp.{theirs}.{part}_proj"
        for ours, theirs in (("experts", "experts.{e}"), ("shared", "shared_experts"))
        for part in ("gate", "up", "down")
    },
}


def of_deepseek(config: Config) -> Sizes:
    """The settings that DeepSeek-V2 and V3 share."""
    sizes = of_llama(config)
    del sizes["kv_heads"]
    only(config, "attention_bias", False)
    only(config, "moe_layer_freq", 1)
    only(config, "tie_word_embeddings", False)
    del sizes["tie"]
    parts = tuple(read(config, "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    count = "n_routed_experts", "num_experts_per_tok", "n_shared_experts"
    pairs = neighbours if config.get("rope_interleave", True) else halves
    return sizes | {
        "latents": tuple(read(config, "q_lora_rank", "kv_lora_rank")),
        "parts": parts,
        "hidden": (sizes["hidden"], config["moe_intermediate_size"]),
        "dense": config["first_k_dense_replace"],
        "experts": tuple(read(config, *count)),
        "factor": float(config["routed_scaling_factor"]),
        "rotate": rotation(config, parts[1], pairs=pairs),
        "scale": deepseek_scale(config, parts[0] + parts[1]),
    }


def deepseek_scale(config: Config, D: int) -> float:
    """What scores are multiplied with: 1/√D, times the square of YaRN's attention factor.

    The factor (Peng et al. 2024, equation 22) acts here on all coordinates; it is `mscale` in
    DeepSeek-AI's model code.
    """
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    strength = rope.get("mscale_all_dim")
    if rope.get("rope_type", rope.get("type", "default")) == "default" or not strength:
        return D**-0.5
    return D**-0.5 * yarn_temperature(float(rope["factor"]), float(strength)) ** 2


@family("deepseek_v2", DEEPSEEK, "DeepseekV2ForCausalLM", prefix="model.")
def build_deepseek_v2(config: Config) -> nn.Module:
    only(config, "norm_topk_prob", False)
    only(config, "scoring_func", "softmax")
    only(config, "topk_method", "greedy", "group_limited_greedy")
    limited = config.get("topk_method") == "group_limited_greedy"
    groups = tuple(read(config, "n_group", "topk_group")) if limited else (1, 1)
    return deepseek_v2(groups=groups, **of_deepseek(config))


@family("deepseek_v3", DEEPSEEK, "DeepseekV3ForCausalLM", prefix="model.")
def build_deepseek_v3(config: Config) -> nn.Module:
    only(config, "norm_topk_prob", True)
    groups = tuple(read(config, "n_group", "topk_group"))
    return deepseek_v3(groups=groups, **of_deepseek(config))
