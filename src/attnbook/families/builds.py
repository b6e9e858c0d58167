"""From a published config.json to the recipe of that size. What has no place in it is refused."""

from functools import partial

from torch import nn

from attnbook.families import decoders, encoders, experts, parallel, readers, vision
from attnbook.families.settings import Config, Sizes, activation, head_width, rotation
from attnbook.feedforward import MLP, GatedMLP
from attnbook.frequencies import yarn_temperature
from attnbook.norms import LayerNorm, RMSNorm
from attnbook.published import only, read
from attnbook.recipes import gpt2, vit
from attnbook.rotary import halves, neighbours

SIZES = "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"


def of_llama(config: Config) -> Sizes:
    """The settings that Llama and its descendants share."""
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    only(config, "hidden_act", "silu")
    only(config, "mlp_bias", False)
    return {
        "V": V,
        "width": width,
        "depth": depth,
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "hidden": hidden,
        "eps": config.get("rms_norm_eps", 1e-6),
        "tie": config.get("tie_word_embeddings", False),
    }


def build_llama(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    D = head_width(config, sizes["width"], sizes["heads"])
    depth, rotate = sizes.pop("depth"), rotation(config, D)
    return decoders.windows([None] * depth, D=D, rotations=[rotate] * depth, **sizes)


def build_qwen2(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "use_sliding_window", False)
    D = sizes["width"] // sizes["heads"]
    return decoders.qwen2(rotate=rotation(config, D), **sizes)


def build_qwen3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "use_sliding_window", False)
    D = head_width(config, sizes["width"], sizes["heads"])
    return decoders.qwen3(D=D, rotate=rotation(config, D), **sizes)


def build_mistral(config: Config) -> nn.Module:
    sizes = of_llama(config)
    D = head_width(config, sizes["width"], sizes["heads"])
    rotations = [rotation(config, D)] * sizes["depth"]
    return decoders.mistral(window=config.get("sliding_window"), D=D, rotations=rotations, **sizes)


def build_phi3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    D = sizes["width"] // sizes["heads"]
    rotations = [rotation(config, D)] * sizes["depth"]
    return decoders.phi3(window=config.get("sliding_window"), D=D, rotations=rotations, **sizes)


def build_smollm3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "use_sliding_window", False)
    D, depth = sizes["width"] // sizes["heads"], sizes.pop("depth")
    turned = config.get("no_rope_layers")
    if turned is None:
        every = config.get("no_rope_layer_interval", 4)
        turned = [(i + 1) % every for i in range(depth)]
    rotate = rotation(config, D)
    rotations = [rotate if turns else None for turns in turned]
    return decoders.windows([None] * depth, D=D, rotations=rotations, **sizes)


