"""Models in one GGUF file, as llama.cpp keeps them: settings, weights of few bits, tokenizer.

Read by the package `gguf` (`pip install attnbook[real]`). Weights become float32.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers import models as kinds
from torch import Tensor

# what llama.cpp calls an architecture: the model_type here
ARCHITECTURES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
}
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
BOTH_SIDES = {  # Gemma 2 and 3: a norm on both sides of each part
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}

QWEN = (  # how Qwen2 cuts a text into words
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def of(source: str | Path) -> Path | None:
    """The GGUF file that is meant: itself, or the only one of a folder without config.json."""
    path = Path(source).expanduser()
    if path.is_file():
        return path if path.suffix == ".gguf" else None
    found = sorted(path.glob("*.gguf")) if path.is_dir() else []
    return found[0] if len(found) == 1 and not (path / "config.json").is_file() else None


class File:
    """A GGUF file: `of(name)` is a setting of its architecture."""

    def __init__(self, path: Path):
        try:
            from gguf import GGUFReader
        except ImportError as error:
            raise ImportError(
                f"{path.name} is a GGUF file; the package that reads it comes with "
                "`pip install attnbook[real]`"
            ) from error
        try:
            self.reader = GGUFReader(path)
        except Exception as error:  # the package raises many kinds
            raise ValueError(f"{path} is damaged or incomplete: {error}") from error
        self.path, self.architecture = path, self.get("general.architecture")
        if self.architecture not in ARCHITECTURES:
            raise ValueError(
                f"no GGUF file of the architecture {self.architecture!r} can be read here; there "
                f"are {', '.join(ARCHITECTURES)}"
            )

    def get(self, name: str, usual: Any = None) -> Any:
        """What the file says under this name."""
        field = self.reader.fields.get(name)
        return usual if field is None else field.contents()

    def of(self, name: str, usual: Any = None) -> Any:
        """A setting of the architecture; ValueError if it is needed and not there."""
        found = self.get(f"{self.architecture}.{name}", usual)
        if found is None:
            raise ValueError(f"{self.path} does not say what {self.architecture}.{name} is")
        return found

    @cached_property
    def names(self) -> dict[str, Any]:
        """The file's tensors by the names that they have in the first published files."""
        both = BOTH_SIDES if self.architecture in ("gemma2", "gemma3") else {}
        found = {}
        for tensor in self.reader.tensors:
            if tensor.name == "rope_freqs.weight":
                raise ValueError(
                    f"{self.path} stretches its rotation by a table of its own (Llama 3.1): this "
                    "is not read here; take the model's safetensors"
                )
            stem, _, last = tensor.name.rpartition(".")
            block = stem.split(".") if stem.startswith("blk.") else ["", "", stem]
            name = (NAMES | both).get(block[2], stem)
            found[f"model.layers.{block[1]}.{name}.{last}" if block[1] else f"{name}.{last}"] = (
                tensor
            )
        return found


def configuration(path: Path) -> dict[str, Any]:
    """The file's settings, as config.json would have them."""
    file = File(path)
    heads, width = file.of("attention.head_count"), file.of("embedding_length")
    depth, D = file.of("block_count"), file.of("attention.key_length", width // heads)
    gemma = file.architecture.startswith("gemma")
    config: dict[str, Any] = {
        "model_type": ARCHITECTURES[file.architecture],
        "vocab_size": len(file.get("tokenizer.ggml.tokens", [])),
        "hidden_size": width,
        "intermediate_size": file.of("feed_forward_length"),
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "num_key_value_heads": file.of("attention.head_count_kv", heads),
        "head_dim": D,
        "hidden_act": "gelu_pytorch_tanh" if gemma else "silu",
        "rms_norm_eps": file.of("attention.layer_norm_rms_epsilon"),
        "rope_theta": file.of("rope.freq_base", 1e6 if file.architecture == "gemma3" else 1e4),
        "max_position_embeddings": file.of("context_length"),
        "tie_word_embeddings": "lm_head.weight" not in file.names,
        "eos_token_id": file.get("tokenizer.ggml.eos_token_id"),
    }
    scaling = file.get(f"{file.architecture}.rope.scaling.type", "none")
    if scaling == "linear":
        factor = file.of("rope.scaling.factor")
        config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    elif scaling != "none":
        raise ValueError(f"{path} stretches its rotation by {scaling!r}; linear is read here")
    if gemma:
        config |= {"hidden_activation": config["hidden_act"], "query_pre_attn_scalar": D}
    if file.architecture in ("gemma2", "gemma3"):
        # llama.cpp knows these by the architecture: the file does not say them
        config |= {"sliding_window": file.of("attention.sliding_window")}
        config |= {"rope_local_base_freq": file.of("rope.freq_base_swa", 10_000.0)}
        config |= {
            "sliding_window_pattern": {"gemma2": 2, "gemma3": 6}[file.architecture],
        }
    if file.architecture == "gemma2":
        config |= {
            "attn_logit_softcapping": file.of("attn_logit_softcapping", 50.0),
            "final_logit_softcapping": file.of("final_logit_softcapping", 30.0),
        }
    return config


class Tensors(Mapping[str, Tensor]):
    """The weights of a GGUF file by their first names, each made float32 when it is asked for."""

    def __init__(self, path: Path):
        self.file = File(path)
        stored = self.file.names.items()  # the first axis is the fastest there
        self.shapes = {name: tuple(int(n) for n in x.shape[::-1]) for name, x in stored}

    def __getitem__(self, name: str) -> Tensor:
        from gguf import dequantize

        stored = self.file.names[name]
        tensor = torch.tensor(dequantize(stored.data, stored.tensor_type), dtype=torch.float32)
        tensor = tensor.reshape(self.shapes[name])
        architecture = self.file.architecture
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            return tensor - 1  # the file holds 1 + what was learned
        if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            count = "head_count" if name.endswith("q_proj.weight") else "head_count_kv"
            heads = self.file.of(f"attention.{count}", self.file.of("attention.head_count"))
            # pairs are neighbours there, halves here
            return tensor.view(heads, -1, 2, tensor.shape[-1]).transpose(1, 2).reshape(tensor.shape)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.file.names)

    def __len__(self) -> int:
        return len(self.file.names)


def tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a GGUF file."""
    file = File(path)
    model = file.get("tokenizer.ggml.model")
    made: dict[str, Callable[[File], Tokenizer]] = {"llama": by_scores, "gpt2": by_merges}
    if model not in made:
        raise ValueError(f"{path} has a tokenizer of the kind {model!r}; read are {list(made)}")
    return made[model](file)


def by_scores(file: File) -> Tokenizer:
    """SentencePiece's pairs: of all pieces that two neighbours make the one of the highest score is
    joined first. What is in no piece is written in bytes."""
    tokens, scores, types = (
        file.get(f"tokenizer.ggml.{name}") for name in ("tokens", "scores", "token_type")
    )
    vocabulary = {token: i for i, token in enumerate(tokens)}
    merges = []
    for piece, i in vocabulary.items():
        if types[i] != 1:
            continue
        pairs = [(piece[:k], piece[k:]) for k in range(1, len(piece))]
        there = [pair for pair in pairs if pair[0] in vocabulary and pair[1] in vocabulary]
        there.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        merges += [(-scores[i], i, pair) for pair in there]
    merges.sort(key=lambda merge: merge[:2])
    unknown = tokens[file.get("tokenizer.ggml.unknown_token_id", 0)]
    model = kinds.BPE(
        vocabulary, [pair for _, _, pair in merges], unk_token=unknown, fuse_unk=True,
        byte_fallback=True,
    )  # fmt: skip
    made = Tokenizer(model)
    spaces: list[Any] = [normalizers.Replace(" ", "▁")]
    ends: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if file.get("tokenizer.ggml.add_space_prefix", not file.architecture.startswith("gemma")):
        spaces, ends = [normalizers.Prepend("▁"), *spaces], [*ends, decoders.Strip(" ", 1, 0)]
    made.normalizer = normalizers.Sequence(spaces)
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence(ends)
    own = [t for t, kind in zip(tokens, types, strict=True) if kind == 4 and "▁" not in t]
    made.add_tokens([AddedToken(token, normalized=False) for token in own])
    return with_specials(made, file)


def by_merges(file: File) -> Tokenizer:
    """GPT-2's pairs of bytes, in the order of the file's list."""
    tokens = file.get("tokenizer.ggml.tokens")
    pairs = [tuple(merge.split(" ")) for merge in file.get("tokenizer.ggml.merges")]
    made = Tokenizer(kinds.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    cut = {"qwen2": QWEN, "gpt-2": None, "default": None}
    pre = file.get("tokenizer.ggml.pre", "default")
    if pre not in cut:
        raise ValueError(f"{file.path} cuts its words as {pre!r} does; read are {list(cut)}")
    pattern = cut[pre]
    if pattern is None:
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        made.normalizer = normalizers.NFC()
        by = pre_tokenizers.Split(Regex(pattern), "isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.pre_tokenizer = pre_tokenizers.Sequence([by, byte_level])
    made.decoder = decoders.ByteLevel()
    return with_specials(made, file)


def with_specials(made: Tokenizer, file: File) -> Tokenizer:
    """The tokenizer with the tokens that no text spells, and the one that begins each text."""
    tokens, types = (file.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type"))
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == 3]
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    first = file.get("tokenizer.ggml.bos_token_id")
    usual = file.get("tokenizer.ggml.model") == "llama"
    if first is not None and file.get("tokenizer.ggml.add_bos_token", usual):
        begins = tokens[first]
        made.post_processor = processors.TemplateProcessing(
            single=f"{begins} $A", pair=f"{begins} $A {begins} $B", special_tokens=[(begins, first)]
        )
    return made
