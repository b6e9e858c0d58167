"""What was released: the settings of the open models of `open_models.py`, and who holds a copy.

    python results/releases.py FOLDER          # FOLDER/owner+name/repo: git copies, read at COMMIT

A model's `config.json` lies on a hub. Public repositories repeat it, or its makers' own code has
the same numbers. Each entry says which: `release`, a copy of the released file; `kin`, that of a
later checkpoint of the same architecture; `makers`, the code or model card of those who trained
it; `quoted`, what others read in it. Stored are the settings that cells are read from, the SHA-256
of what was read and the day of its last change. A source without a git copy in FOLDER was read as
text: its hash is the one given where it lies, or none.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from attnbook import device
from attnbook.files import store
from attnbook.provenance import provenance

OUT = Path(__file__).with_suffix(".json")
Settings = dict[str, Any]
COMMITS = {
    "ai-dynamo/aiconfigurator": "095f58a51c4ca8e61b66ec108d86f223f8d559ce",
    "alibaba/InferSim": "f2293dab6d23fe2780356eb71e0ffc3b4baf61dd",
    "allenai/OLMo": "59a53e3f68e546330ca5a99ec626e58f9ab96494",
    "allenai/OLMo-core": "fa6c5014c9f6e9ee789da2d9c20d5126fee8df0d",
    "google/gemma_pytorch": "014acb7ac4563a5f77c76d7ff98f31b568c16508",
    "huggingface/smollm": "a041759883ec7152d18fb985ea49be641a0bceef",
    "THUDM/slime": "624b824a898ab0ec1fcb4d373004c7f3852bf515",
    "MoonshotAI/Kimi-Linear": "858dba5ee09b7bf8a4830150528fa6ab0728e441",
    "vllm-project/recipes": "8959cf64189c71d36e11c6a30335f923f261b1f7",
}
# Of a released file these settings are kept: a cell or a weight's shape depends on them.
KEPT = [
    "add_full_attention_sink_bias",
    "add_swa_attention_sink_bias",
    "attention_bias",
    "attention_chunk_size",
    "attn_output_gate",
    "compress_ratios",
    "dense_intermediate_size",
    "first_k_dense_replace",
    "full_attention_interval",
    "hc_mult",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "hidden_size",
    "hybrid_layer_pattern",
    "index_head_dim",
    "index_n_heads",
    "index_topk",
    "indexer_types",
    "interleave_moe_layer_step",
    "intermediate_size",
    "intermediate_size_mlp",
    "kv_lora_rank",
    "layer_types",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "max_position_embeddings",
    "mlp_bias",
    "mlp_layer_types",
    "moe_intermediate_size",
    "moe_layer_freq",
    "n_group",
    "n_routed_experts",
    "n_shared_experts",
    "num_attention_heads",
    "num_experts",
    "num_experts_per_tok",
    "num_hash_layers",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_local_experts",
    "num_shared_experts",
    "o_groups",
    "o_lora_rank",
    "partial_rotary_factor",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_dim",
    "scoring_func",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "sliding_window",
    "sliding_window_size",
    "sparse_attention_config",
    "swa_head_dim",
    "swa_num_attention_heads",
    "swa_num_key_value_heads",
    "swa_rope_theta",
    "swa_v_head_dim",
    "swiglu_limit",
    "tie_word_embeddings",
    "topk_group",
    "use_qk_norm",
    "v_head_dim",
    "vocab_size",
]


class Source(NamedTuple):
    """Where a model's settings were read: kind, what it is, repository and path, and for those
    that are no released file the settings and the words that its text has to have."""

    kind: str
    what: str
    repository: str
    path: str
    settings: Mapping[str, Any] = MappingProxyType({})
    words: tuple[str, ...] = ()
    commit: str = ""
    date: str = ""
    sha256: str = ""


def copy(name: str, kind: str = "release") -> Source:
    """A config.json as NVIDIA's configurator keeps it, under the name of its repository."""
    folder = "aic-core/src/aiconfigurator_core/model_configs"
    path = f"{folder}/{name.replace('/', '--')}_config.json"
    return Source(kind, f"config.json of {name}", "ai-dynamo/aiconfigurator", path)


