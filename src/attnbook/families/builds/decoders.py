"""What a published config.json says of Llama and its descendants: the decoder of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import decoders
from attnbook.families.settings import (
    SIZES,
    Config,
    Sizes,
    head_width,
    near_and_far,
    rotation,
    windows_of,
)
from attnbook.published import only, read


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


def of_gemma(config: Config, every: int) -> Sizes:
    """The settings that Gemma 2 and 3 share; each `every`-th block sees everything."""
    only(config, "hidden_activation", "gelu_pytorch_tanh")
    only(config, "attention_bias", False)
    sizes = of_llama(dict(config) | {"hidden_act": "silu"})
    del sizes["tie"]
    only(config, "tie_word_embeddings", True)
    sizes["D"] = head_width(config, sizes["width"], sizes["heads"])
    sizes["windows"] = windows_of(config, every)
    return sizes


def build_gemma2(config: Config) -> nn.Module:
    sizes = of_gemma(config, every=2)
    score = config["query_pre_attn_scalar"] ** -0.5, config.get("attn_logit_softcapping")
    cap, rotate = config.get("final_logit_softcapping"), rotation(config, sizes["D"])
    return decoders.gemma2(score=score, cap=cap, rotate=rotate, **sizes)


def build_gemma3(config: Config) -> nn.Module:
    sizes = of_gemma(config, every=6)
    only(config, "attn_logit_softcapping", None)
    only(config, "final_logit_softcapping", None)
    only(config, "use_bidirectional_attention", False, None)
    bases = ("rope_local_base_freq", 10_000.0), ("rope_theta", 1_000_000.0)
    rotations = near_and_far(config, sizes["D"], *bases)
    scale = config["query_pre_attn_scalar"] ** -0.5
    return decoders.gemma3(rotations=rotations, scale=scale, **sizes)
