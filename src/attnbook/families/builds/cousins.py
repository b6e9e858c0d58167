"""What a published config.json says of the cousins of Llama: the decoder of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import cousins
from attnbook.families.builds.decoders import of_llama
from attnbook.families.settings import SIZES, Config, Sizes, activation, head_width, rotation
from attnbook.published import only, read


def frame(config: Config) -> Sizes:
    """The sizes that all of them have."""
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    kv_heads = config.get("num_key_value_heads") or heads
    sizes = {"V": V, "width": width, "depth": depth, "heads": heads, "kv_heads": kv_heads}
    return {**sizes, "hidden": hidden, "rotate": rotation(config, head_width(config, width, heads))}


def build_granite(config: Config) -> nn.Module:
    names = "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"
    embedding, scores, added, logits = (float(number) for number in read(config, *names))
    only(config, "attention_bias", False)
    sizes = of_llama(config)
    rotate = rotation(config, sizes["width"] // sizes["heads"])
    multipliers = embedding, scores, added, 1 / logits
    return cousins.granite(rotate=rotate, multipliers=multipliers, **sizes)


def build_stablelm(config: Config) -> nn.Module:
    only(config, "hidden_act", "silu")
    only(config, "use_parallel_residual", False)
    bias, tie = config.get("use_qkv_bias", False), config.get("tie_word_embeddings", False)
    eps = config.get("layer_norm_eps", 1e-5)
    qk_norm = config.get("qk_layernorm", False)
    return cousins.stablelm(bias=bias, eps=eps, tie=tie, qk_norm=qk_norm, **frame(config))


def build_starcoder2(config: Config) -> nn.Module:
    only(config, "tie_word_embeddings", True)
    return cousins.starcoder2(
        window=config.get("sliding_window"),
        bias=config.get("use_bias", True),
        eps=config.get("norm_epsilon", 1e-5),
        activation=activation(config.get("hidden_act", "gelu_pytorch_tanh")),
        **frame(config),
    )


def build_nemotron(config: Config) -> nn.Module:
    only(config, "hidden_act", "relu2")
    only(config, "attention_bias", False)
    only(config, "mlp_bias", False)
    only(config, "tie_word_embeddings", False)
    sizes = frame(config)
    D = head_width(config, sizes["width"], sizes["heads"])
    return cousins.nemotron(D=D, eps=config.get("norm_eps", 1e-5), **sizes)


def build_opt(config: Config) -> nn.Module:
    V, width, depth, heads = read(config, *SIZES)
    T, hidden = read(config, "max_position_embeddings", "ffn_dim")
    only(config, "word_embed_proj_dim", width)
    only(config, "do_layer_norm_before", True)
    only(config, "_remove_final_layer_norm", False)
    only(config, "enable_bias", True)
    only(config, "layer_norm_elementwise_affine", True)
    only(config, "tie_word_embeddings", True)
    function = activation(config.get("activation_function", "relu"))
    return cousins.opt(V, T, width, depth, heads, hidden, function)