def every_fourth(layers: int, kind: str, fourth: str = "full_attention") -> list[str]:
    return [fourth if n % 4 == 3 else kind for n in range(layers)]


HIDDEN = {"hidden_act": "silu", "tie_word_embeddings": False}
OLMO: Settings = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "intermediate_size": 11_008, **HIDDEN,
}  # fmt: skip
YARN: Settings = {
    "rope_type": "yarn", "rope_theta": 1_000_000.0, "factor": 16.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "original_max_position_embeddings": 16_384, "llama_4_scaling_beta": 0.1,
}  # fmt: skip
KIMI_FULL = {4, 8, 12, 16, 20, 24, 27}  # of 27 layers, counted from 1
SOURCES: dict[str, Source] = {
    "Llama 3.1 8B": copy("meta-llama/Meta-Llama-3.1-8B"),
    "OLMo 2 7B": Source(
        "makers", "the run that trained it", "allenai/OLMo",
        "configs/official-1124/OLMo2-7B-stage1.yaml", OLMO | {"vocab_size": 100_352},
        ("d_model: 4096", "n_heads: 32", "n_layers: 32", "mlp_hidden_size: 22016",
         "norm_after: true", "attention_layer_norm: true", "rope: true", "embedding_size: 100352"),
    ),
    "DeepSeek-V3": copy("deepseek-ai/DeepSeek-V3"),
    "Gemma 3 27B": Source(
        "makers", "its makers' code; the embedding's rows as Megatron Bridge has them",
        "google/gemma_pytorch", "gemma/config.py",
        {"hidden_size": 5376, "intermediate_size": 21_504, "num_hidden_layers": 62,
         "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
         "sliding_window": 1024, "vocab_size": 262_208, "tie_word_embeddings": True},
        ("num_hidden_layers=62", "num_attention_heads=32", "num_key_value_heads=16",
         "hidden_size=5376", "intermediate_size=5376 * 8 // 2", "sliding_window_size=1024",
         "vocab_size=262_144", "use_post_ffw_norm=True"),
    ),
    "Llama 4 Scout": copy("meta-llama/Llama-4-Scout-17B-16E-Instruct"),
    "Qwen3 235B-A22B": copy("Qwen/Qwen3-235B-A22B"),
    "SmolLM3 3B": Source(
        "makers", "the run that trained it", "huggingface/smollm",
        "text/pretraining/smollm3/long_context_32k_to_64.yaml",
        {"hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36,
         "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 128_256,
         "hidden_act": "silu", "tie_word_embeddings": True, "no_rope_layer_interval": 4},
        ("hidden_size: 2048", "intermediate_size: 11008", "num_hidden_layers: 36",
         "num_attention_heads: 16", "num_key_value_heads: 4", "no_rope_layer: 4",
         "vocab_size: 128256", "tie_word_embeddings: true"),
    ),
    "Kimi K2": copy("moonshotai/Kimi-K2-Instruct"),
    "GLM-4.5": Source(
        "makers", "its makers' training code", "THUDM/slime",
        "scripts/models/glm4.5-355B-A32B.sh",
        {"hidden_size": 5120, "intermediate_size": 12_288, "num_hidden_layers": 92,
         "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128,
         "attention_bias": True, "use_qk_norm": True, "n_routed_experts": 160,
         "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 1536,
         "first_k_dense_replace": 3, "partial_rotary_factor": 0.5, "vocab_size": 151_552, **HIDDEN},
        ("N_DENSE_LAYERS=3", "N_MOE_LAYERS=89", "--qk-layernorm", "--num-attention-heads 96",
         "--num-query-groups 8", "--kv-channels 128", "--hidden-size 5120", "--add-qkv-bias",
         "--ffn-hidden-size 12288", "--rotary-percent 0.5", "--vocab-size 151552",
         "--moe-ffn-hidden-size 1536", "--moe-router-score-function sigmoid",
         "--moe-router-enable-expert-bias", "--moe-router-topk 8", "--num-experts 160"),
    ),
    "gpt-oss-120b": copy("openai/gpt-oss-120b"),
    "Qwen3-Next 80B-A3B": Source(
        "release", "config.json of Qwen/Qwen3-Next-80B-A3B", "alibaba/InferSim",
        "hf_configs/qwen3-next-80B-A3B_config.json",
    ),
    "DeepSeek-V3.2": copy("deepseek-ai/DeepSeek-V3.2"),
    "MiniMax-M2": copy("MiniMaxAI/MiniMax-M2.5", "kin"),
    "Kimi Linear 48B-A3B": Source(
        "quoted", "its makers' report for 3 : 1, no rotation, 8 of 256; list of layers as repeated",
        "MoonshotAI/Kimi-Linear", "tech_report.pdf",
        {"layer_types": [f"{'full' if n in KIMI_FULL else 'linear'}_attention"
                         for n in range(1, 28)]},
    ),
    "OLMo 3 7B": Source(
        "makers", "its makers' code; the embedding's rows as repeated", "allenai/OLMo-core",
        "src/olmo_core/nn/transformer/config.py",
        OLMO | {"vocab_size": 100_278, "sliding_window": 4096,
                "layer_types": every_fourth(32, "sliding_attention")},
        ("def olmo3_7B", "pattern=[4096, 4096, 4096, -1]", "qk_norm=kwargs.pop(\"qk_norm\", True)",
         "TransformerBlockType.reordered_norm"),
    ),
    "Ministral 3 8B": Source(
        "release", "params.json of mistralai/Ministral-3-8B-Base-2512", "bcacdwk/CIM_roofline",
        "tasks/task2_table_II_workloads/literature/02_ministral3_8b/raw/params.json",
        {"hidden_size": 4096, "num_hidden_layers": 34, "head_dim": 128, "intermediate_size": 14_336,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 131_072,
         "max_position_embeddings": 262_144, "rope_parameters": YARN, **HIDDEN},
        commit="e95de9e213d3dd0db9208459b07ce48152f102c9", date="2026-09-23",
        sha256="f1436e0548c9d66a1bd3db0e3b7c82734bd8c1b64788fa4a6c366a5e12901931",
    ),
    "MiMo-V2-Flash": copy("XiaomiMiMo/MiMo-V2-Flash"),
    "GLM-5": copy("zai-org/GLM-5"),
    "Qwen3.5 397B-A17B": copy("Qwen/Qwen3.5-397B-A17B"),
    "OLMo Hybrid 7B": Source(
        "makers", "the run that trained it; no rotation: vLLM's pull request 43846",
        "allenai/OLMo-core", "src/scripts/official/OLMo-hybrid/OLMo-hybrid-7B-pretrain.py",
        OLMO | {"hidden_size": 3840, "num_attention_heads": 30, "num_key_value_heads": 30,
                "vocab_size": 100_352, "linear_num_key_heads": 30, "linear_num_value_heads": 30,
                "linear_key_head_dim": 96, "linear_value_head_dim": 192,
                "layer_types": every_fourth(32, "linear_attention"),
                "rope_parameters": {"rope_type": "default", "rope_theta": None}},
        ("REMOVE_HEADS = 2", "TransformerConfig.olmo3_7B", "padded_vocab_size()",
         "int(0.75 * model_config.d_model / num_heads)", '["gdn", "gdn", "gdn", "attn"]'),
    ),
    "DeepSeek-V4 Flash": copy("deepseek-ai/DeepSeek-V4-Flash"),
    "MiniMax-M3": copy("MiniMaxAI/MiniMax-M3"),
    "GLM-5.2": copy("zai-org/GLM-5.2"),
    "Hy3": Source(
        "quoted", "config.json of tencent/Hy3, whose hash is given", "bcacdwk/CIM_roofline",
        "tasks/task2_table_II_workloads/literature/04_hy3_295b/STRUCTURE.zh.md",
        {"hidden_size": 4096, "intermediate_size": 13_312, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
         "num_experts": 192, "num_experts_per_tok": 8, "num_shared_experts": 1,
         "moe_intermediate_size": 1536, "max_position_embeddings": 262_144},
        commit="e95de9e213d3dd0db9208459b07ce48152f102c9", date="2026-09-23",
        sha256="0c9daab42bff9cce1b6f058b10d7b730f76d583e583e28ad56e92b36373246f0",
    ),
    "Hy4 preview": Source(
        "makers", "model card of Hy4 preview", "Tencent-Hunyuan/Hy4-preview", "README.md",
        {"hidden_size": 6144, "intermediate_size": 18_432, "num_hidden_layers": 78,
         "num_attention_heads": 64, "q_lora_rank": 2048, "kv_lora_rank": 512,
         "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048, "hc_mult": 4,
         "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
         "moe_intermediate_size": 2048, "vocab_size": 120_832,
         "max_position_embeddings": 1_048_576,
         "indexer_types": ["full" if n == 0 or n % 4 == 1 else "shared" for n in range(78)]},
        commit="1296fab2674cb5a645ccfe53e9a8dc225dbe69f2",
    ),
}  # fmt: skip
"""In the order of the table. What a source is silent on, as norms, is the code's default."""


