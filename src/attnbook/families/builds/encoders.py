"""What a published config.json says of BERT and what became of it: the encoder of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import encoders
from attnbook.families.settings import SIZES, Config, Sizes, activation, near_and_far
from attnbook.published import only, read


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


def build_electra(config: Config) -> nn.Module:
    sizes = of_bert(config)
    T, narrow = read(config, "max_position_embeddings", "embedding_size")
    if narrow == sizes["width"]:  # nothing to map, so there is no map
        return encoders.bert_pair(T=T, **sizes)
    return encoders.electra(T=T, narrow=narrow, **sizes)


def build_albert(config: Config) -> nn.Module:
    T, narrow = read(config, "max_position_embeddings", "embedding_size")
    only(config, "num_hidden_groups", 1)
    only(config, "inner_group_num", 1)
    return encoders.albert(T=T, narrow=narrow, **of_bert(config))


def build_modernbert(config: Config) -> nn.Module:
    V, width, heads, hidden = read(config, *SIZES[:2], SIZES[3], "intermediate_size")
    for part in ("norm", "attention", "mlp", "classifier"):
        only(config, f"{part}_bias", False)
    only(config, "decoder_bias", True)
    only(config, "classifier_activation", "gelu")
    only(config, "tie_word_embeddings", True)
    every, window = config.get("global_attn_every_n_layers", 3), config["local_attention"] // 2 + 1
    depth, kinds = config["num_hidden_layers"], config.get("layer_types")
    near = [bool(i % every) for i in range(depth)]
    near = near if kinds is None else [kind == "sliding_attention" for kind in kinds]
    bases = ("local_rope_theta", 10_000.0), ("global_rope_theta", 160_000.0)
    return encoders.modernbert(
        *(V, width, heads, hidden, [window if is_near else None for is_near in near]),
        rotations=near_and_far(config, width // heads, *bases),
        eps=config.get("norm_eps", 1e-5),
        activation=activation(config.get("hidden_activation", "gelu")),
    )
