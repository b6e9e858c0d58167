"""What the tensors of Llama and its descendants are called in published files."""

from attnbook.families.layout import Table, per_head, rows

ATTENTION: Table = {
    "attention.part.project.to_qkv": "model.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.part.to_out": "model.layers.{i}.self_attn.o_proj",
    "attention.part.project.q_norm": "model.layers.{i}.self_attn.q_norm",
    "attention.part.project.k_norm": "model.layers.{i}.self_attn.k_norm",
    "attention.part.project.q_norm.norm": "model.layers.{i}.self_attn.q_norm",
    "attention.part.project.k_norm.norm": "model.layers.{i}.self_attn.k_norm",
}
NETWORK: Table = {
    f"feedforward.part.{part}": f"model.layers.{{i}}.mlp.{part}_proj"
    for part in ("gate", "up", "down")
}
ENDS: Table = {
    "embed.tokens": "model.embed_tokens",
    "body.norm": "model.norm",
    "to_vocab": "lm_head",
    "to_vocab.0": "lm_head",
}
LLAMA: Table = (
    ATTENTION
    | NETWORK
    | ENDS
    | {
        "attention.norm": "model.layers.{i}.input_layernorm",
        "feedforward.norm": "model.layers.{i}.post_attention_layernorm",
    }
)
AFTER = (
    ATTENTION
    | NETWORK
    | ENDS
    | {
        "attention.after": "model.layers.{i}.post_attention_layernorm",
        "feedforward.after": "model.layers.{i}.post_feedforward_layernorm",
    }
)
BOTH = AFTER | {
    "attention.before": "model.layers.{i}.input_layernorm",
    "feedforward.before": "model.layers.{i}.pre_feedforward_layernorm",
}
PHI3: Table = LLAMA | {
    "attention.part.project.to_qkv": ("model.layers.{i}.self_attn.qkv_proj", rows(0, 1)),
    "feedforward.part.gate": ("model.layers.{i}.mlp.gate_up_proj", rows(0, 2)),
    "feedforward.part.up": ("model.layers.{i}.mlp.gate_up_proj", rows(1, 2)),
}
STARCODER2: Table = LLAMA | {
    "feedforward.part.up": "model.layers.{i}.mlp.c_fc",
    "feedforward.part.down": "model.layers.{i}.mlp.c_proj",
}
STABLELM: Table = LLAMA | {
    f"attention.part.project.{n}_norm": (f"model.layers.{{i}}.self_attn.{n}_layernorm", per_head)
    for n in "qk"
}
GRANITE: Table = LLAMA | {
    "attention.before": "model.layers.{i}.input_layernorm",
    "feedforward.before": "model.layers.{i}.post_attention_layernorm",
}
OPT: Table = {
    "embed.tokens": "model.decoder.embed_tokens",
    "embed.positions": "model.decoder.embed_positions",
    "attention.norm": "model.decoder.layers.{i}.self_attn_layer_norm",
    "attention.part.project.to_qkv": "model.decoder.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.part.to_out": "model.decoder.layers.{i}.self_attn.out_proj",
    "feedforward.norm": "model.decoder.layers.{i}.final_layer_norm",
    "feedforward.part.up": "model.decoder.layers.{i}.fc1",
    "feedforward.part.down": "model.decoder.layers.{i}.fc2",
    "body.norm": "model.decoder.final_layer_norm",
}
GLM4: Table = GRANITE | {
    "attention.after": "model.layers.{i}.post_self_attn_layernorm",
    "feedforward.after": "model.layers.{i}.post_mlp_layernorm",
    "feedforward.part.gate": ("model.layers.{i}.mlp.gate_up_proj", rows(0, 2)),
    "feedforward.part.up": ("model.layers.{i}.mlp.gate_up_proj", rows(1, 2)),
}
APERTUS: Table = LLAMA | {
    "attention.norm": "model.layers.{i}.attention_layernorm",
    "feedforward.norm": "model.layers.{i}.feedforward_layernorm",
    **{
        f"feedforward.part.activation.{ours}": f"model.layers.{{i}}.mlp.act_fn.{theirs}"
        for ours, theirs in zip(
            ("above", "below", "beta", "eps"), ("alpha_p", "alpha_n", "beta", "eps"), strict=True
        )
    },
}
