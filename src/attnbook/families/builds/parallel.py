"""What a published config.json says of the decoders before Llama: the model of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import parallel
from attnbook.families.settings import (
    SIZES,
    Config,
    Sizes,
    activation,
    rotation,
    windows_of,
    with_eps,
)
from attnbook.published import only, read
from attnbook.recipes import gpt2
from attnbook.rotary import neighbours


def build_gpt2(config: Config) -> nn.Module:
    names = "vocab_size", "n_positions", "n_embd", "n_layer", "n_head"
    V, T, width, depth, heads = read(config, *names)
    only(config, "activation_function", "gelu_new", "gelu_pytorch_tanh")
    only(config, "tie_word_embeddings", True)
    only(config, "scale_attn_weights", True)
    only(config, "scale_attn_by_inverse_layer_idx", False)
    only(config, "add_cross_attention", False)
    dropout, hidden = config.get("resid_pdrop", 0.1), config.get("n_inner")
    model = gpt2(V, T, width, depth, heads, dropout, hidden=hidden)
    return with_eps(model, config.get("layer_norm_epsilon", 1e-5))


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


def build_gptj(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, "vocab_size", "n_embd", "n_layer", "n_head")
    (turning,) = read(config, "rotary_dim")
    only(config, "tie_word_embeddings", False)
    function, eps = config.get("activation_function", "gelu_new"), config["layer_norm_epsilon"]
    hidden = config.get("n_inner") or 4 * width
    return parallel.gptj(V, width, depth, heads, hidden, turning, eps, activation(function))


def build_phi(config: Config) -> nn.Module:
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    only(config, "tie_word_embeddings", False)
    kv_heads, rotate = config.get("num_key_value_heads") or heads, rotation(config, width // heads)
    eps, function = config.get("layer_norm_eps", 1e-5), activation(config["hidden_act"])
    qk_norm, sizes = config.get("qk_layernorm", False), (V, width, depth, heads, kv_heads, hidden)
    return parallel.phi(*sizes, rotate, eps, function, qk_norm)


def of_cohere(config: Config) -> Sizes:
    """The settings that Command R and R7B share."""
    V, width, heads, hidden = read(config, *SIZES[:2], SIZES[3], "intermediate_size")
    only(config, "hidden_act", "silu")
    only(config, "attention_bias", False)
    kv_heads = config.get("num_key_value_heads") or heads
    return {
        **{"V": V, "width": width, "heads": heads, "kv_heads": kv_heads, "hidden": hidden},
        "rotate": rotation(config, width // heads, pairs=neighbours),
        "eps": config.get("layer_norm_eps", 1e-5),
        "logits": config.get("logit_scale", 0.0625),
        "tie": config.get("tie_word_embeddings", True),
    }


def build_cohere(config: Config) -> nn.Module:
    (depth,), qk_norm = read(config, SIZES[2]), config.get("use_qk_norm", False)
    return parallel.cohere(depth=depth, qk_norm=qk_norm, **of_cohere(config))


def build_cohere2(config: Config) -> nn.Module:
    only(config, "use_qk_norm", False)
    return parallel.cohere2(windows=windows_of(config, every=4), **of_cohere(config))
