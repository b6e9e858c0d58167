"""The families of published models that can be read: for each `model_type` a recipe, and a table of
names."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnbook.families import builds
from attnbook.families.layout import (
    Layout,
    Names,
    by_group,
    convolution,
    of_expert,
    reshaped,
    rows,
    transposed,
)
from attnbook.families.settings import Config
from attnbook.feedforward import GatedMLP


@dataclass(frozen=True)
class Family:
    """How a model_type is built of its config, and what its tensors are called.

    `head` is the prefix of the published model with its head: files of the bare model lack it.
    `extra` are tensors that the files may hold and the model does not need: buffers, second copies.
    """

    build: Callable[[Config], nn.Module]
    names: Names | Callable[[nn.Module], Names]
    architecture: str
    prefix: str = ""
    extra: tuple[str, ...] = ()


Table = dict[str, str | tuple[str, Layout]]
SIZES = "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"
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
MIXTRAL = LLAMA | {
    "feedforward.part.router": "model.layers.{i}.block_sparse_moe.gate",
    **{
        f"feedforward.part.experts.{ours}": (
            f"model.layers.{{i}}.block_sparse_moe.experts.{{e}}.{theirs}"
        )
        for ours, theirs in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
    },
}
DEEPSEEK = LLAMA | {
    "attention.part.project.to_q": "model.layers.{i}.self_attn.q_proj",
    "attention.part.project.to_q.0": "model.layers.{i}.self_attn.q_a_proj",
    "attention.part.project.to_q.1": "model.layers.{i}.self_attn.q_a_layernorm",
    "attention.part.project.to_q.2": "model.layers.{i}.self_attn.q_b_proj",
    "attention.part.project.to_latent": "model.layers.{i}.self_attn.kv_a_proj_with_mqa",
    "attention.part.project.norm": "model.layers.{i}.self_attn.kv_a_layernorm",
    "attention.part.project.to_kv": "model.layers.{i}.self_attn.kv_b_proj",
    "feedforward.part.router": "model.layers.{i}.mlp.gate",
    "feedforward.part.router.correction": "model.layers.{i}.mlp.gate.e_score_correction_bias",
    **{
        f"feedforward.part.{ours}.{part}": f"model.layers.{{i}}.mlp.{theirs}.{part}_proj"
        for ours, theirs in (("experts", "experts.{e}"), ("shared", "shared_experts"))
        for part in ("gate", "up", "down")
    },
}
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


def bert_names(prefix: str) -> dict[str, str]:
    """What BERT's layers are called, behind this prefix."""
    layer = f"{prefix}.encoder.layer.{{i}}"
    return {
        "embed.tokens": f"{prefix}.embeddings.word_embeddings",
        "embed.kinds": f"{prefix}.embeddings.token_type_embeddings",
        "embed.positions": f"{prefix}.embeddings.position_embeddings",
        "embed.norm": f"{prefix}.embeddings.LayerNorm",
        "attention.part.project.to_qkv": f"{layer}.attention.self.query key value",
        "attention.part.to_out": f"{layer}.attention.output.dense",
        "attention.norm": f"{layer}.attention.output.LayerNorm",
        "feedforward.part.up": f"{layer}.intermediate.dense",
        "feedforward.part.down": f"{layer}.output.dense",
        "feedforward.norm": f"{layer}.output.LayerNorm",
    }


BERT = bert_names("bert") | {
    "to_vocab.0": "cls.predictions.transform.dense",
    "to_vocab.2": "cls.predictions.transform.LayerNorm",
    "to_vocab.3": "cls.predictions",
}
ROBERTA = bert_names("roberta") | {
    "to_vocab.0": "lm_head.dense",
    "to_vocab.2": "lm_head.layer_norm",
    "to_vocab.3": "lm_head",
}
DISTILBERT = {
    "embed.tokens": "distilbert.embeddings.word_embeddings",
    "embed.positions": "distilbert.embeddings.position_embeddings",
    "embed.norm": "distilbert.embeddings.LayerNorm",
    "attention.part.project.to_qkv": "distilbert.transformer.layer.{i}.attention.q_lin k_lin v_lin",
    "attention.part.to_out": "distilbert.transformer.layer.{i}.attention.out_lin",
    "attention.norm": "distilbert.transformer.layer.{i}.sa_layer_norm",
    "feedforward.part.up": "distilbert.transformer.layer.{i}.ffn.lin1",
    "feedforward.part.down": "distilbert.transformer.layer.{i}.ffn.lin2",
    "feedforward.norm": "distilbert.transformer.layer.{i}.output_layer_norm",
    "to_vocab.0": "vocab_transform",
    "to_vocab.2": "vocab_layer_norm",
    "to_vocab.3": "vocab_projector",
}


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


