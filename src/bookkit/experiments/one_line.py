"""One line through the book's language model: what its last parts read, and what a batch teaches.

The last block's network and attention at one token, and the gradient of one of its matrices: what
chapter 9 draws of gates, of scores and of an optimizer's first step.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import split_heads
from attnbook.data import text
from attnbook.losses import token_loss
from attnbook.shipped.language import BookModel, load

LINE, TOKEN = "ROMEO:\nWhat say you to the king?", " king"
B, T = 8, 128  # of the batch


class Hidden(NamedTuple):
    """What a gated network makes of one token, (hidden,) each: the gate before SiLU, the value."""

    gate: Float[Tensor, " hidden"]
    value: Float[Tensor, " hidden"]


class Looks(NamedTuple):
    """A query (D,) and the keys that it may look at (T, D), both rotated."""

    q: Float[Tensor, " D"]
    k: Float[Tensor, "T D"]

    @property
    def scores(self) -> Float[Tensor, " T"]:
        return self.k @ self.q / len(self.q) ** 0.5


def model() -> BookModel:
    """The book's language model, in double precision: what is drawn is the same everywhere."""
    lm = load("book-lm")
    lm.model.double()
    return lm


def last_block(lm: BookModel) -> Any:
    """The last block; what its parts are called, torch's types do not know."""
    blocks: Any = lm.model.body.blocks
    return blocks[-1]


def words(lm: BookModel, line: str = LINE) -> list[str]:
    """The line's tokens, each as text."""
    return [lm.decode(token) for token in lm.encode(line)[0].split(1)]


@torch.no_grad()
def given(lm: BookModel, part: nn.Module, line: str = LINE) -> Float[Tensor, "T C"]:
    """What a part of the model reads while the line goes through."""
    found: list[Tensor] = []
    handle = part.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0][0]))
    try:
        lm.model(lm.encode(line))
    finally:
        handle.remove()
    return found[0]


@torch.no_grad()
def hidden(lm: BookModel, line: str = LINE, token: str = TOKEN) -> Hidden:
    """Gate and value of every hidden unit of the last block, at the token."""
    network = last_block(lm).feedforward.sublayer
    x = given(lm, network, line)[words(lm, line).index(token)]
    return Hidden(network.gate(x), network.up(x))


@torch.no_grad()
def looks(lm: BookModel, head: int, line: str = LINE, token: str = TOKEN) -> tuple[Looks, Looks]:
    """Of one head of the last block, without and with its norm of queries and keys."""
    attention = last_block(lm).attention.sublayer
    project, turn, place = attention.project, attention.rotate, words(lm, line).index(token)
    parts = project.to_qkv(given(lm, attention, line)[None]).split(project.widths, -1)
    q, k, _ = (split_heads(part, project.D) for part in parts)
    shared = q.shape[1] // k.shape[1]
    q, k = q[0, head], k[0, head // shared]
    pairs = (q, k), (project.q_norm(q), project.k_norm(k))
    plain, normed = (Looks(turn(q)[place], turn(k)[: place + 1]) for q, k in pairs)
    return plain, normed


def gain(lm: BookModel) -> float:
    """The largest factor of the last block's norm of queries and keys."""
    weight: Tensor = last_block(lm).attention.sublayer.project.q_norm.weight
    return weight.abs().max().item()


def gradient(lm: BookModel) -> Float[Tensor, "hidden C"]:
    """Of the last block's gate matrix: the loss of eight windows of Python's documentation."""
    tokens = torch.tensor(lm.tokenizer.encode(text.load().train[: 8 * B * T]).ids)
    x, y = (tokens[i : i + B * T].view(B, T) for i in (0, 1))
    matrix = last_block(lm).feedforward.sublayer.gate.weight
    return torch.autograd.grad(token_loss(lm.model(x), y), matrix)[0]
