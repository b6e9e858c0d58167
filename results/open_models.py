"""What open models are made of, read in their own code: the table of the book's appendix.

    python results/open_models.py

Each model is built by `transformers` without memory (on torch's meta device), with the settings
that were released (`releases.py`), and looked at: which weights it has, of which shapes, and what
its configuration and the source of its layers say. The sum of its parameters must be its makers'
number. Each cell is stored with where it was read.
"""

import json
import math
from pathlib import Path
from typing import Any

import transformers
from model_code import COLUMNS, Model, Reader

from attnbook import device
from attnbook.provenance import provenance, write

OUT = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "open_models.json"
RELEASES = json.loads(Path(__file__).with_name("releases.json").read_text("utf-8"))["models"]


def model(name: str, month: str, kind: str, billions: float, config: str = "") -> Model:
    """A row with the settings that were released."""
    return Model(name, month, kind, billions, RELEASES[name]["settings"], config)


MODELS = [
    model("Llama 3.1 8B", "2024-07", "Llama", 8.03),
    model("OLMo 2 7B", "2024-11", "Olmo2", 7.30),
    model("DeepSeek-V3", "2024-12", "DeepseekV3", 671),
    model("Gemma 3 27B", "2025-03", "Gemma3", 27.0, "Gemma3TextConfig"),
    model("Llama 4 Scout", "2025-04", "Llama4", 109, "Llama4TextConfig"),
    model("Qwen3 235B-A22B", "2025-04", "Qwen3Moe", 235),
    model("SmolLM3 3B", "2025-07", "SmolLM3", 3.08),
    model("Kimi K2", "2025-07", "DeepseekV3", 1026),
    model("GLM-4.5", "2025-07", "Glm4Moe", 355),
    model("gpt-oss-120b", "2025-08", "GptOss", 117),
    model("Qwen3-Next 80B-A3B", "2025-09", "Qwen3Next", 80),
    model("DeepSeek-V3.2", "2025-09", "DeepseekV32", 671),
    model("MiniMax-M2", "2025-10", "MiniMaxM2", 229),
    model("Kimi Linear 48B-A3B", "2025-10", "KimiLinear", 49),
    model("OLMo 3 7B", "2025-11", "Olmo3", 7.30),
    model("Ministral 3 8B", "2025-12", "Ministral3", 8.5),
    model("MiMo-V2-Flash", "2025-12", "MiMoV2Flash", 309),
    model("GLM-5", "2026-02", "GlmMoeDsa", 744),
    model("Qwen3.5 397B-A17B", "2026-02", "Qwen3_5Moe", 397, "Qwen3_5MoeTextConfig"),
    model("OLMo Hybrid 7B", "2026-03", "OlmoHybrid", 7.4),
    model("DeepSeek-V4 Flash", "2026-04", "DeepseekV4", 284),
    model("MiniMax-M3", "2026-06", "MiniMaxM3VL", 427, "MiniMaxM3VLTextConfig"),
    model("GLM-5.2", "2026-06", "GlmMoeDsa", 744),
    model("Hy3", "2026-07", "HYV3", 295),
    model("Hy4 preview", "2026-08", "HYV4", 770),
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
        "source": RELEASES[model.name]["source"],
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
