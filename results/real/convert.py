"""Gemma 3 270M from a GGUF file as a folder that `load` and `tokenizers` read.

    pip install gguf
    python results/real/convert.py gemma-3-270m-q4_k_m.gguf FOLDER

The weights are multiplied out to 32 bits; what GGUF calls a norm's weight is 1 + the published one.
The tokenizer is SentencePiece's, whose pieces have scores: two neighbours are joined in the order
of the score of what they make. What the file does not hold, the base of the windows' rotations and
their pattern, is the family's. A file whose hash is another than real_model.SOURCE's is refused.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from real_model import SOURCE, hash_of
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
INSIDE = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
SPECIAL, OWN = 3, 4  # kinds of tokens: control, and those that users defined


def published(name: str) -> str:
    """The published name of a tensor of this name in GGUF."""
    stem = name.removesuffix(".weight")
    block = re.fullmatch(r"blk\.(\d+)\.(.*)", stem)
    stem = f"model.layers.{block[1]}.{INSIDE[block[2]]}" if block else OUTSIDE[stem]
    return f"{stem}.weight"


def configuration(facts: dict[str, Any]) -> dict[str, Any]:
    """config.json, from what the file says of itself and what its family has."""
    N, window = facts["gemma3.block_count"], facts["gemma3.attention.sliding_window"]
    kinds = ["full_attention" if (n + 1) % 6 == 0 else "sliding_attention" for n in range(N)]
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "vocab_size": len(facts["tokenizer.ggml.tokens"]),
        "hidden_size": facts["gemma3.embedding_length"],
        "intermediate_size": facts["gemma3.feed_forward_length"],
        "num_hidden_layers": N,
        "num_attention_heads": facts["gemma3.attention.head_count"],
        "num_key_value_heads": facts["gemma3.attention.head_count_kv"],
        "head_dim": facts["gemma3.attention.key_length"],
        "query_pre_attn_scalar": facts["gemma3.attention.key_length"],
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": facts["gemma3.context_length"],
        "rms_norm_eps": 1e-6,
        "rope_theta": facts["gemma3.rope.freq_base"],
        "rope_local_base_freq": 10_000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "sliding_window": window,
        "layer_types": kinds,
        "final_logit_softcapping": None,
        "attn_logit_softcapping": None,
        "tie_word_embeddings": True,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }


def tokenizer_of(pieces: list[str], scores: list[float], kinds: list[int]) -> Tokenizer:
    """The tokenizer of these pieces."""
    number = {piece: i for i, piece in enumerate(pieces)}
    joins = []
    for i, piece in enumerate(pieces):
        if kinds[i] == 1:  # an ordinary piece
            halves = ((piece[:n], piece[n:]) for n in range(1, len(piece)))
            known = [(a, b) for a, b in halves if a in number and b in number]
            known.sort(key=lambda pair: (number[pair[0]], number[pair[1]]))
            joins += [(-scores[i], i, pair) for pair in known]
    joins.sort(key=lambda join: join[:2])
    merges = [join[2] for join in joins]
    found = Tokenizer(
        models.BPE(number, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    found.normalizer = normalizers.Replace(" ", "▁")
    found.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    found.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    special = [p for p, kind in zip(pieces, kinds, strict=True) if kind == SPECIAL]
    own = [p for p, kind in zip(pieces, kinds, strict=True) if kind == OWN and "▁" not in p]
    found.add_special_tokens([AddedToken(p, special=True, normalized=False) for p in special])
    found.add_tokens([AddedToken(p, normalized=False) for p in own])
    found.post_processor = TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", number["<bos>"])]
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if hash_of(options.file) != SOURCE["sha256"]:
        parser.error(f"{options.file} is not the file of this hash: {SOURCE['sha256']}")
    from gguf import GGUFReader, dequantize

    reader, tensors = GGUFReader(options.file), {}
    for tensor in reader.tensors:
        x = torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), np.float32))
        tensors[published(tensor.name)] = x - 1 if "norm" in tensor.name else x.contiguous()
    facts = {name: field.contents() for name, field in reader.fields.items()}
    options.folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, options.folder / "model.safetensors", metadata={"format": "pt"})
    text = json.dumps(configuration(facts), indent=1) + "\n"
    (options.folder / "config.json").write_text(text, encoding="utf-8")
    kinds = (facts[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    tokenizer_of(*kinds).save(str(options.folder / "tokenizer.json"))


if __name__ == "__main__":
    main()
