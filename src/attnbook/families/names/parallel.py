"""What the tensors of the decoders before Llama are called in published files."""

from torch import nn

from attnbook.families.layout import Names, Table, by_group, transposed
from attnbook.families.names.decoders import ENDS

GPT2: Table = {
    "embed.tokens": "transformer.wte",
    "embed.positions": "transformer.wpe",
    "attention.norm": "transformer.h.{i}.ln_1",
    "attention.part.project.to_qkv": ("transformer.h.{i}.attn.c_attn", transposed),
    "attention.part.to_out": ("transformer.h.{i}.attn.c_proj", transposed),
    "feedforward.norm": "transformer.h.{i}.ln_2",
    "feedforward.part.up": ("transformer.h.{i}.mlp.c_fc", transposed),
    "feedforward.part.down": ("transformer.h.{i}.mlp.c_proj", transposed),
    "body.norm": "transformer.ln_f",
}
NEOX: Table = {
    "embed.tokens": "gpt_neox.embed_in",
    "norm": "gpt_neox.layers.{i}.input_layernorm",
    "feedforward_norm": "gpt_neox.layers.{i}.post_attention_layernorm",
    "attention.project.to_qkv": ("gpt_neox.layers.{i}.attention.query_key_value", by_group),
    "attention.to_out": "gpt_neox.layers.{i}.attention.dense",
    "feedforward.up": "gpt_neox.layers.{i}.mlp.dense_h_to_4h",
    "feedforward.down": "gpt_neox.layers.{i}.mlp.dense_4h_to_h",
    "body.norm": "gpt_neox.final_layer_norm",
    "to_vocab": "embed_out",
}
NEOX |= {  # the same with one part after the other
    "attention.norm": NEOX["norm"],
    "feedforward.norm": NEOX["feedforward_norm"],
    **{f"attention.part.{p}": NEOX[f"attention.{p}"] for p in ("project.to_qkv", "to_out")},
    **{f"feedforward.part.{p}": NEOX[f"feedforward.{p}"] for p in ("up", "down")},
}
FALCON: Table = {
    "embed.tokens": "transformer.word_embeddings",
    "attention.project.to_qkv": ("transformer.h.{i}.self_attention.query_key_value", by_group),
    "attention.to_out": "transformer.h.{i}.self_attention.dense",
    "feedforward.up": "transformer.h.{i}.mlp.dense_h_to_4h",
    "feedforward.down": "transformer.h.{i}.mlp.dense_4h_to_h",
    "body.norm": "transformer.ln_f",
}
FALCON_1 = FALCON | {"norm": "transformer.h.{i}.input_layernorm"}
FALCON_2 = FALCON | {
    "norm": "transformer.h.{i}.ln_attn",
    "feedforward_norm": "transformer.h.{i}.ln_mlp",
}
BLOOM: Table = {
    "embed.tokens": "transformer.word_embeddings",
    "embed.norm": "transformer.word_embeddings_layernorm",
    "attention.norm": "transformer.h.{i}.input_layernorm",
    "attention.part.project.to_qkv": (
        "transformer.h.{i}.self_attention.query_key_value",
        by_group,
    ),
    "attention.part.to_out": "transformer.h.{i}.self_attention.dense",
    "feedforward.norm": "transformer.h.{i}.post_attention_layernorm",
    "feedforward.part.up": "transformer.h.{i}.mlp.dense_h_to_4h",
    "feedforward.part.down": "transformer.h.{i}.mlp.dense_4h_to_h",
    "body.norm": "transformer.ln_f",
}
GPTJ: Table = {
    "embed.tokens": "transformer.wte",
    "norm": "transformer.h.{i}.ln_1",
    "attention.project.to_qkv": "transformer.h.{i}.attn.q_proj k_proj v_proj",
    "attention.to_out": "transformer.h.{i}.attn.out_proj",
    "feedforward.up": "transformer.h.{i}.mlp.fc_in",
    "feedforward.down": "transformer.h.{i}.mlp.fc_out",
    "body.norm": "transformer.ln_f",
    "to_vocab": "lm_head",
}
PHI: Table = {
    **{f"attention.project.{n}_norm": f"model.layers.{{i}}.self_attn.{n}_layernorm" for n in "qk"},
    "embed.tokens": "model.embed_tokens",
    "norm": "model.layers.{i}.input_layernorm",
    "attention.project.to_qkv": "model.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.to_out": "model.layers.{i}.self_attn.dense",
    "feedforward.up": "model.layers.{i}.mlp.fc1",
    "feedforward.down": "model.layers.{i}.mlp.fc2",
    "body.norm": "model.final_layernorm",
    "to_vocab": "lm_head",
}
COHERE: Table = ENDS | {
    **{f"attention.project.{n}_norm": f"model.layers.{{i}}.self_attn.{n}_norm" for n in "qk"},
    "norm": "model.layers.{i}.input_layernorm",
    "attention.project.to_qkv": "model.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.to_out": "model.layers.{i}.self_attn.o_proj",
    **{f"feedforward.{p}": f"model.layers.{{i}}.mlp.{p}_proj" for p in ("gate", "up", "down")},
}


def falcon_names(model: nn.Module) -> Names:
    """Falcon's names: the larger ones have two norms in a block."""
    norm = getattr(model.get_submodule("body.blocks.0"), "feedforward_norm", None)
    return FALCON_1 if norm is None else FALCON_2