def text_of(folder: Path, source: Source) -> tuple[bytes, str] | None:
    """The copy's bytes and the day of its last change; None where no git copy is in `folder`."""
    repo = folder / source.repository.replace("/", "+") / "repo"
    if not repo.is_dir():
        return None
    at = COMMITS.get(source.repository) or "HEAD"
    git = ["git", "-C", str(repo)]
    shown = subprocess.run([*git, "show", f"{at}:{source.path}"], capture_output=True, check=True)
    log = [*git, "log", "-1", "--format=%cs", at, "--", source.path]
    day = subprocess.run(log, capture_output=True, check=True, text=True)
    return shown.stdout, day.stdout.strip()


def kept(released: Settings) -> Settings:
    """Of a config.json what the table depends on; of one with pictures, the part for text."""
    text = released.get("text_config", released)
    return {name: text[name] for name in KEPT if name in text}


def entry(name: str, folder: Path, before: Settings) -> Settings:
    """What is stored of a model; ValueError where a copy is not what its source says."""
    source = SOURCES[name]
    found = text_of(folder, source)
    about = {"kind": source.kind, "what": source.what, "repository": source.repository}
    about |= {"path": source.path, "commit": source.commit or COMMITS[source.repository]}
    if found is None:
        if not source.commit:
            return before
        about |= {"date": source.date, "sha256": source.sha256}
        return {"source": about, "settings": source.settings}
    data, day = found
    about |= {"date": day, "sha256": hashlib.sha256(data).hexdigest()}
    missing = [words for words in source.words if words.encode() not in data]
    if missing:
        raise ValueError(f"{name}: {source.repository}/{source.path} lacks {missing}")
    return {"source": about, "settings": source.settings or kept(json.loads(data))}


def main() -> None:
    folder = Path(sys.argv[1])
    before = json.loads(OUT.read_text("utf-8"))["models"] if OUT.exists() else {}
    models = {name: entry(name, folder, before.get(name, {})) for name in SOURCES}
    lines = [f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in models.items()]
    origin = json.dumps(provenance(device.choose(0)))
    store(OUT, '{\n "models": {\n' + ",\n".join(lines) + f'\n }},\n "provenance": {origin}\n}}\n')
    for name, each in models.items():
        print(name, *each["source"].values(), sep=" | ")


if __name__ == "__main__":
    main()
