"""Granite: a Llama with four multipliers."""

from collections.abc import Callable
from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Block, Residual
from attnbook.feedforward import SwiGLU
from attnbook.models.config import Config, Sizes, only, read, rotation
from attnbook.models.layout import Table
from attnbook.models.llama import LLAMA, of_llama
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm, Times
from attnbook.positions import Rotary
from attnbook.scores import Score
from attnbook.transformer import LanguageModel


def granite(
    V: int = 49_155,
    width: int = 4096,
    depth: int = 40,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 12_800,
    rotate: Rotary | None = None,
    multipliers: tuple[float, float, float, float] = (12.0, 1 / 128, 0.22, 1 / 16),
    eps: float = 1e-5,
    tie: bool = True,
    network: Callable[[], nn.Module] | None = None,
) -> LanguageModel:
    """Granite Team 2024, "Granite 3.0 language models", table 1, 8B: a Llama in which the
    embedding, the scores, what each part adds, and the logits have a multiplier (in this order), so
    that settings found with a small model hold for a large one (Yang et al. 2022, "µP")."""
    norm, D = partial(RMSNorm, width, eps), width // heads
    embedding, scores, added, logits = multipliers
    rotate, network = rotate or Rotary(D), network or partial(SwiGLU, width, hidden)

    def block() -> Block:
        project = Projection(width, heads, kv_heads, bias=False)
        to_out = nn.Linear(width, width, bias=False)
        parts = Attention(project, to_out, rotate, Score(scores)), network()
        return Block(*(Residual(part, norm(), Times(added)) for part in parts))

    blocks = [block() for _ in range(depth)]
    return decoder(V, width, blocks, norm(), tie, embedding, Times(logits))


GRANITE: Table = LLAMA | {
    "attention.before": "model.layers.{i}.input_layernorm",
    "feedforward.before": "model.layers.{i}.post_attention_layernorm",
}


def of_granite(config: Config) -> Sizes:
    """The settings that Granite's models share."""
    names = "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"
    embedding, scores, added, logits = (float(number) for number in read(config, *names))
    only(config, "attention_bias", False)
    sizes = of_llama(config)
    rotate = rotation(config, sizes["width"] // sizes["heads"])
    multipliers = embedding, scores, added, 1 / logits
    return sizes | {"rotate": rotate, "multipliers": multipliers}


@family("granite", GRANITE, "GraniteForCausalLM", prefix="model.")
def build_granite(config: Config) -> nn.Module:
    return granite(**of_granite(config))
