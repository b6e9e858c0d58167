"""What the tensors of decoders with many networks are called in published files."""

from torch import nn

from attnbook.experts import MixtureOfExperts
from attnbook.families.layout import Names, Table, half_of_expert, of_expert
from attnbook.families.names.decoders import LLAMA

MIXTRAL = LLAMA | {
    "feedforward.part.router": "model.layers.{i}.block_sparse_moe.gate",
    **{
        f"feedforward.part.experts.{ours}": (
            f"model.layers.{{i}}.block_sparse_moe.experts.{{e}}.{theirs}"
        )
        for ours, theirs in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
    },
}
QWEN_MOE = LLAMA | {
    "feedforward.part.router": "model.layers.{i}.mlp.gate",
    "feedforward.part.shared.gate": "model.layers.{i}.mlp.shared_expert_gate",
    **{
        f"feedforward.part.{ours}.{part}": f"model.layers.{{i}}.mlp.{theirs}.{part}_proj"
        for ours, theirs in (("experts", "experts.{e}"), ("shared.expert", "shared_expert"))
        for part in ("gate", "up", "down")
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


def llama4_names(model: nn.Module) -> Names:
    """Llama 4's names: all experts in one tensor, gate and up one after the other."""
    mixtures = [part for part in model.modules() if isinstance(part, MixtureOfExperts)]
    E, stem = len(mixtures[0].experts) if mixtures else 0, "model.layers.{i}.feed_forward"
    ours, all_of_them = "feedforward.part.experts", f"{stem}.experts"
    return LLAMA | {
        **{f"feedforward.part.{p}": f"{stem}.{p}_proj" for p in ("gate", "up", "down")},
        **{
            f"feedforward.part.shared.{p}": f"{stem}.shared_expert.{p}_proj"
            for p in ("gate", "up", "down")
        },
        "feedforward.part.router": f"{stem}.router",
        f"{ours}.gate.weight": (f"{all_of_them}.gate_up_proj#{{e}}", half_of_expert(E, 0)),
        f"{ours}.up.weight": (f"{all_of_them}.gate_up_proj#{{e}}", half_of_expert(E, 1)),
        f"{ours}.down.weight": (f"{all_of_them}.down_proj#{{e}}", of_expert(E, True)),
    }
