"""Encoders that fill gaps: BERT and what became of it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention, MultiHeadAttention
from attnbook.block import Block, PostNorm, PreNorm, Stack
from attnbook.families.settings import given
from attnbook.feedforward import MLP, GatedMLP
from attnbook.initial import initialise, normal, tied
from attnbook.masks import local
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.projection import Projection
from attnbook.rotary import Rotary
from attnbook.transformer import Embed, MaskedLanguageModel, Positions


class Later(Learned):
    """A table whose first positions nobody stands at: counting begins at `first` (RoBERTa, 2)."""

    def __init__(self, limit: int, width: int, first: int):
        super().__init__(limit + first, width)
        self.first = first

    @property
    def limit(self) -> int:
        return len(self.table) - self.first

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        return super().forward(T, start + self.first)

    def at(self, positions: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T C"]:
        return super().at(positions + self.first)


def encoder_layers(
    width: int, depth: int, heads: int, hidden: int, eps: float, activation: nn.Module
) -> Stack:
    """The post-norm blocks that BERT and its heirs share. Devlin et al. 2019, section 3."""
    norm = partial(LayerNorm, width, eps)

    def block() -> Block:
        attention, network = MultiHeadAttention(width, heads), MLP(width, hidden, activation)
        return Block(PostNorm(attention, norm(), 0.1), PostNorm(network, norm(), 0.1))

    return Stack([block() for _ in range(depth)])


def head(embed: Embed, width: int, eps: float, activation: nn.Module) -> nn.Sequential:
    """Back to the vocabulary, by way of one more layer. Devlin et al. 2019, appendix A.2."""
    narrow = embed.tokens.embedding_dim
    return nn.Sequential(
        nn.Linear(width, narrow), activation, LayerNorm(narrow, eps), tied(embed, bias=True)
    )


def bert_pair(
    V: int = 30_522,
    T: int = 512,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    kinds: int = 2,
    eps: float = 1e-12,
    activation: nn.Module | None = None,
) -> MaskedLanguageModel:
    """Devlin et al. 2019, section 3, BERT-base as it was published, for two texts."""
    gelu = given(activation, nn.GELU())
    embed = Embed(V, width, Learned(T, width), norm=LayerNorm(width, eps), dropout=0.1, kinds=kinds)
    body = encoder_layers(width, depth, heads, hidden, eps, gelu)
    return initialise(MaskedLanguageModel(embed, body, head(embed, width, eps, gelu)), normal)


def roberta(T: int = 512, **sizes: Any) -> MaskedLanguageModel:
    """Liu et al. 2019, section 4: BERT, trained longer, without the question which text is which.
    Its positions begin at 2."""
    model = bert_pair(T=T, **({"V": 50_265, "kinds": 1, "eps": 1e-5} | sizes))
    width = model.embed.get_submodule("tokens").get_parameter("weight").shape[1]
    model.embed.positions = Later(T, width, first=2)
    return initialise(model, normal)


def distilbert(
    V: int = 30_522,
    T: int = 512,
    width: int = 768,
    depth: int = 6,
    heads: int = 12,
    hidden: int = 3072,
    activation: nn.Module | None = None,
) -> MaskedLanguageModel:
    """Sanh et al. 2019, section 3: every other layer of BERT, and nothing about two texts."""
    gelu, eps = given(activation, nn.GELU()), 1e-12
    embed = Embed(V, width, Learned(T, width), norm=LayerNorm(width, eps), dropout=0.1)
    body = encoder_layers(width, depth, heads, hidden, eps, gelu)
    to_vocab = head(embed, width, eps, gelu)
    return initialise(MaskedLanguageModel(embed, body, to_vocab), normal)


class NarrowEmbed(Embed):
    """`Embed` of fewer numbers than the blocks have, then a map to their width: a large vocabulary
    costs less. Lan et al. 2020, section 3.1, "factorized embedding parameterization"."""

    def __init__(
        self, V: int, narrow: int, width: int, positions: Positions, norm: nn.Module, kinds: int
    ):
        super().__init__(V, narrow, positions, norm=norm, dropout=0.1, kinds=kinds)
        self.to_width = nn.Linear(narrow, width)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        start: int | Int[Tensor, "..."] = 0,
        kinds: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """As `Embed`."""
        return self.to_width(super().forward(tokens, start, kinds))


def electra(
    V: int = 30_522,
    T: int = 512,
    narrow: int = 128,
    width: int = 256,
    depth: int = 12,
    heads: int = 4,
    hidden: int = 1024,
    kinds: int = 2,
    eps: float = 1e-12,
    activation: nn.Module | None = None,
) -> MaskedLanguageModel:
    """Clark et al. 2020, section 2, the small generator: BERT with a narrow embedding, which fills
    gaps with tokens that another model learns to find out."""
    norm = LayerNorm(narrow, eps)
    embed = NarrowEmbed(V, narrow, width, Learned(T, narrow), norm, kinds)
    body = encoder_layers(width, depth, heads, hidden, eps, given(activation, nn.GELU()))
    model = MaskedLanguageModel(embed, body, head(embed, width, eps, nn.GELU()))
    return initialise(model, normal)


def albert(
    V: int = 30_000,
    T: int = 512,
    narrow: int = 128,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    kinds: int = 2,
    eps: float = 1e-12,
    activation: nn.Module | None = None,
) -> MaskedLanguageModel:
    """Lan et al. 2020, section 3.1, base: BERT with a narrow embedding, and one block's weights
    for all depths."""
    gelu, norm = given(activation, nn.GELU(approximate="tanh")), LayerNorm(narrow, eps)
    embed = NarrowEmbed(V, narrow, width, Learned(T, narrow), norm, kinds)
    (block,) = encoder_layers(width, 1, heads, hidden, eps, gelu).blocks
    body = Stack([block] * depth)
    return initialise(MaskedLanguageModel(embed, body, head(embed, width, eps, gelu)), normal)


def modernbert(
    V: int = 50_368,
    width: int = 768,
    heads: int = 12,
    hidden: int = 1152,
    windows: Sequence[int | None] = (None, 65, 65) * 7 + (None,),
    rotations: tuple[Rotary | None, Rotary | None] = (None, None),
    eps: float = 1e-5,
    activation: nn.Module | None = None,
) -> MaskedLanguageModel:
    """Warner et al. 2024, "ModernBERT", section 2.1, base: a norm before each part but the first,
    GeGLU, no biases, queries and keys rotated; two blocks that see 64 positions either way to one
    that sees everything. `rotations` are those of the two kinds."""
    norm, D = partial(LayerNorm, width, eps, shift=False), width // heads
    gelu = given(activation, nn.GELU())
    near, far = rotations[0] or Rotary(D), rotations[1] or Rotary(D, 160_000.0)

    def block(first: bool, window: int | None) -> Block:
        project, to_out = Projection(width, heads, bias=False), nn.Linear(width, width, bias=False)
        turn, pattern = (far, None) if window is None else (near, local(window))
        attention = Attention(project, to_out, turn, pattern=pattern)
        network = GatedMLP(width, hidden, gelu)
        before = nn.Identity() if first else norm()  # the embedding has just been normed
        return Block(PreNorm(attention, before), PreNorm(network, norm()))

    body = Stack([block(i == 0, window) for i, window in enumerate(windows)], norm())
    embed = Embed(V, width, norm=norm())
    layer = nn.Linear(width, width, bias=False), nn.GELU(), norm(), tied(embed, bias=True)
    return initialise(MaskedLanguageModel(embed, body, nn.Sequential(*layer)), normal)
