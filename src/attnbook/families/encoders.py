"""Encoders that fill gaps: BERT and what became of it."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PostNorm, Stack
from attnbook.feedforward import MLP
from attnbook.initial import initialise, normal, tied
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.transformer import Embed, MaskedLanguageModel, Positions, over_keys


class PairEmbed(Embed):
    """`Embed`, and a learned vector that says in which of two texts a token stands.

    Devlin et al. 2019, figure 2, "segment embeddings".
    """

    positions: Positions

    def __init__(self, V: int, width: int, positions: Positions, norm: nn.Module, kinds: int = 2):
        super().__init__(V, width, positions, norm=norm)
        self.kinds = nn.Embedding(kinds, width)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        start: int | Int[Tensor, "*rows T"] = 0,
        kinds: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """`kinds` is 0 in the first text, 1 in the second; without it all is the first."""
        kinds = torch.zeros_like(tokens) if kinds is None else kinds
        x = self.tokens(tokens) + self.kinds(kinds)
        if isinstance(start, Tensor):
            there = self.positions.at(start)
        else:
            there = self.positions(tokens.shape[1], start)
        return self.dropout(self.norm(x + there))


class PairModel(MaskedLanguageModel):
    """A masked language model that is told in which of two texts each token stands."""

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        kinds: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """As `MaskedLanguageModel`; `kinds` is 0 in the first text, 1 in the second."""
        x = self.embed(tokens, kinds=kinds)
        return self.to_vocab(self.body(x, mask=over_keys(mask)))


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
    return nn.Sequential(
        nn.Linear(width, width), activation, LayerNorm(width, eps), tied(embed, bias=True)
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
) -> PairModel:
    """Devlin et al. 2019, section 3, BERT-base as it was published, for two texts."""
    gelu = activation or nn.GELU()
    embed = PairEmbed(V, width, Learned(T, width), LayerNorm(width, eps), kinds)
    body = encoder_layers(width, depth, heads, hidden, eps, gelu)
    return initialise(PairModel(embed, body, head(embed, width, eps, gelu)), normal)


def roberta(T: int = 512, **sizes: Any) -> PairModel:
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
    gelu, eps = activation or nn.GELU(), 1e-12
    embed = Embed(V, width, Learned(T, width), norm=LayerNorm(width, eps), dropout=0.1)
    body = encoder_layers(width, depth, heads, hidden, eps, gelu)
    to_vocab = head(embed, width, eps, gelu)
    return initialise(MaskedLanguageModel(embed, body, to_vocab), normal)
