"""Sequence to sequence: an encoder, and a decoder with one context for all steps or one per step.

The two models of the comparison, `cho_2014` and `bahdanau_2015`, differ in one part: the context.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.attention import AdditiveScores, attend
from attnbook.recurrent import BothWays, Cell, GRUCell, Layer, Stack, State


class Memory(NamedTuple):
    """What the encoder leaves to the decoder: a state for each token, and the last one of all.

    `states` (B, Tk, C), `summary` (B, C), `mask` (B, Tk), True where the source has a token.
    """

    states: Tensor
    summary: Tensor
    mask: Tensor


class Encoder(nn.Module):
    """Reads the source once and remembers the state after each token."""

    def __init__(self, embed: nn.Module, body: Stack):
        super().__init__()
        self.embed, self.body = embed, body

    def forward(self, tokens: Int[Tensor, "B Tk"], mask: Bool[Tensor, "B Tk"]) -> Memory:
        states, ends = self.body(self.embed(tokens), mask)
        return Memory(states, ends[-1][0], mask)


class FixedContext(nn.Module):
    """The same vector at every step: the encoder's summary. Cho et al. 2014, section 2.2."""

    def forward(self, s: Float[Tensor, "B D"], memory: Memory) -> tuple[Float[Tensor, "B C"], None]:
        return memory.summary, None


class AttentionContext(nn.Module):
    """The decoder's state asks, the encoder's states answer. Bahdanau et al. 2015, section 3.1."""

    def __init__(self, score: nn.Module):
        super().__init__()
        self.score = score

    def forward(
        self, s: Float[Tensor, "B D"], memory: Memory
    ) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B Tk"]]:
        states, mask = memory.states, memory.mask[:, None]
        context, weights = attend(s[:, None], states, states, mask, self.score)
        return context[:, 0], weights[:, 0]


class ZeroStart(nn.Module):
    """The decoder starts from zeros, whatever the source was."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, summary: Float[Tensor, "B C"]) -> Float[Tensor, "B D"]:
        return summary.new_zeros(len(summary), self.width)


class SummaryStart(nn.Module):
    """The decoder starts where the encoder stopped: both need the same width."""

    def forward(self, summary: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        return summary


class ProjectedStart(nn.Module):
    """The decoder learns where to start from: tanh(W summary).

    Bahdanau et al. 2015, appendix A.2.2, where only the backward half of the summary is used.
    """

    def __init__(self, summary_width: int, width: int):
        super().__init__()
        self.to_start = nn.Linear(summary_width, width)

    def forward(self, summary: Float[Tensor, "B C"]) -> Float[Tensor, "B D"]:
        return torch.tanh(self.to_start(summary))


class Decoder(nn.Module):
    """Writes the target token by token: new state from old state, last token and context.

    Bahdanau et al. 2015, section 3.1. The cell reads [token, context] side by side; the logits come
    from [state, context, token].
    """

    def __init__(
        self,
        embed: nn.Module,
        cell: Cell,
        context: nn.Module,
        start: nn.Module,
        lm_head: nn.Module,
    ):
        super().__init__()
        self.embed, self.cell, self.context = embed, cell, context
        self.to_start, self.lm_head = start, lm_head

    def start(self, memory: Memory) -> State:
        """The state before the first token; a second state tensor (LSTM's cell state) is zeros."""
        s = self.to_start(memory.summary)
        if s.shape[-1] != self.cell.width:
            raise ValueError(f"start has width {s.shape[-1]}, the decoder's cell {self.cell.width}")
        return (s, *self.cell.start(len(s))[1:])

    def step(
        self, y: Float[Tensor, "B E"], state: State, memory: Memory
    ) -> tuple[Float[Tensor, "B F"], State, Tensor | None]:
        """One target token: returns what the logits are made from, the state and the weights."""
        context, weights = self.context(state[0], memory)
        state = self.cell(torch.cat((y, context), -1), state)
        return torch.cat((state[0], context, y), -1), state, weights

    def forward(
        self, target_in: Int[Tensor, "B Tq"], memory: Memory
    ) -> tuple[Float[Tensor, "B Tq V"], Float[Tensor, "B Tq Tk"] | None]:
        """Teacher forcing: at each step the true previous token is given, not the model's own."""
        state = self.start(memory)
        features: list[Tensor] = []
        maps: list[Any] = []  # of a decoder without attention: None
        for y in self.embed(target_in).unbind(1):
            feature, state, weights = self.step(y, state, memory)
            features.append(feature)
            maps.append(weights)
        logits = self.lm_head(torch.stack(features, 1))
        return logits, None if maps[0] is None else torch.stack(maps, 1)


class Seq2Seq(nn.Module):
    """Encoder and decoder: p(target | source) as a product of next-token probabilities."""

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        source: Int[Tensor, "B Tk"],
        source_mask: Bool[Tensor, "B Tk"],
        target_in: Int[Tensor, "B Tq"],
    ) -> tuple[Float[Tensor, "B Tq V"], Float[Tensor, "B Tq Tk"] | None]:
        return self.decoder(target_in, self.encoder(source, source_mask))

    @torch.no_grad()
    def greedy(
        self,
        source: Int[Tensor, "B Tk"],
        source_mask: Bool[Tensor, "B Tk"],
        begin: int,
        end: int,
        limit: int,
    ) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B T Tk"] | None]:
        """Take the most likely token at each step and feed it back, until `end` or `limit` tokens.

        After its `end` a row holds `end` only. Returns the tokens and the weights of each step.
        With dropout, call `eval()` first: the most likely token is not random.
        """
        if limit < 1:
            raise ValueError(f"limit is at least 1 token; got {limit}")
        memory = self.encoder(source, source_mask)
        state = self.decoder.start(memory)
        y = source.new_full((len(source),), begin)
        tokens: list[Tensor] = []
        maps: list[Any] = []
        done = torch.zeros_like(y, dtype=torch.bool)
        while len(tokens) < limit and not done.all():
            feature, state, weights = self.decoder.step(self.decoder.embed(y), state, memory)
            y = self.decoder.lm_head(feature).argmax(-1).masked_fill(done, end)
            done = done | (y == end)
            tokens.append(y)
            maps.append(weights)
        return torch.stack(tokens, 1), None if maps[0] is None else torch.stack(maps, 1)


