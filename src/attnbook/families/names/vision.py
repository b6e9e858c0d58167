"""What the tensors of vision transformers are called in published files."""

from attnbook.families.layout import Names, Table, convolution, reshaped


def picture_names(prefix: str, layer: dict[str, str]) -> Names:
    """What a vision transformer's parts are called behind this prefix."""
    block = f"{prefix}.encoder.layer.{{i}}"
    return {
        "pool.token": (f"{prefix}.embeddings.cls_token", reshaped(1, 1)),
        "pool.teacher": (f"{prefix}.embeddings.distillation_token", reshaped(1, 1)),
        "pool.registers": (f"{prefix}.embeddings.register_tokens", reshaped(1)),
        "positions.table": (f"{prefix}.embeddings.position_embeddings", reshaped(1)),
        "patches.to_width": (f"{prefix}.embeddings.patch_embeddings.projection", convolution),
        "attention.part.project.to_qkv": f"{block}.attention.attention.query key value",
        "attention.part.to_out": f"{block}.attention.output.dense",
        "body.norm": f"{prefix}.layernorm",
        "to_class": "classifier",
        "to_class.own": "cls_classifier",
        "to_class.teacher": "distillation_classifier",
        **{ours: f"{block}.{theirs}" for ours, theirs in layer.items()},
    }


VIT_LAYER = {
    "attention.norm": "layernorm_before",
    "feedforward.norm": "layernorm_after",
    "feedforward.part.up": "intermediate.dense",
    "feedforward.part.down": "output.dense",
}
DINO_LAYER = {
    "attention.before": "norm1",
    "attention.after.gain": "layer_scale1.lambda1",
    "feedforward.before": "norm2",
    "feedforward.after.gain": "layer_scale2.lambda1",
    "feedforward.part.up": "mlp.fc1",
    "feedforward.part.down": "mlp.fc2",
}
SIGLIP: Table = {
    "patches.to_width": ("embeddings.patch_embedding", convolution),
    "positions": "embeddings.position_embedding",
    "attention.part.project.to_qkv": "encoder.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.part.to_out": "encoder.layers.{i}.self_attn.out_proj",
    "attention.norm": "encoder.layers.{i}.layer_norm1",
    "feedforward.norm": "encoder.layers.{i}.layer_norm2",
    "feedforward.part.up": "encoder.layers.{i}.mlp.fc1",
    "feedforward.part.down": "encoder.layers.{i}.mlp.fc2",
    "body.norm": "post_layernorm",
    "pool.probe": ("head.probe", reshaped(1, 1)),
    "pool.attention.project.to_qkv.weight": "head.attention.in_proj_weight",
    "pool.attention.project.to_qkv.bias": "head.attention.in_proj_bias",
    "pool.attention.to_out": "head.attention.out_proj",
    "pool.norm": "head.layernorm",
    "pool.network.up": "head.mlp.fc1",
    "pool.network.down": "head.mlp.fc2",
}