def falcon_names(model: nn.Module) -> Names:
    """Falcon's names: the larger ones have two norms in a block."""
    norm = getattr(model.get_submodule("body.blocks.0"), "feedforward_norm", None)
    return FALCON_1 if norm is None else FALCON_2


def t5_names(model: nn.Module) -> Names:
    """T5's names: version 1.1 has a gate."""
    network = model.get_submodule("encoder.blocks.0.feedforward.part")
    return T5_GATED if isinstance(network, GatedMLP) else T5


def gpt_oss_names(model: nn.Module) -> Names:
    """gpt-oss's names: all experts in one tensor, gate and up in turns."""
    E = len(list(model.get_submodule("body.blocks.0.feedforward.part.experts").children()))
    names: Table = {}
    for part, theirs, first, step in (
        ("gate", "gate_up_proj", 0, 2),
        ("up", "gate_up_proj", 1, 2),
        ("down", "down_proj", 0, 1),
    ):
        ours = f"feedforward.part.experts.{part}"
        there = f"model.layers.{{i}}.mlp.experts.{theirs}"
        names[f"{ours}.weight"] = (f"{there}#{{e}}", of_expert(E, True, first, step))
        names[f"{ours}.bias"] = (f"{there}_bias#{{e}}", of_expert(E, False, first, step))
    return (
        LLAMA
        | names
        | {
            "feedforward.part.router": "model.layers.{i}.mlp.router",
            "attention.part.score.sinks": "model.layers.{i}.self_attn.sinks",
        }
    )


def family(
    build: str, names: Names | Callable[[nn.Module], Names], architecture: str, **how: Any
) -> Family:
    """A family whose config is read by `builds.build_<name>`."""
    return Family(getattr(builds, f"build_{build}"), names, architecture, **how)


BUFFERS = ("*.attn.bias", "*.masked_bias", "*.inv_freq", "*.position_ids", "*.token_type_ids")
OTHER_TASKS = ("*.pooler.*", "cls.seq_relationship.*", "*.decoder.bias")
FAMILIES: dict[str, Family] = {
    "gpt2": family("gpt2", GPT2, "GPT2LMHeadModel", prefix="transformer."),
    "llama": family("llama", LLAMA, "LlamaForCausalLM", prefix="model."),
    "qwen2": family("qwen2", LLAMA, "Qwen2ForCausalLM", prefix="model."),
    "qwen3": family("qwen3", LLAMA, "Qwen3ForCausalLM", prefix="model."),
    "mistral": family("mistral", LLAMA, "MistralForCausalLM", prefix="model."),
    "mixtral": family("mixtral", MIXTRAL, "MixtralForCausalLM", prefix="model."),
    "deepseek_v3": family("deepseek_v3", DEEPSEEK, "DeepseekV3ForCausalLM", prefix="model."),
    "gpt_oss": family("gpt_oss", gpt_oss_names, "GptOssForCausalLM", prefix="model."),
    "phi3": family("phi3", PHI3, "Phi3ForCausalLM", prefix="model."),
    "smollm3": family("smollm3", LLAMA, "SmolLM3ForCausalLM", prefix="model."),
    "olmo2": family("olmo2", AFTER, "Olmo2ForCausalLM", prefix="model."),
    "gemma2": family("gemma2", BOTH, "Gemma2ForCausalLM", prefix="model."),
    "gemma3_text": family("gemma3", BOTH, "Gemma3ForCausalLM", prefix="model."),
    "gpt_neox": family("gpt_neox", NEOX, "GPTNeoXForCausalLM", prefix="gpt_neox."),
    "falcon": family("falcon", falcon_names, "FalconForCausalLM", prefix="transformer."),
    "bloom": family("bloom", BLOOM, "BloomForCausalLM", prefix="transformer."),
    "bert": family("bert", BERT, "BertForMaskedLM", prefix="bert.", extra=OTHER_TASKS),
    "roberta": family(
        "roberta", ROBERTA, "RobertaForMaskedLM", prefix="roberta.", extra=OTHER_TASKS
    ),
    "distilbert": family("distilbert", DISTILBERT, "DistilBertForMaskedLM", prefix="distilbert."),
    "t5": family("t5", t5_names, "T5ForConditionalGeneration"),
    "whisper": family("whisper", WHISPER, "WhisperForConditionalGeneration", prefix="model."),
    "vit": family(
        "vit", picture_names("vit", VIT_LAYER), "ViTForImageClassification", prefix="vit."
    ),
    "deit": family(
        *("deit", picture_names("deit", VIT_LAYER), "DeiTForImageClassificationWithTeacher"),
        prefix="deit.",
    ),
    "dinov2_with_registers": family(
        "dinov2",
        picture_names("dinov2_with_registers", DINO_LAYER),
        "Dinov2WithRegistersForImageClassification",
        prefix="dinov2_with_registers.",
        extra=("*.mask_token",),
    ),
    "siglip_vision_model": family("siglip", SIGLIP, "SiglipVisionModel"),
}
