"""Phi: GPT-J's block (Phi-2), later a Llama with a window (Phi-3, Phi-4-mini)."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.feedforward import MLP
from attnbook.models.config import SIZES, Config, activation, only, or_default, read, rotation
from attnbook.models.layout import Table, rows
from attnbook.models.llama import LLAMA, mistral, of_llama
from attnbook.models.parts import side_by_side
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary, linear
from attnbook.transformer import LanguageModel


def phi(
    V: int = 51_200,
    width: int = 2560,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 32,
    hidden: int = 10_240,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
    qk_norm: bool = False,
) -> LanguageModel:
    """Javaheripi et al. 2023, Phi-2: GPT-J's block with biases everywhere; 40 % of the channels
    are rotated. `qk_norm` norms each head's queries and keys."""
    D = width // heads
    rotate = rotate or Rotary(D, frequencies=linear(int(0.4 * D)))
    network = partial(MLP, width, hidden, or_default(activation, nn.GELU(approximate="tanh")))
    norm, each = partial(LayerNorm, width, eps), (lambda n: LayerNorm(D, eps)) if qk_norm else None
    parts = network, rotate, norm
    return side_by_side(V, width, depth, heads, *parts, kv_heads, (True, True), each)


def phi3(
    V: int = 32_064,
    width: int = 3072,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 32,
    hidden: int = 8192,
    D: int = 96,
    window: int | None = 2047,
    rotations: Sequence[Rotary] = (),
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Abdin et al. 2024, "Phi-3", section 2, mini: a Llama with a window. Phi-4-mini turns a
    part of the channels only, as a `Rotary` of fewer frequencies does."""
    sizes = V, width, depth, heads, kv_heads, hidden
    return mistral(*sizes, D, window, rotations, eps, tie)


PHI: Table = {
    **{f"attention.project.{n}_norm": f"model.layers.{{i}}.self_attn.{n}_layernorm" for n in "qk"},
    "embed.tokens": "model.embed_tokens",
    "norm": "model.layers.{i}.input_layernorm",
    "attention.project.to_qkv": "model.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.to_out": "model.layers.{i}.self_attn.dense",
    "feedforward.up": "model.layers.{i}.mlp.fc1",
    "feedforward.down": "model.layers.{i}.mlp.fc2",
    "body.norm": "model.final_layernorm",
    "lm_head": "lm_head",
}
PHI3: Table = LLAMA | {
    "attention.sublayer.project.to_qkv": ("model.layers.{i}.self_attn.qkv_proj", rows(0, 1)),
    "feedforward.sublayer.gate": ("model.layers.{i}.mlp.gate_up_proj", rows(0, 2)),
    "feedforward.sublayer.up": ("model.layers.{i}.mlp.gate_up_proj", rows(1, 2)),
}


@family("phi", PHI, "PhiForCausalLM", prefix="model.")
def build_phi(config: Config) -> nn.Module:
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    only(config, "tie_word_embeddings", False)
    kv_heads, rotate = config.get("num_key_value_heads") or heads, rotation(config, width // heads)
    eps, function = config.get("layer_norm_eps", 1e-5), activation(config["hidden_act"])
    qk_norm, sizes = config.get("qk_layernorm", False), (V, width, depth, heads, kv_heads, hidden)
    return phi(*sizes, rotate, eps, function, qk_norm)


@family("phi3", PHI3, "Phi3ForCausalLM", prefix="model.")
def build_phi3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    D = sizes["width"] // sizes["heads"]
    rotations = [rotation(config, D)]
    return phi3(window=config.get("sliding_window"), D=D, rotations=rotations, **sizes)
