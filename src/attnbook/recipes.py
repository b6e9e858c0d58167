"""Published models as lists of their parts: read one beside the table of its paper.

Defaults are the published sizes. Two models differ in what their recipes differ in.
"""

import math
from functools import partial

from torch import nn

from attnbook.attention import Attention, MultiHeadAttention
from attnbook.block import Block, CrossBlock, PostNorm, PreNorm, Stack
from attnbook.feedforward import MLP, MixtureOfExperts, SwiGLU, swiglu_hidden
from attnbook.initial import initialise, normal, tied, xavier
from attnbook.norms import LayerNorm, RMSNorm
from attnbook.positions import Learned, Rotary, Sinusoidal
from attnbook.projection import SplitProjection
from attnbook.transformer import Embed, EncoderDecoder, LanguageModel, MaskedLanguageModel
from attnbook.vit import ClassToken, Patches, Pool, VisionTransformer, grid_of


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
    model = EncoderDecoder(source, encoder, target, decoder, tied(target))
    return initialise(model, xavier, embedding_std=width**-0.5)


def gpt2(
    V: int = 50_257,
    T: int = 1024,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    dropout: float = 0.1,
    bias: bool = True,
    hidden: int | None = None,
) -> LanguageModel:
    """Radford et al. 2019, section 2.3 and table 2, the smallest: 124 million parameters
    (the paper says 117). Without `bias` nothing is added anywhere, in norms neither (nanoGPT).
    `hidden` is 4 × width."""
    inner = 4 * width if hidden is None else hidden

    def pre(part: nn.Module) -> PreNorm:
        return PreNorm(part, LayerNorm(width, shift=bias), dropout)

    def block() -> Block:
        return Block(
            pre(MultiHeadAttention(width, heads, bias=bias)),
            pre(MLP(width, inner, nn.GELU(approximate="tanh"), bias=bias)),
        )

    embed = Embed(V, width, Learned(T, width), dropout=dropout)
    body = Stack([block() for _ in range(depth)], LayerNorm(width, shift=bias))
    return initialise(LanguageModel(embed, body, tied(embed)), partial(normal, depth=depth))


def bert(
    V: int = 30_522,
    T: int = 512,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    dropout: float = 0.1,
    kinds: int = 0,
    hidden: int | None = None,
) -> MaskedLanguageModel:
    """Devlin et al. 2019, section 3, BERT-base with the head of its first task: 110 million
    parameters. With `kinds` = 2 it is told in which of two texts each token stands.
    `hidden` is 4 × width."""
    inner = 4 * width if hidden is None else hidden
    norm = partial(LayerNorm, width, eps=1e-12)

    def post(part: nn.Module) -> PostNorm:
        return PostNorm(part, norm(), dropout)

    def block() -> Block:
        return Block(post(MultiHeadAttention(width, heads)), post(MLP(width, inner, nn.GELU())))

    embed = Embed(V, width, Learned(T, width), norm=norm(), dropout=dropout, kinds=kinds)
    body = Stack([block() for _ in range(depth)])
    to_vocab = nn.Sequential(nn.Linear(width, width), nn.GELU(), norm(), tied(embed, bias=True))
    return initialise(MaskedLanguageModel(embed, body, to_vocab), normal)


def llama(
    V: int = 32_000,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int | None = None,
    hidden: int | None = None,
    base: float = 10_000.0,
) -> LanguageModel:
    """Touvron et al. 2023, section 2.2 and table 2, "7B". `kv_heads` fewer than `heads` and a
    larger `base` make it Llama 2's 70B and Llama 3."""
    hidden = swiglu_hidden(width, multiple=256) if hidden is None else hidden

    def pre(part: nn.Module) -> PreNorm:
        return PreNorm(part, RMSNorm(width))

    def block() -> Block:
        attention = MultiHeadAttention(width, heads, kv_heads, rotate=rotate, bias=False)
        return Block(pre(attention), pre(SwiGLU(width, hidden)))

    if heads < 1 or width % heads:
        raise ValueError(f"width {width} does not divide into {heads} heads")
    rotate = Rotary(width // heads, base)
    embed = Embed(V, width)
    body = Stack([block() for _ in range(depth)], RMSNorm(width))
    to_vocab = nn.Linear(width, V, bias=False)
    return initialise(LanguageModel(embed, body, to_vocab), normal)


def mixtral(
    V: int = 32_000,
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    kv_heads: int = 8,
    hidden: int = 14_336,
    base: float = 1_000_000.0,
    experts: int = 8,
    active: int = 2,
) -> LanguageModel:
    """Jiang et al. 2024, section 2 and table 1: a Llama with a mixture of SwiGLUs in each block.
    Of 46.7 billion parameters 12.9 work on a token."""

    def mixture() -> MixtureOfExperts:
        return MixtureOfExperts([SwiGLU(width, hidden) for _ in range(experts)], width, active)

    model = llama(V, width, depth, heads, kv_heads, hidden, base)
    for block in model.body.blocks:
        block.get_submodule("feedforward").part = mixture()
    return initialise(model, normal)


def vit(
    image: tuple[int, int] = (224, 224),
    patch: int = 16,
    classes: int = 1000,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    channels: int = 3,
    dropout: float = 0.1,
    pool: Pool | None = None,
    hidden: int | None = None,
) -> VisionTransformer:
    """Dosovitskiy et al. 2021, table 1, "Base": 86 million parameters, and 0.8 for 1000 classes.
    It has a class token unless another `pool` is given."""
    norm = partial(LayerNorm, width, eps=1e-6)

    def pre(part: nn.Module) -> PreNorm:
        return PreNorm(part, norm(), dropout)

    def block() -> Block:
        return Block(pre(MultiHeadAttention(width, heads)), pre(MLP(width, inner, nn.GELU())))

    inner = 4 * width if hidden is None else hidden
    pool = ClassToken(width) if pool is None else pool
    rows, columns = grid_of(image, patch)
    positions = Learned(rows * columns + pool.extra, width)
    body = Stack([block() for _ in range(depth)], norm())
    patches, to_class = Patches(patch, width, channels), nn.Linear(width, classes)
    model = VisionTransformer(image, patches, pool, positions, body, to_class, dropout)
    return initialise(model, normal)
