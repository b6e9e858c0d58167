"""What a published config.json says of decoders with many networks: the model of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import decoders, experts, mixtures
from attnbook.families.builds.decoders import of_llama
from attnbook.families.settings import Config, Sizes, head_width, rotation
from attnbook.frequencies import yarn_temperature
from attnbook.norms import RMSNorm
from attnbook.published import only, read
from attnbook.rotary import Tempered, halves, neighbours


def build_mixtral(config: Config) -> nn.Module:
    sizes = of_llama(config)
    count = read(config, "num_local_experts", "num_experts_per_tok")
    V, tie, eps = sizes.pop("V"), sizes.pop("tie"), sizes["eps"]
    D = head_width(config, sizes["width"], sizes["heads"])
    rotate, window = rotation(config, D), config.get("sliding_window")
    blocks = experts.mixtral_blocks(
        D=D, experts=tuple(count), rotate=rotate, window=window, **sizes
    )
    return decoders.decoder(V, sizes["width"], blocks, RMSNorm(sizes["width"], eps), tie)


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


def build_deepseek_v2(config: Config) -> nn.Module:
    only(config, "norm_topk_prob", False)
    only(config, "scoring_func", "softmax")
    only(config, "topk_method", "greedy", "group_limited_greedy")
    limited = config.get("topk_method") == "group_limited_greedy"
    groups = tuple(read(config, "n_group", "topk_group")) if limited else (1, 1)
    return mixtures.deepseek_v2(groups=groups, **of_deepseek(config))


def build_deepseek_v3(config: Config) -> nn.Module:
    only(config, "norm_topk_prob", True)
    groups = tuple(read(config, "n_group", "topk_group"))
    return experts.deepseek_v3(groups=groups, **of_deepseek(config))


def deepseek_scale(config: Config, D: int) -> float:
    """What scores are multiplied with: YaRN's temperature acts here, on all coordinates."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    strength = rope.get("mscale_all_dim")
    if rope.get("rope_type", rope.get("type", "default")) == "default" or not strength:
        return D**-0.5
    return D**-0.5 * yarn_temperature(float(rope["factor"]), float(strength)) ** 2


def build_gpt_oss(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", True)
    only(config, "tie_word_embeddings", False)
    del sizes["tie"], sizes["depth"]
    D = head_width(config, sizes["width"], sizes["heads"])
    window, kinds = config["sliding_window"], config["layer_types"]
    return experts.gpt_oss(
        D=D,
        windows=[window if kind == "sliding_attention" else None for kind in kinds],
        experts=tuple(read(config, "num_local_experts", "num_experts_per_tok")),
        rotate=rotation(config, D),
        limit=float(config.get("swiglu_limit", 7.0)),
        **sizes,
    )


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


def build_qwen2_moe(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    only(config, "qkv_bias", True)
    sizes["hidden"], shared = read(
        config, "moe_intermediate_size", "shared_expert_intermediate_size"
    )
    rotate = rotation(config, sizes["width"] // sizes["heads"])
    return mixtures.qwen2_moe(shared=shared, rotate=rotate, **sizes)


def build_qwen3_moe(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    (sizes["hidden"],) = read(config, "moe_intermediate_size")
    D = head_width(config, sizes["width"], sizes["heads"])
    return mixtures.qwen3_moe(D=D, rotate=rotation(config, D), **sizes)


def build_olmoe(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    rotate = rotation(config, sizes["width"] // sizes["heads"])
    return mixtures.olmoe(rotate=rotate, **sizes)


def llama4_kinds(config: Config, depth: int) -> list[tuple[bool, bool]]:
    """Of each block: does it see its chunk alone, and has it a mixture?"""
    every, step = config.get("no_rope_layer_interval", 4), config["interleave_moe_layer_step"]
    turned = config.get("no_rope_layers") or [(i + 1) % every for i in range(depth)]
    kinds = ["chunked_attention" if turns else "full_attention" for turns in turned]
    only(config, "layer_types", kinds, None)
    sparse = config.get("moe_layers")
    sparse = range(step - 1, depth, step) if sparse is None else sparse
    return [(bool(turns), i in sparse) for i, turns in enumerate(turned)]


def build_llama4(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "tie_word_embeddings", False)
    kinds, D = llama4_kinds(config, sizes.pop("depth")), config["head_dim"]
    turn, warm, tuned = rotation(config, D, pairs=neighbours), None, "attn_temperature_tuning"
    if config.get(tuned, True):
        warm = Tempered(config.get("floor_scale", 8192), float(config.get("attn_scale", 0.1)))
    del sizes["tie"]
    return mixtures.llama4(
        D=D,
        hidden=(config["intermediate_size_mlp"], sizes.pop("hidden")),
        experts=tuple(read(config, "num_local_experts", "num_experts_per_tok")),
        kinds=kinds,
        chunk=config["attention_chunk_size"],
        rotations=(turn, warm),
        qk_norm=config.get("use_qk_norm", True),
        **sizes,
    )
