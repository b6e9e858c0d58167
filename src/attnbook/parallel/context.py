"""Context parallelism: the text is cut, and keys and values go around the ring."""

import copy
import math
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention
from attnbook.efficient.flash import exp_below
from attnbook.parallel.wire import Wire
from attnbook.scores import repeat_kv
from attnbook.transformer import LanguageModel


class Turn(torch.autograd.Function):
    """Everybody's tensor goes on to the next process; backward, gradients go to the one before."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, wire: Wire) -> Tensor:
        ctx.wire = wire
        return around(wire, x, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return around(ctx.wire, gradient, -1), None


def around(wire: Wire, x: Tensor, by: int) -> Tensor:
    """What the process `by` places before this one has."""
    wire.send(x, (wire.rank + by) % wire.size)
    found = wire.receive(x, (wire.rank - by) % wire.size)
    wire.flush()
    return found


def in_order(P: int, T: int) -> Int[Tensor, "P t"]:
    """The positions of each process: T ÷ P neighbours."""
    check_context_parallel(P, T, P)
    return torch.arange(T).view(P, -1)


def zig_zag(P: int, T: int) -> Int[Tensor, "P t"]:
    """The positions of each process: one of 2P pieces from the front, one from the back, so that
    causal attention is the same work for all. Brandon et al. 2023 (Striped Attention) for the
    problem; the pieces are those of Llama 3's context parallelism (Grattafiori et al. 2024)."""
    check_context_parallel(P, T, 2 * P)
    pieces = torch.arange(T).view(2 * P, -1)
    return torch.cat([pieces[:P], pieces[P:].flip(0)], 1)


def check_context_parallel(P: int, T: int, pieces: int) -> None:
    """Raise a ValueError unless a text can be cut so."""
    if P < 1 or T < pieces or T % pieces:
        raise ValueError(f"{T} positions do not divide into {pieces} pieces for {P} processes")


def ring_attend(
    wire: Wire,
    q: Float[Tensor, "B H t D"],
    k: Float[Tensor, "B kv_heads t D"],
    v: Float[Tensor, "B kv_heads t D"],
    where: Int[Tensor, "P t"],
) -> Float[Tensor, "B H t D"]:
    """Causal attention of this process' queries to the keys and values of all.

    The softmax is found in one pass, as tiles are, while the keys and values go around. Process p
    has the positions `where[p]`. The blocks that came by are kept for the backward pass; published
    kernels send them around again instead. Liu et al. 2023 (Ring Attention), algorithm 1.
    """
    block = torch.stack([k, v])
    top = torch.full_like(q[..., :1], -math.inf)
    total, output = torch.zeros_like(top), torch.zeros_like(q)
    for n in range(wire.size):
        k, v = (repeat_kv(part, q.shape[1]) for part in block)
        i, j = where[wire.rank], where[(wire.rank - n) % wire.size]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(j > i[:, None], -math.inf)
        new = torch.maximum(top, scores.detach().amax(-1, keepdim=True))
        shrink, weights = exp_below(top, new), exp_below(scores, new)
        total = total * shrink + weights.sum(-1, keepdim=True)
        output, top = output * shrink + weights @ v, new
        if n < wire.size - 1:
            block = Turn.apply(block, wire)
    return output / total


class RingAttention(nn.Module):
    """A layer of causal attention over a text of which each process has the positions `where`."""

    def __init__(self, wire: Wire, whole: Attention, where: Int[Tensor, "P t"]):
        super().__init__()
        self.wire, self.where = wire, where
        self.project, self.rotate, self.to_out = whole.project, whole.rotate, whole.to_out

    def forward(self, x: Float[Tensor, "B t C"], **named: Any) -> Float[Tensor, "B t C"]:
        """What else a block gives its attention, mask and cache, is not needed here."""
        q, k, v = self.project(x)
        if self.rotate is not None:
            q, k = (self.rotate(part, self.where[self.wire.rank]) for part in (q, k))
        heads = ring_attend(self.wire, q, k, v, self.where)
        return self.to_out(heads.transpose(1, 2).flatten(2))


def ring_model(wire: Wire, model: LanguageModel, where: Int[Tensor, "P t"]) -> LanguageModel:
    """A copy that reads this process' positions and attends to those of all. Its gradients are of
    this process' tokens: their mean over all is that of the text."""
    mine = copy.deepcopy(model)
    for block in mine.body.blocks:
        attention = block.get_submodule("attention")
        whole = cast(Attention, attention.sublayer)
        attention.sublayer = RingAttention(wire, whole, where)
    return mine
