"""Decoders in which a memory of fixed size stands where attention does, in most blocks."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import Attention
from attnbook.block import Block, PreNorm
from attnbook.families.decoders import decoder
from attnbook.families.mixtures import softmax_mixture
from attnbook.frequencies import linear
from attnbook.norms import RMSNorm
from attnbook.projection import Projection, SigmoidGate
from attnbook.recurrence.gated_delta import GatedDelta, GatedNorm, decay_per_head
from attnbook.rotary import Rotary
from attnbook.transformer import LanguageModel


def qwen3_next(
    V: int = 151_936,
    width: int = 2048,
    heads: tuple[int, int, int] = (16, 2, 256),
    keys: tuple[int, int] = (16, 128),
    values: tuple[int, int] = (32, 128),
    hidden: tuple[int, int] = (512, 512),
    experts: tuple[int, int] = (512, 10),
    full: Sequence[bool] = (False, False, False, True) * 12,
    rotate: Rotary | None = None,
    eps: float = 1e-6,
    sum_to_one: bool = True,
    kernel: int = 4,
) -> LanguageModel:
    """Qwen Team 2025, Qwen3-Next 80B-A3B: three blocks with the gated delta rule to one with `full`
    attention, whose output has a gate; a quarter of its channels is rotated. `heads` are how many
    ask, how many keys there are, and their width; `hidden` the widths of an expert and of the
    shared one."""
    (H, kv_heads, D), norm = heads, partial(RMSNorm, eps=eps, offset=1.0)
    rotate = rotate or Rotary(D, frequencies=linear(D // 4, 10_000_000.0))

    def memory() -> GatedDelta:
        inner = values[0] * values[1]
        opens = nn.Sequential(nn.Linear(width, inner, bias=False), nn.SiLU())
        gate = GatedNorm(RMSNorm(values[1], eps), opens)
        decay = decay_per_head(width, values[0])
        return GatedDelta(width, keys, values, decay, gate, kernel=kernel)

    def attention() -> Attention:
        project = Projection(width, H, kv_heads, D, False, norm(D), norm(D))
        to_out, gate = nn.Linear(H * D, width, bias=False), SigmoidGate(width, H * D)
        return Attention(project, to_out, rotate, gate=gate)

    def block(sees_all: bool) -> Block:
        mixture = softmax_mixture(width, hidden[0], experts, sum_to_one, hidden[1])
        parts = attention() if sees_all else memory(), mixture
        return Block(*(PreNorm(part, norm(width)) for part in parts))

    return decoder(V, width, [block(sees_all) for sees_all in full], norm(width))
