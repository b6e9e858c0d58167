"""A translator that fits on paper: states of two numbers, weights set by hand and never trained.

It turns *my red car* into *ma voiture rouge* in four steps whose sums anybody can do again. A
state's first number speaks of the thing, its second of the colour.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import AdditiveScores
from attnbook.recurrent import RNNCell
from attnbook.seq2seq import AttentionContext, Decoder, FixedContext, Memory, ZeroStart

READS = ["my", "red", "car"]
WRITES = ["ma", "voiture", "rouge", "</s>"]
STATES = [[0.0, 0.0], [0.0, 3.0], [2.0, 0.0]]  # of the encoder: at car the colour is gone
VECTORS = {"<s>": [-6.0, 4.0], "ma": [1.0, -2.0], "voiture": [0.0, 0.0], "rouge": [-4.0, -3.0]}
TO_VOCAB = [[-2.0, 2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, -2.0]]  # a row for each word written


class Step(NamedTuple):
    """One step of the decoder: what it read, asked, got, became and expects.

    `y` (2,), `query` (2,), `context` (2,), `state` (2,), `logits` (4,), `p` (4,); with one vector
    there are no `scores` (3,) and no `weights` (3,). `read` and `said` are the words.
    """

    read: str
    y: Tensor
    query: Tensor
    scores: Tensor | None
    weights: Tensor | None
    context: Tensor
    state: Tensor
    logits: Tensor
    p: Tensor
    said: str


def score() -> AdditiveScores:
    """2 tanh(s₁ + h₁) + 2 tanh(s₂ + h₂): both matrices the identity, v = (2, 2)."""
    part = AdditiveScores(query_width=2, key_width=2, width=2)
    numbers = torch.eye(2), torch.eye(2), torch.full((1, 2), 2.0)
    for weight, value in zip(part.parameters(), numbers, strict=True):
        weight.data = value
    return part.float()


class Straight(nn.Module):
    """The same score without its tanh: 2 (s₁ + h₁) + 2 (s₂ + h₂)."""

    def forward(
        self, q: Float[Tensor, "*batch Tq D"], k: Float[Tensor, "*batch Tk D"]
    ) -> Float[Tensor, "*batch Tq Tk"]:
        return 2 * (q.sum(-1).unsqueeze(-1) + k.sum(-1).unsqueeze(-2))


def decoder(how: nn.Module | None) -> Decoder:
    """`Decoder` with these numbers: s ← tanh(s + y + c), and logits from s alone.

    `how` scores a query and the keys; without it the context is the encoder's last state.
    """
    embed, cell = nn.Embedding(4, 2), RNNCell(4, 2)
    lm_head = nn.Linear(6, 4, bias=False)
    embed.weight.data = torch.tensor(list(VECTORS.values()))
    cell.from_input.weight.data = torch.eye(2).repeat(1, 2)
    cell.from_input.bias.data = torch.zeros(2)
    cell.from_state.weight.data, cell.from_state.bias.data = torch.eye(2), torch.zeros(2)
    lm_head.weight.data = torch.cat([torch.tensor(TO_VOCAB), torch.zeros(4, 4)], 1)
    context = AttentionContext(how) if how else FixedContext()
    made = Decoder(embed, cell, context, ZeroStart(2), lm_head)
    return made.float().requires_grad_(False)


def memory() -> Memory:
    """The encoder's states, picked by hand; the summary is the last one."""
    states = torch.tensor([STATES], dtype=torch.float)
    return Memory(states, states[:, -1], torch.ones(1, 3, dtype=torch.bool))


def steps(how: nn.Module | None, told: Sequence[str] | None = None, limit: int = 4) -> list[Step]:
    """The steps of the decoder, with attention by the score `how`, or with one vector without it.

    It reads `<s>` and then the words `told` (teacher forcing), or without them its own, until
    `</s>` or for `limit` steps. A word that it has no vector for raises a ValueError.
    """
    if unknown := [word for word in told or [] if word not in VECTORS]:
        raise ValueError(f"the decoder reads {', '.join(VECTORS)}; got {', '.join(unknown)}")
    model, known, names = decoder(how), memory(), list(VECTORS)
    state, found = model.start(known), list[Step]()
    read = ["<s>", *(told or [])]
    while len(found) < len(read):
        y, query = model.embed(torch.tensor([names.index(read[len(found)])])), state[0]
        feature, state, weights = model.step(y, state, known)
        logits = model.lm_head(feature)[0]
        said = WRITES[int(logits.argmax())]
        a = None if weights is None else weights[0]
        e = None if how is None else how(query, known.states[0]).detach()[0]
        after = feature[0, 2:4], state[0][0], logits, logits.softmax(-1), said
        found.append(Step(read[len(found)], y[0], query[0], e, a, *after))
        if told is None and said != "</s>" and len(found) < limit:
            read.append(said)
    return found


def losses(found: Sequence[Step]) -> Float[Tensor, " T"]:
    """−ln p of each true word, in nats, for the four steps of teacher forcing."""
    rows = [step.p[WRITES.index(word)] for step, word in zip(found, WRITES, strict=True)]
    return -torch.stack(rows).log()