def build_olmo2(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    D = sizes["width"] // sizes["heads"]
    return decoders.olmo2(rotate=rotation(config, D), **sizes)


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


def build_deepseek_v3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    del sizes["kv_heads"]
    only(config, "attention_bias", False)
    only(config, "norm_topk_prob", True)
    only(config, "tie_word_embeddings", False)
    del sizes["tie"]
    parts = tuple(read(config, "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    count = "n_routed_experts", "num_experts_per_tok", "n_shared_experts"
    pairs = neighbours if config.get("rope_interleave", True) else halves
    return experts.deepseek_v3(
        latents=tuple(read(config, "q_lora_rank", "kv_lora_rank")),
        parts=parts,
        hidden=(sizes.pop("hidden"), config["moe_intermediate_size"]),
        dense=config["first_k_dense_replace"],
        experts=tuple(read(config, *count)),
        groups=tuple(read(config, "n_group", "topk_group")),
        factor=config["routed_scaling_factor"],
        rotate=rotation(config, parts[1], pairs=pairs),
        scale=deepseek_scale(config, parts[0] + parts[1]),
        **sizes,
    )


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


def of_gemma(config: Config) -> Sizes:
    """The settings that Gemma 2 and 3 share."""
    only(config, "hidden_activation", "gelu_pytorch_tanh")
    only(config, "attention_bias", False)
    sizes = of_llama(dict(config) | {"hidden_act": "silu"})
    del sizes["tie"]
    only(config, "tie_word_embeddings", True)
    sizes["D"] = head_width(config, sizes["width"], sizes["heads"])
    window, kinds = config["sliding_window"], config["layer_types"]
    sizes["windows"] = [window if kind == "sliding_attention" else None for kind in kinds]
    return sizes


def build_gemma2(config: Config) -> nn.Module:
    sizes = of_gemma(config)
    score = config["query_pre_attn_scalar"] ** -0.5, config.get("attn_logit_softcapping")
    cap, rotate = config.get("final_logit_softcapping"), rotation(config, sizes["D"])
    return decoders.gemma2(score=score, cap=cap, rotate=rotate, **sizes)


def build_gemma3(config: Config) -> nn.Module:
    sizes = of_gemma(config)
    only(config, "attn_logit_softcapping", None)
    only(config, "final_logit_softcapping", None)
    only(config, "use_bidirectional_attention", False, None)
    near, far = (rotation(config, sizes["D"], f"{kind}_attention") for kind in ("sliding", "full"))
    scale = config["query_pre_attn_scalar"] ** -0.5
    return decoders.gemma3(rotations=(near, far), scale=scale, **sizes)


def build_gpt2(config: Config) -> nn.Module:
    names = "vocab_size", "n_positions", "n_embd", "n_layer", "n_head"
    V, T, width, depth, heads = read(config, *names)
    only(config, "activation_function", "gelu_new", "gelu_pytorch_tanh")
    only(config, "n_inner", None, 4 * width)
    only(config, "tie_word_embeddings", True)
    only(config, "scale_attn_weights", True)
    only(config, "scale_attn_by_inverse_layer_idx", False)
    only(config, "add_cross_attention", False)
    model = gpt2(V, T, width, depth, heads, config.get("resid_pdrop", 0.1))
    return with_eps(model, config.get("layer_norm_epsilon", 1e-5))


def with_eps(model: nn.Module, eps: float) -> nn.Module:
    """The model with this number in all of its layer norms."""
    for part in model.modules():
        if isinstance(part, LayerNorm):
            part.eps = eps
    return model


def build_gpt_neox(config: Config) -> nn.Module:
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    only(config, "attention_bias", True)
    only(config, "tie_word_embeddings", False)
    rope = config.get("rope_parameters") or {}
    share = rope.get("partial_rotary_factor", config.get("rotary_pct", 0.25))
    rotate = rotation(dict(config) | {"partial_rotary_factor": share}, width // heads)
    return parallel.gpt_neox(
        *(V, width, depth, heads, hidden, rotate),
        eps=config.get("layer_norm_eps", 1e-5),
        activation=activation(config.get("hidden_act", "gelu")),
        parallel=config.get("use_parallel_residual", True),
    )


def build_falcon(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, *SIZES)
    only(config, "alibi", False)
    only(config, "bias", False)
    only(config, "parallel_attn", True)
    only(config, "tie_word_embeddings", True)
    larger = config.get("new_decoder_architecture", False)
    kv_heads = (config.get("num_kv_heads") or heads) if larger else 1
    if not larger and not config.get("multi_query", True):
        kv_heads = heads
    norms = config.get("num_ln_in_parallel_attn") or (2 if larger else 1)
    hidden = config.get("ffn_hidden_size") or 4 * width
    rotate, eps = rotation(config, width // heads), config.get("layer_norm_epsilon", 1e-5)
    return parallel.falcon(V, width, depth, heads, kv_heads, hidden, rotate, norms, eps)


def build_bloom(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, "vocab_size", "hidden_size", "n_layer", "n_head")
    only(config, "apply_residual_connection_post_layernorm", False)
    eps = config.get("layer_norm_epsilon", 1e-5)
    return parallel.bloom(V, width, depth, heads, eps)


def of_bert(config: Config) -> Sizes:
    """The settings of BERT and RoBERTa."""
    V, width, depth, heads, hidden, kinds = read(
        config, *SIZES, "intermediate_size", "type_vocab_size"
    )
    only(config, "position_embedding_type", "absolute", None)
    only(config, "is_decoder", False)
    only(config, "add_cross_attention", False)
    only(config, "tie_word_embeddings", True)
    return {
        **{"V": V, "width": width, "depth": depth, "heads": heads, "hidden": hidden},
        **{"kinds": kinds, "eps": config.get("layer_norm_eps", 1e-12)},
        "activation": activation(config.get("hidden_act", "gelu")),
    }


def build_bert(config: Config) -> nn.Module:
    sizes = of_bert(config)
    (T,) = read(config, "max_position_embeddings")
    return encoders.bert_pair(T=T, **sizes)


def build_roberta(config: Config) -> nn.Module:
    (T,) = read(config, "max_position_embeddings")
    only(config, "pad_token_id", 1)
    return encoders.roberta(T=T - 2, **of_bert(config))


def build_distilbert(config: Config) -> nn.Module:
    names = "vocab_size", "max_position_embeddings", "dim", "n_layers", "n_heads", "hidden_dim"
    only(config, "tie_word_embeddings", True)
    gelu = activation(config.get("activation", "gelu"))
    V, T, width, depth, heads, hidden = read(config, *names)
    return encoders.distilbert(V, T, width, depth, heads, hidden, gelu)


def build_t5(config: Config) -> nn.Module:
    V, width, D, hidden, depth, heads = read(
        config, "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads"
    )
    kind = config.get("feed_forward_proj", "relu")
    function = activation("gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-"))
    gated = kind.startswith("gated-")
    network = GatedMLP if gated else partial(MLP, bias=False)
    buckets = "relative_attention_num_buckets", "relative_attention_max_distance"
    return readers.t5(
        *(V, width, (depth, config.get("num_decoder_layers") or depth), heads, D),
        partial(network, width, hidden, function),
        tuple(config.get(name, default) for name, default in zip(buckets, (32, 128), strict=True)),
        config.get("layer_norm_epsilon", 1e-6),
        tie := config.get("tie_word_embeddings", True),
        config.get("scale_decoder_outputs", tie),
    )


def build_whisper(config: Config) -> nn.Module:
    names = "vocab_size", "max_target_positions", "max_source_positions", "d_model"
    V, T, frames, width = read(config, *names)
    only(config, "activation_function", "gelu")
    only(config, "encoder_ffn_dim", config["decoder_ffn_dim"])
    only(config, "encoder_attention_heads", config["decoder_attention_heads"])
    only(config, "scale_embedding", False)
    depth = config["encoder_layers"], config["decoder_layers"]
    heads, hidden = config["encoder_attention_heads"], config["encoder_ffn_dim"]
    return readers.whisper(V, T, frames, width, depth, heads, hidden, bands=config["num_mel_bins"])


def of_pictures(config: Config) -> Sizes:
    """The settings that vision transformers share."""
    width, depth, heads, patch = read(config, *SIZES[1:], "patch_size")
    only(config, "num_channels", 3)
    only(config, "qkv_bias", True)
    image = config["image_size"]
    image = (image, image) if isinstance(image, int) else tuple(image)
    return {
        **{"image": image, "patch": patch, "width": width, "depth": depth, "heads": heads},
        "hidden": config.get("intermediate_size", int(width * config.get("mlp_ratio", 4))),
    }


def classes(config: Config) -> int:
    """How many classes the labels make: transformers leaves out the two that it expects."""
    return len(config.get("id2label") or {"0": 0, "1": 1})


def build_vit(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    sizes = of_pictures(config)
    return with_eps(vit(classes=classes(config), **sizes), config.get("layer_norm_eps", 1e-12))


def build_deit(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    eps = config.get("layer_norm_eps", 1e-12)
    return vision.deit(classes=classes(config), eps=eps, **of_pictures(config))


def build_dinov2(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    only(config, "use_swiglu_ffn", False)
    registers, eps = config.get("num_register_tokens", 0), config.get("layer_norm_eps", 1e-6)
    sizes = of_pictures(config)
    return vision.dinov2(classes=classes(config), registers=registers, eps=eps, **sizes)


def build_siglip(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu_pytorch_tanh")
    return vision.siglip(eps=config.get("layer_norm_eps", 1e-6), **of_pictures(config))