class Maxout(nn.Module):
    """Of each pair of linear maps the larger one. Bahdanau et al. 2015, appendix A.2.2."""

    def __init__(self, in_width: int, width: int):
        super().__init__()
        self.to_pairs = nn.Linear(in_width, 2 * width)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch width"]:
        return self.to_pairs(x).unflatten(-1, (-1, 2)).amax(-1)


def translator(
    source_V: int, target_V: int, embed: int, width: int, context: nn.Module, dropout: float = 0.0
) -> Seq2Seq:
    """Bidirectional GRU encoder, GRU decoder, projected start; `context` is what you compare."""
    ahead, back = Layer(GRUCell(embed, width)), Layer(GRUCell(embed, width))
    to_source = nn.Sequential(nn.Embedding(source_V, embed), nn.Dropout(dropout))
    to_target = nn.Sequential(nn.Embedding(target_V, embed), nn.Dropout(dropout))
    maxout = Maxout(width + 2 * width + embed, width)
    decoder = Decoder(
        embed=to_target,
        cell=GRUCell(embed + 2 * width, width),
        context=context,
        start=ProjectedStart(2 * width, width),
        lm_head=nn.Sequential(maxout, nn.Dropout(dropout), nn.Linear(width, target_V)),
    )
    return Seq2Seq(Encoder(to_source, Stack(BothWays(ahead, back))), decoder)


def cho_2014(source_V: int, target_V: int, embed: int, width: int, dropout: float = 0.0) -> Seq2Seq:
    """One fixed context vector. Cho et al. 2014, but with the encoder of `bahdanau_2015`."""
    return translator(source_V, target_V, embed, width, FixedContext(), dropout)


def bahdanau_2015(
    source_V: int, target_V: int, embed: int, width: int, dropout: float = 0.0
) -> Seq2Seq:
    """A context for each step, by additive attention over the encoder's states."""
    score = AdditiveScores(query_width=width, key_width=2 * width, width=width)
    return translator(source_V, target_V, embed, width, AttentionContext(score), dropout)
