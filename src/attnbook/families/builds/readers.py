"""What a published config.json says of T5, BART and Whisper: the encoder–decoder of that size.

What has no place in it is refused.
"""

from functools import partial

from torch import nn

from attnbook.families import readers
from attnbook.families.settings import Config, activation
from attnbook.feedforward import MLP, GatedMLP
from attnbook.published import only, read


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


def build_bart(config: Config) -> nn.Module:
    V, T, width = read(config, "vocab_size", "max_position_embeddings", "d_model")
    sides = ("encoder", "decoder")
    depth, heads, hidden = (
        tuple(read(config, *(f"{side}_{size}" for side in sides)))
        for size in ("layers", "attention_heads", "ffn_dim")
    )
    only(config, "tie_word_embeddings", True)
    only(config, "normalize_before", False)
    only(config, "add_final_layer_norm", False)
    only(config, "normalize_embedding", True)
    only(config, "static_position_embeddings", False)
    function = activation(config.get("activation_function", "gelu"))
    scale = width**0.5 if config.get("scale_embedding", False) else 1.0
    return readers.bart(V, T, width, depth, heads, hidden, scale, function)
