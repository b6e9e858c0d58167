"""Published weights in this module's models: GPT-2, BERT and Llama as others trained them.

A loader reads config.json, builds the recipe of that size and copies each published tensor to its
place. What the recipe does not compute is refused by name, before any tensor is read.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import torch
from torch import Tensor, nn

from attnbook.published import checkpoint, configuration, only, read
from attnbook.recipes import bert, gpt2, llama, tied
from attnbook.transformer import LanguageModel, MaskedLanguageModel

# our part: the published one, block i or none; three names are query, key and value of one map
GPT2 = {
    "embed.tokens": "wte",
    "embed.positions": "wpe",
    "attention.norm": "h.{i}.ln_1",
    "attention.part.to_qkv": "h.{i}.attn.c_attn",
    "attention.part.to_out": "h.{i}.attn.c_proj",
    "feedforward.norm": "h.{i}.ln_2",
    "feedforward.part.up": "h.{i}.mlp.c_fc",
    "feedforward.part.down": "h.{i}.mlp.c_proj",
    "body.norm": "ln_f",
}
BERT = {
    "embed.tokens": "bert.embeddings.word_embeddings",
    "embed.positions": "bert.embeddings.position_embeddings",
    "embed.norm": "bert.embeddings.LayerNorm",
    "attention.part.to_qkv": "bert.encoder.layer.{i}.attention.self.query key value",
    "attention.part.to_out": "bert.encoder.layer.{i}.attention.output.dense",
    "attention.norm": "bert.encoder.layer.{i}.attention.output.LayerNorm",
    "feedforward.part.up": "bert.encoder.layer.{i}.intermediate.dense",
    "feedforward.part.down": "bert.encoder.layer.{i}.output.dense",
    "feedforward.norm": "bert.encoder.layer.{i}.output.LayerNorm",
    "to_vocab.0": "cls.predictions.transform.dense",
    "to_vocab.2": "cls.predictions.transform.LayerNorm",
    "to_vocab.3": "cls.predictions",
}
LLAMA = {
    "embed.tokens": "model.embed_tokens",
    "attention.norm": "model.layers.{i}.input_layernorm",
    "attention.part.to_qkv": "model.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.part.to_out": "model.layers.{i}.self_attn.o_proj",
    "feedforward.norm": "model.layers.{i}.post_attention_layernorm",
    "feedforward.part.gate": "model.layers.{i}.mlp.gate_proj",
    "feedforward.part.up": "model.layers.{i}.mlp.up_proj",
    "feedforward.part.down": "model.layers.{i}.mlp.down_proj",
    "body.norm": "model.norm",
    "to_vocab": "lm_head",
}
SIZES = "hidden_size", "num_hidden_layers", "num_attention_heads"
STANDARD = {"gain": "weight", "shift": "bias", "table": "weight"}
HARMLESS = [  # buffers, second copies of tied weights, heads for other tasks
    *("h.*.attn.bias", "h.*.attn.masked_bias", "*.rotary_emb.inv_freq", "*.position_ids"),
    *("lm_head.weight", "cls.predictions.decoder.*", "bert.pooler.*", "cls.seq_relationship.*"),
]


def load_gpt2(
    source: str | Path = "openai-community/gpt2", dtype: torch.dtype = torch.float32
) -> LanguageModel:
    """GPT-2 with its published weights, in evaluation mode.

    `source` is a Hugging Face repository, or a folder with config.json and model.safetensors.
    """
    config = configuration(source, "gpt2")
    sizes = read(config, "vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    only(config, "activation_function", "gelu_new", "gelu_pytorch_tanh")
    only(config, "n_inner", None, 4 * config["n_embd"])
    only(config, "tie_word_embeddings", True)
    only(config, "scale_attn_weights", True)
    only(config, "scale_attn_by_inverse_layer_idx", False)
    model = gpt2(*sizes, config.get("resid_pdrop", 0.1))
    ready(model, config.get("layer_norm_epsilon", 1e-5), dtype)
    tensors = {name.removeprefix("transformer."): x for name, x in checkpoint(source).items()}
    fill(places(model, GPT2, transposed=True), tensors)
    return model


def load_bert(
    source: str | Path = "google-bert/bert-base-uncased", dtype: torch.dtype = torch.float32
) -> MaskedLanguageModel:
    """BERT with its published weights, in evaluation mode. `source` as in `load_gpt2`.

    BERT adds a vector to each token that says in which of two sentences it is. Here all are in the
    first, and its vector is added to the positions.
    """
    config = configuration(source, "bert")
    sizes = read(config, "vocab_size", "max_position_embeddings", *SIZES)
    width, kinds = read(config, "hidden_size", "type_vocab_size")
    only(config, "hidden_act", "gelu")
    only(config, "intermediate_size", 4 * width)
    only(config, "position_embedding_type", "absolute")
    only(config, "tie_word_embeddings", True)
    model = bert(*sizes, config.get("hidden_dropout_prob", 0.1))
    ready(model, config.get("layer_norm_eps", 1e-12), dtype)
    sentence = torch.empty(kinds, width, dtype=dtype)
    wanted = places(model, BERT) | {"bert.embeddings.token_type_embeddings.weight": sentence}
    old = checkpoint(source)  # the first checkpoints call a norm's parts gamma and beta
    new = {re.sub("gamma$", "weight", re.sub("beta$", "bias", name)): old[name] for name in old}
    fill(wanted, new)
    model.embed.positions.table.data += sentence[0]
    return model


def load_llama(source: str | Path, dtype: torch.dtype = torch.float32) -> LanguageModel:
    """A Llama, or another model of its recipe, in evaluation mode. `source` as in `load_gpt2`.

    Rotary angles that are scaled, as from Llama 3.1 on, are refused.
    """
    config = configuration(source, "llama")
    V, width, depth, heads, hidden = read(config, "vocab_size", *SIZES, "intermediate_size")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    only(rope, "rope_type", "default")
    only(rope, "type", "default")
    only(config, "head_dim", None, width // heads)
    only(config, "hidden_act", "silu")
    only(config, "attention_bias", False)
    only(config, "mlp_bias", False)
    base = rope.get("rope_theta", config.get("rope_theta", 10_000.0))
    model = llama(V, width, depth, heads, config.get("num_key_value_heads"), hidden, base)
    if config.get("tie_word_embeddings", False):
        model.to_vocab = tied(model.embed)
    ready(model, config.get("rms_norm_eps", 1e-6), dtype)
    fill(places(model, LLAMA), checkpoint(source))
    return model


def ready(model: nn.Module, eps: float, dtype: torch.dtype) -> None:
    """Evaluation mode, this `eps` for the norms and this `dtype` for the weights."""
    model.to(dtype).eval()
    for part in model.modules():
        if hasattr(part, "eps"):
            part.eps = eps


def places(model: nn.Module, names: dict[str, str], transposed: bool = False) -> dict[str, Tensor]:
    """Published name: the piece of the model's weights that this tensor belongs into.

    `names` is a table such as `GPT2`, whose linear maps are published `transposed`.
    """
    found = {}
    for ours, weight in model.named_parameters():
        path, last = ours.rsplit(".", 1)
        part, block = model.get_submodule(path), re.match(r"body\.blocks\.(\d+)\.(.+)", path)
        i, key = block.groups() if block else ("", path)
        stem, dot, pieces = names[key].format(i=i).rpartition(".")
        sizes = len(weight)
        if " " in pieces:
            sizes = model.get_submodule(path.removesuffix(".to_qkv")).widths
        for piece, view in zip(pieces.split(), weight.split(sizes), strict=True):
            turned = transposed and isinstance(part, nn.Linear) and view.dim() == 2
            found[f"{stem}{dot}{piece}.{STANDARD.get(last, last)}"] = view.T if turned else view
    return found


@torch.no_grad()
def fill(places: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy each published tensor to its place in a model: all of them, or none if one is wrong."""
    extra = [name for name in tensors if name not in places]
    faults = {
        "missing": [name for name in places if name not in tensors],
        "unexpected": [name for name in extra if not any(fnmatch(name, x) for x in HARMLESS)],
        "misshapen": [
            f"{name} is {tuple(tensors[name].shape)}, the model needs {tuple(place.shape)}"
            for name, place in places.items()
            if name in tensors and tensors[name].shape != place.shape
        ],
    }
    if any(faults.values()):
        lines = [f"{fault}: {', '.join(names)}" for fault, names in faults.items() if names]
        raise ValueError("\n".join(["the checkpoint does not fit, nothing was copied", *lines]))
    for name, place in places.items():
        place.copy_(tensors[name])
