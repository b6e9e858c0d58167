"""The transformer of 2017, an encoder–decoder that translates."""

import math

from torch import nn

from attnbook.attention import Attention, MultiHeadAttention, SplitProjection
from attnbook.block import Block, CrossBlock, PostNorm, Stack
from attnbook.feedforward import MLP
from attnbook.norms import LayerNorm
from attnbook.positions import Sinusoidal
from attnbook.transformer import Embed, EncoderDecoder, Tied, initialise, xavier


def vaswani_2017(
    source_V: int,
    target_V: int | None = None,
    width: int = 512,
    depth: int = 6,
    heads: int = 8,
    hidden: int = 2048,
    dropout: float = 0.1,
) -> EncoderDecoder:
    """Vaswani et al. 2017, table 3, "base". Without `target_V` both languages share a vocabulary
    and all three embeddings (section 3.4); with it the target's two."""

    def post(part: nn.Module) -> PostNorm:
        return PostNorm(part, LayerNorm(width), dropout)

    def attention() -> PostNorm:
        return post(MultiHeadAttention(width, heads))

    def cross_attention() -> PostNorm:
        maps = [nn.Linear(width, width) for _ in range(3)]
        return post(Attention(SplitProjection(heads, *maps), nn.Linear(width, width)))

    def feedforward() -> PostNorm:
        return post(MLP(width, hidden, nn.ReLU()))

    def embed(V: int) -> Embed:
        return Embed(V, width, Sinusoidal(width), scale=math.sqrt(width), dropout=dropout)

    source = embed(source_V)
    target = source if target_V is None else embed(target_V)
    encoder = Stack([Block(attention(), feedforward()) for _ in range(depth)])
    blocks = [CrossBlock(attention(), cross_attention(), feedforward()) for _ in range(depth)]
    decoder = Stack(blocks)
    model = EncoderDecoder(source, encoder, target, decoder, Tied(target))
    return initialise(model, xavier, embedding_std=width**-0.5)
