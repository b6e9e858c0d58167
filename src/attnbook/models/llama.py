"""Llama, and what calls itself so or differs by a window: Mistral, SmolLM3."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm
from attnbook.feedforward import SwiGLU, swiglu_hidden
from attnbook.masks import local
from attnbook.models.config import Config, Sizes, decoder_config, head_width, only, rotation
from attnbook.models.layout import Table
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, Rotate
from attnbook.transformer import LanguageModel


def llama(
    V: int = 32_000,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int | None = None,
    hidden: int | None = None,
    base: float = 10_000.0,
    D: int | None = None,
    windows: Sequence[int | None] = (None,),
    rotations: Sequence[Rotate | None] = (),
    network: Callable[[], nn.Module] | None = None,
    qk_norm: bool = False,
    eps: float = 1e-6,
    tie: bool = False,
) -> LanguageModel:
    """Touvron et al. 2023, section 2.2 and table 2, "7B". `kv_heads` fewer than `heads` and a
    larger `base` make it Llama 2's 70B and Llama 3.

    What came later differs by a part: heads of another width `D`, a norm of queries and keys, a
    `network` that is a mixture. `windows` (None: all of the past) and `rotations` (None: no
    positions at all) are given out to the blocks in turns.
    """
    if heads < 1 or (D is None and width % heads):
        raise ValueError(f"width {width} does not divide into {heads} heads")
    D = width // heads if D is None else D
    hidden = swiglu_hidden(width, multiple=256) if hidden is None else hidden
    network, norm = network or partial(SwiGLU, width, hidden), partial(RMSNorm, eps=eps)
    rotations = rotations or [Rotary(D, base)]

    def block(i: int) -> Block:
        window, rotate = windows[i % len(windows)], rotations[i % len(rotations)]
        norms = [norm(D), norm(D)] if qk_norm else []
        project = Projection(width, heads, kv_heads, D, False, *norms)
        to_out = nn.Linear(heads * D, width, bias=False)
        pattern = None if window is None else local(window)
        attention = Attention(project, to_out, rotate, pattern=pattern)
        return Block(PreNorm(attention, norm(width)), PreNorm(network(), norm(width)))

    return decoder(V, width, [block(i) for i in range(depth)], norm(width), tie)


def mistral(
    V: int = 32_000,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 14_336,
    D: int = 128,
    window: int | None = 4096,
    rotations: Sequence[Rotate | None] = (),
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Jiang et al. 2023, table 1: a Llama of shared keys that sees the last 4,096 positions."""
    sizes = V, width, depth, heads, kv_heads, hidden
    return llama(*sizes, D=D, windows=[window], rotations=rotations, eps=eps, tie=tie)


def smollm3(
    V: int = 128_256,
    width: int = 2048,
    depth: int = 36,
    heads: int = 16,
    kv_heads: int = 4,
    hidden: int = 11_008,
    D: int = 128,
    every: int = 4,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    tie: bool = True,
) -> LanguageModel:
    """Hugging Face 2025, SmolLM3 3B: in every fourth block queries and keys are not rotated, so
    that it compares content alone (Yang et al. 2025, "Rope to Nope and Back Again")."""
    turns = [rotate or Rotary(D, 5_000_000.0)] * (every - 1)
    sizes = V, width, depth, heads, kv_heads, hidden
    return llama(*sizes, D=D, rotations=[*turns, None], eps=eps, tie=tie)


ATTENTION: Table = {
    "attention.sublayer.project.to_qkv": "model.layers.{i}.self_attn.q_proj k_proj v_proj",
    "attention.sublayer.to_out": "model.layers.{i}.self_attn.o_proj",
    "attention.sublayer.project.q_norm": "model.layers.{i}.self_attn.q_norm",
    "attention.sublayer.project.k_norm": "model.layers.{i}.self_attn.k_norm",
    "attention.sublayer.project.q_norm.norm": "model.layers.{i}.self_attn.q_norm",
    "attention.sublayer.project.k_norm.norm": "model.layers.{i}.self_attn.k_norm",
}
NETWORK: Table = {
    f"feedforward.sublayer.{part}": f"model.layers.{{i}}.mlp.{part}_proj"
    for part in ("gate", "up", "down")
}
ENDS: Table = {
    "embed.tokens": "model.embed_tokens",
    "body.norm": "model.norm",
    "lm_head": "lm_head",
    "lm_head.0": "lm_head",
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


def of_llama(config: Config) -> Sizes:
    """The settings that Llama and its descendants share."""
    sizes = decoder_config(config)
    only(config, "hidden_act", "silu")
    only(config, "mlp_bias", False)
    return vars(sizes) | {"eps": config.get("rms_norm_eps", 1e-6)}


@family("llama", LLAMA, "LlamaForCausalLM", prefix="model.")
def build_llama(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    D = head_width(config, sizes["width"], sizes["heads"])
    return llama(D=D, rotations=[rotation(config, D)], **sizes)


@family("mistral", LLAMA, "MistralForCausalLM", prefix="model.")
def build_mistral(config: Config) -> nn.Module:
    sizes = of_llama(config)
    D = head_width(config, sizes["width"], sizes["heads"])
    window, rotations = config.get("sliding_window"), [rotation(config, D)]
    return mistral(window=window, D=D, rotations=rotations, **sizes)


@family("smollm3", LLAMA, "SmolLM3ForCausalLM", prefix="model.")
def build_smollm3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    only(config, "use_sliding_window", False)
    D, turned = sizes["width"] // sizes["heads"], config.get("no_rope_layers")
    if turned is None:
        every = config.get("no_rope_layer_interval", 4)
        turned = [(i + 1) % every for i in range(sizes["depth"])]
    rotate = rotation(config, D)
    return llama(D=D, rotations=[rotate if turns else None for turns in turned], **sizes)
