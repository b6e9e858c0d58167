"""gpt-oss."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm
from attnbook.experts import MixtureOfExperts, TopKSoftmax
from attnbook.feedforward import ClampedSwiGLU
from attnbook.masks import local
from attnbook.models.config import Config, head_width, only, read, rotation
from attnbook.models.layout import Names, Table, of_expert
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary, yarn, yarn_temperature
from attnbook.scores import Score
from attnbook.transformer import LanguageModel


def gpt_oss(
    V: int = 201_088,
    width: int = 2880,
    heads: int = 64,
    kv_heads: int = 8,
    D: int = 64,
    hidden: int = 2880,
    windows: Sequence[int | None] = (128, None) * 12,
    experts: tuple[int, int] = (32, 4),
    rotate: Rotary | None = None,
    limit: float = 7.0,
    eps: float = 1e-5,
) -> LanguageModel:
    """OpenAI 2025, "gpt-oss", section 2, 20B: a learned sink for each head, every other block with
    a window of 128, biases, experts whose SwiGLU is clamped."""
    norm = partial(RMSNorm, width, eps)
    stretched = yarn(D, 150_000.0, 32.0, 4096, whole=False)
    rotate = rotate or Rotary(D, frequencies=stretched, scale=yarn_temperature(32.0))

    def block(window: int | None) -> Block:
        project, to_out = Projection(width, heads, kv_heads, D), nn.Linear(heads * D, width)
        pattern = None if window is None else local(window)
        attention = Attention(project, to_out, rotate, Score(sinks=heads), pattern)
        networks = [ClampedSwiGLU(width, hidden, limit) for _ in range(experts[0])]
        mixture = MixtureOfExperts(networks, router=TopKSoftmax(width, *experts))
        return Block(PreNorm(attention, norm()), PreNorm(mixture, norm()))

    return decoder(V, width, [block(window) for window in windows], norm())


def gpt_oss_names(model: nn.Module) -> Names:
    """gpt-oss's names: all experts in one tensor, gate and up in turns."""
    E = len(list(model.get_submodule("body.blocks.0.feedforward.sublayer.experts").children()))
    names: Table = {}
    for part, theirs, first, step in (
        ("gate", "gate_up_proj", 0, 2),
        ("up", "gate_up_proj", 1, 2),
        ("down", "down_proj", 0, 1),
    ):
        ours = f"feedforward.sublayer.experts.{part}"
        there = f"model.layers.{{i}}.mlp.experts.{theirs}"
        names[f"{ours}.weight"] = (f"{there}#{{e}}", of_expert(E, True, first, step))
        names[f"{ours}.bias"] = (f"{there}_bias#{{e}}", of_expert(E, False, first, step))
    return (
        LLAMA
        | names
        | {
            "feedforward.sublayer.router": "model.layers.{i}.mlp.router",
            "attention.sublayer.score.sinks": "model.layers.{i}.self_attn.sinks",
        }
    )


@family("gpt_oss", gpt_oss_names, "GptOssForCausalLM", prefix="model.")
def build_gpt_oss(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", True)
    only(config, "tie_word_embeddings", False)
    del sizes["tie"], sizes["depth"]
    D = head_width(config, sizes["width"], sizes["heads"])
    window, kinds = config["sliding_window"], config["layer_types"]
    return gpt_oss(
        D=D,
        windows=[window if kind == "sliding_attention" else None for kind in kinds],
        experts=tuple(read(config, "num_local_experts", "num_experts_per_tok")),
        rotate=rotation(config, D),
        limit=float(config.get("swiglu_limit", 7.0)),
        **sizes,
    )
