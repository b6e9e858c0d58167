"""What the tensors of T5, BART and Whisper are called in published files."""

from torch import nn

from attnbook.families.layout import Names, Table, reshaped
from attnbook.feedforward import GatedMLP


def side(ours: str, theirs: str, parts: dict[str, tuple[int, str]]) -> dict[str, str]:
    """T5's names on one side: each part has a number and a name in its block."""
    names: dict[str, str] = {}
    for part, (n, name) in parts.items():
        layer = f"{theirs}.block.{{i}}.layer.{n}"
        names[f"{ours}.{part}.norm"] = f"{layer}.layer_norm"
        if name == "DenseReluDense":
            for piece, published in (("up", "wi"), ("down", "wo")):
                names[f"{ours}.{part}.part.{piece}"] = f"{layer}.{name}.{published}"
        else:
            names[f"{ours}.{part}.part.project.to_qkv"] = f"{layer}.{name}.q k v"
            names[f"{ours}.{part}.part.to_out"] = f"{layer}.{name}.o"
            bias = f"{layer}.{name}.relative_attention_bias"
            names[f"{ours}.{part}.part.score.relative"] = bias
    return names | {f"{ours}.norm": f"{theirs}.final_layer_norm"}


READS = {"attention": (0, "SelfAttention"), "feedforward": (1, "DenseReluDense")}
WRITES = {
    "attention": (0, "SelfAttention"),
    "cross_attention": (1, "EncDecAttention"),
    "feedforward": (2, "DenseReluDense"),
}
T5 = side("encoder", "encoder", READS) | side("decoder", "decoder", WRITES)
T5 |= {"source_embed.tokens": "shared", "to_vocab": "lm_head", "to_vocab.part": "lm_head"}
T5_GATED = T5 | {
    f"{stack}.feedforward.part.{ours}": f"{stack}.block.{{i}}.layer.{n}.DenseReluDense.{theirs}"
    for stack, n in (("encoder", 1), ("decoder", 2))
    for ours, theirs in (("gate", "wi_0"), ("up", "wi_1"), ("down", "wo"))
}
WHISPER = {
    "source_embed.first": "model.encoder.conv1",
    "source_embed.second": "model.encoder.conv2",
    "source_embed.positions": "model.encoder.embed_positions",
    "target_embed.tokens": "model.decoder.embed_tokens",
    "target_embed.positions": "model.decoder.embed_positions",
}
for _stack in ("encoder", "decoder"):
    _layer = f"model.{_stack}.layers.{{i}}"
    for _part, _name in (("attention", "self_attn"), ("cross_attention", "encoder_attn")):
        WHISPER[f"{_stack}.{_part}.norm"] = f"{_layer}.{_name}_layer_norm"
        WHISPER[f"{_stack}.{_part}.part.to_out"] = f"{_layer}.{_name}.out_proj"
        for _map in "qkv":
            to = f"{_stack}.{_part}.part.project.to_{_map}"
            WHISPER[to] = f"{_layer}.{_name}.{_map}_proj"
    WHISPER[f"{_stack}.feedforward.norm"] = f"{_layer}.final_layer_norm"
    WHISPER[f"{_stack}.feedforward.part.up"] = f"{_layer}.fc1"
    WHISPER[f"{_stack}.feedforward.part.down"] = f"{_layer}.fc2"
    WHISPER[f"{_stack}.norm"] = f"model.{_stack}.layer_norm"
BART: Table = {
    "source_embed.tokens": "model.shared",
    "to_vocab.1.bias": ("final_logits_bias", reshaped(1)),
}
for _side, _stack in (("source", "encoder"), ("target", "decoder")):
    _layer = f"model.{_stack}.layers.{{i}}"
    BART[f"{_side}_embed.positions"] = f"model.{_stack}.embed_positions"
    BART[f"{_side}_embed.norm"] = f"model.{_stack}.layernorm_embedding"
    for _part, _name in (("attention", "self_attn"), ("cross_attention", "encoder_attn")):
        BART[f"{_stack}.{_part}.norm"] = f"{_layer}.{_name}_layer_norm"
        BART[f"{_stack}.{_part}.part.to_out"] = f"{_layer}.{_name}.out_proj"
        BART[f"{_stack}.{_part}.part.project.to_qkv"] = f"{_layer}.{_name}.q_proj k_proj v_proj"
        for _map in "qkv":
            BART[f"{_stack}.{_part}.part.project.to_{_map}"] = f"{_layer}.{_name}.{_map}_proj"
    BART[f"{_stack}.feedforward.norm"] = f"{_layer}.final_layer_norm"
    for _ours, _theirs in (("up", "fc1"), ("down", "fc2")):
        BART[f"{_stack}.feedforward.part.{_ours}"] = f"{_layer}.{_theirs}"


def t5_names(model: nn.Module) -> Names:
    """T5's names: version 1.1 has a gate."""
    network = model.get_submodule("encoder.blocks.0.feedforward.part")
    return T5_GATED if isinstance(network, GatedMLP) else T5
