"""Encoder–decoders: T5 and BART, which read text, and Whisper, which listens."""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import Attention, MultiHeadAttention
from attnbook.block import Block, CrossBlock, PostNorm, PreNorm, Stack
from attnbook.families.encoders import Later
from attnbook.families.settings import given
from attnbook.feedforward import MLP
from attnbook.initial import initialise, normal, tied
from attnbook.masks import causal
from attnbook.norms import LayerNorm, RMSNorm
from attnbook.positions import Learned, RelativeBias
from attnbook.projection import Projection, SplitProjection
from attnbook.score import Score
from attnbook.transformer import Embed, EncoderDecoder


class Times(nn.Module):
    """A map whose output is multiplied by a number."""

    def __init__(self, part: nn.Module, factor: float):
        super().__init__()
        self.part, self.factor = part, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.part(x)


def t5(
    V: int = 32_128,
    width: int = 512,
    depth: tuple[int, int] = (6, 6),
    heads: int = 8,
    D: int = 64,
    network: Callable[[], nn.Module] | None = None,
    buckets: tuple[int, int] = (32, 128),
    eps: float = 1e-6,
    tie: bool = True,
    scale: bool = True,
) -> EncoderDecoder:
    """Raffel et al. 2020, section 2.1, small: RMSNorm before each part, no biases, scores that are
    not divided, and one learned bias for distance that all blocks of a side share. In version 1.1
    `network` is a GeGLU, the map to the vocabulary is not the embedding (`tie=False`), and logits
    are not scaled by 1/√width."""
    norm = partial(RMSNorm, width, eps)
    network = network or partial(MLP, width, 4 * width, bias=False)

    def attention(relative: RelativeBias | None) -> PreNorm:
        project, to_out = (
            Projection(width, heads, D=D, bias=False),
            nn.Linear(heads * D, width, False),
        )
        return PreNorm(Attention(project, to_out, score=Score(1.0, relative=relative)), norm())

    both_ways, past = (RelativeBias(heads, *buckets, both_ways=both) for both in (True, False))
    reads = [Block(attention(both_ways), PreNorm(network(), norm())) for _ in range(depth[0])]
    writes = [
        CrossBlock(attention(past), attention(None), PreNorm(network(), norm()))
        for _ in range(depth[1])
    ]
    embed = Embed(V, width)
    to_vocab: nn.Module = tied(embed) if tie else nn.Linear(width, V, bias=False)
    to_vocab = Times(to_vocab, width**-0.5) if scale else to_vocab
    stacks = Stack(reads, norm()), Stack(writes, norm())
    return initialise(EncoderDecoder(embed, stacks[0], embed, stacks[1], to_vocab), normal)


class Listen(nn.Module):
    """Sound to vectors: two convolutions over time, the second of which halves it, and sines.

    Radford et al. 2022, section 2.2.
    """

    def __init__(self, bands: int, width: int, limit: int):
        super().__init__()
        self.first = nn.Conv1d(bands, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positions = Learned(limit, width)
        half = width // 2
        speed = torch.exp(-math.log(10_000.0) / (half - 1) * torch.arange(half))
        angles = torch.arange(limit)[:, None] * speed
        sines = torch.cat((angles.sin(), angles.cos()), -1)
        self.positions.table = nn.Parameter(sines, requires_grad=False)

    def forward(self, sound: Float[Tensor, "B bands frames"]) -> Float[Tensor, "B T C"]:
        x = F.gelu(self.second(F.gelu(self.first(sound)))).mT
        return x + self.positions(x.shape[1])


class SpeechToText(EncoderDecoder):
    """An encoder–decoder whose source is sound, (B, bands, frames): nothing of it is padding."""

    def forward(  # type: ignore[override]  # sound takes the place of source and its mask
        self, sound: Float[Tensor, "B bands frames"], target_in: Int[Tensor, "B Tq"]
    ) -> Float[Tensor, "B Tq V"]:
        """Logits of the token after each target token."""
        memory = self.encoder(self.source_embed(sound))
        x = self.decoder(self.target_embed(target_in), memory, mask=causal)
        return self.to_vocab(x)


def whisper(
    V: int = 51_865,
    T: int = 448,
    frames: int = 1500,
    width: int = 384,
    depth: tuple[int, int] = (4, 4),
    heads: int = 6,
    hidden: int = 1536,
    bands: int = 80,
) -> SpeechToText:
    """Radford et al. 2022, section 2.2 and table 1, tiny: pre-norm, GELU, no bias for keys."""
    norm = partial(LayerNorm, width)

    def attention() -> PreNorm:
        maps = (nn.Linear(width, width, bias=bias) for bias in (True, False, True))
        project = SplitProjection(heads, *maps)
        return PreNorm(Attention(project, nn.Linear(width, width)), norm())

    def network() -> PreNorm:
        return PreNorm(MLP(width, hidden, nn.GELU()), norm())

    reads = [Block(attention(), network()) for _ in range(depth[0])]
    writes = [CrossBlock(attention(), attention(), network()) for _ in range(depth[1])]
    listen, embed = Listen(bands, width, frames), Embed(V, width, Learned(T, width))
    stacks = Stack(reads, norm()), Stack(writes, norm())
    model = SpeechToText(listen, stacks[0], embed, stacks[1], tied(embed))
    return initialise(model, normal)


class Shift(nn.Module):
    """Logits plus a number for each token that is published and not trained; 0 in most files."""

    bias: Tensor

    def __init__(self, V: int):
        super().__init__()
        self.register_buffer("bias", torch.zeros(V))

    def forward(self, logits: Float[Tensor, "*batch V"]) -> Float[Tensor, "*batch V"]:
        return logits + self.bias


def bart(
    V: int = 50_265,
    T: int = 1024,
    width: int = 1024,
    depth: tuple[int, int] = (12, 12),
    heads: tuple[int, int] = (16, 16),
    hidden: tuple[int, int] = (4096, 4096),
    scale: float = 1.0,
    activation: nn.Module | None = None,
) -> EncoderDecoder:
    """Lewis et al. 2020, section 2.1, large: the transformer of 2017 with GELU, learned positions
    that begin at 2, and a norm behind each embedding. Pairs are of encoder and decoder."""

    def post(part: nn.Module) -> PostNorm:
        return PostNorm(part, LayerNorm(width), 0.1)

    def network(hidden: int) -> PostNorm:
        return post(MLP(width, hidden, given(activation, nn.GELU())))

    def across() -> PostNorm:
        maps = (nn.Linear(width, width) for _ in range(3))
        return post(Attention(SplitProjection(heads[1], *maps), nn.Linear(width, width)))

    tokens = nn.Embedding(V, width)
    source, target = (
        Embed(tokens, width, Later(T, width, 2), scale, LayerNorm(width), 0.1) for _ in range(2)
    )
    own = [partial(MultiHeadAttention, width, n) for n in heads]
    reads = [Block(post(own[0]()), network(hidden[0])) for _ in range(depth[0])]
    writes = [CrossBlock(post(own[1]()), across(), network(hidden[1])) for _ in range(depth[1])]
    to_vocab = nn.Sequential(tied(source), Shift(V))
    model = EncoderDecoder(source, Stack(reads), target, Stack(writes), to_vocab)
    return initialise(model, normal)
