"""What open models are made of, read in their own code: the table of the book's appendix.

    python results/open_models.py

Each model is built by `transformers` without memory (on torch's meta device) and looked at: which
weights it has, of which shapes, and what its configuration and the source of its layers say. A
model whose configuration's defaults are not those of the named checkpoint gets the settings of that
checkpoint from here; the sum of its parameters must then be the number in its name. Each cell is
stored with where it was read.
"""

import math
from pathlib import Path
from typing import Any

import transformers
from model_code import COLUMNS, Model, Reader

from attnbook import device
from attnbook.provenance import provenance, write

OUT = Path(__file__).with_suffix(".json")
OLMO = {"vocab_size": 100_278}
KIMI_K2: dict[str, Any] = {
    "vocab_size": 163_840, "num_attention_heads": 64, "num_key_value_heads": 64,
    "n_routed_experts": 384, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
LLAMA_8B: dict[str, Any] = {
    "vocab_size": 128_256, "intermediate_size": 14_336, "num_key_value_heads": 8,
    "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
    },
    "max_position_embeddings": 131_072,
}  # fmt: skip
GEMMA_27B: dict[str, Any] = {
    "hidden_size": 5376, "intermediate_size": 21_504, "num_hidden_layers": 62,
    "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024,
}  # fmt: skip
QWEN3_235B: dict[str, Any] = {
    "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64, "head_dim": 128,
    "moe_intermediate_size": 1536,
}  # fmt: skip
GLM_45: dict[str, Any] = {
    "hidden_size": 5120, "intermediate_size": 12_288, "num_hidden_layers": 92, "head_dim": 128,
    "attention_bias": True, "use_qk_norm": True, "n_routed_experts": 160,
    "moe_intermediate_size": 1536, "first_k_dense_replace": 3,
}  # fmt: skip
FULL = {4, 8, 12, 16, 20, 24, 27}  # of 27 layers, counted from 1
KIMI_LINEAR: dict[str, Any] = {
    "layer_types": [f"{'full' if n in FULL else 'linear'}_attention" for n in range(1, 28)],
}  # fmt: skip
MINIMAX_M2: dict[str, Any] = {
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 5_000_000.0, "partial_rotary_factor": 64 / 128,
    },
}  # fmt: skip
OLMO_HYBRID: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "rope_theta": None}}
RELEASED = {
    "Kimi Linear 48B-A3B": "linear_attn_config.full_attn_layers of moonshotai/Kimi-Linear-48B-A3B-"
    "Base, as Megatron Bridge and others repeat it: 20 layers with a state, 7 with attention",
    "MiniMax-M2": "rotary_dim of MiniMaxAI/MiniMax-M2, 64 of 128 channels",
    "OLMo Hybrid 7B": "rope_parameters of allenai/Olmo-Hybrid-7B, null: vLLM's pull request 43846",
}
"""Where the released config.json differs from the defaults of the code, and who repeats it."""
MODELS = [
    Model("Llama 3.1 8B", "2024-07", "Llama", 8.03, LLAMA_8B),
    Model("OLMo 2 7B", "2024-11", "Olmo2", 7.30, OLMO),
    Model("DeepSeek-V3", "2024-12", "DeepseekV3", 671),
    Model("Gemma 3 27B", "2025-03", "Gemma3", 27.0, GEMMA_27B, "Gemma3TextConfig"),
    Model("Llama 4 Scout", "2025-04", "Llama4", 109, {}, "Llama4TextConfig"),
    Model("Qwen3 235B-A22B", "2025-04", "Qwen3Moe", 235, QWEN3_235B),
    Model("SmolLM3 3B", "2025-07", "SmolLM3", 3.08),
    Model("Kimi K2", "2025-07", "DeepseekV3", 1026, KIMI_K2),
    Model("GLM-4.5", "2025-07", "Glm4Moe", 355, GLM_45),
    Model("gpt-oss-120b", "2025-08", "GptOss", 117),
    Model("Qwen3-Next 80B-A3B", "2025-09", "Qwen3Next", 80),
    Model("DeepSeek-V3.2", "2025-09", "DeepseekV32", 671),
    Model("MiniMax-M2", "2025-10", "MiniMaxM2", 229, MINIMAX_M2),
    Model("Kimi Linear 48B-A3B", "2025-10", "KimiLinear", 49, KIMI_LINEAR),
    Model("OLMo 3 7B", "2025-11", "Olmo3", 7.30, OLMO),
    Model("Ministral 3 8B", "2025-12", "Ministral3", 8.5),
    Model("MiMo-V2-Flash", "2025-12", "MiMoV2Flash", 309),
    Model("GLM-5", "2026-02", "GlmMoeDsa", 744),
    Model("OLMo Hybrid 7B", "2026-03", "OlmoHybrid", 7.4, OLMO_HYBRID),
    Model("DeepSeek-V4 Flash", "2026-04", "DeepseekV4", 284),
]


def row(model: Model) -> dict[str, Any]:
    """A model's cells, each with its source; ValueError if its size is not that of its name."""
    r = Reader(model)
    billions = sum(map(math.prod, r.shapes.values())) / 1e9
    if abs(billions / model.billions - 1) > 0.02:
        raise ValueError(
            f"{model.name} has {model.billions} B parameters, this is {billions:.2f} B"
        )
    cells = {name: read(r)._asdict() for name, read in COLUMNS.items()}
    return {
        "name": model.name,
        "month": model.month,
        "settings": bool(model.settings),
        "released": RELEASED.get(model.name, ""),
        "cells": cells,
    }


def main() -> None:
    rows = [row(model) for model in MODELS]
    for each in rows:
        print(each["name"], *(cell["says"] for cell in each["cells"].values()), sep=" | ")
    origin = provenance(device.choose(0), "transformers")
    write(OUT, {"transformers": transformers.__version__, "models": rows, "provenance": origin})


if __name__ == "__main__":
    main()
