"""Expert parallelism: every process has some of the experts, and the tokens travel to them.

Lepikhin et al. 2021 (GShard), section 3.2; Rajbhandari et al. 2022 (DeepSpeed-MoE), section 5.
"""

import copy
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.experts import MixtureOfExperts
from attnbook.parallel.collectives import all_to_all
from attnbook.parallel.wire import Wire
from attnbook.transformer import LanguageModel

Counts = list[int]


class Exchange(torch.autograd.Function):
    """Differentiable all-to-all: sends `out[r]` rows to rank r, receives `back[r]` from it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, out: Counts, back: Counts, wire: Wire) -> Tensor:
        ctx.given = back, out, wire
        return exchange(rows, out, back, wire)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return exchange(gradient, *ctx.given), None, None, None


def exchange(rows: Tensor, out: Counts, back: Counts, wire: Wire) -> Tensor:
    """`rows` are sorted by where they go; what comes is sorted by where it is from."""
    likes = [rows.new_empty(n, *rows.shape[1:]) for n in back]
    return torch.cat(all_to_all(wire, rows.split(out), likes))


class ExpertParallel(nn.Module):
    """A mixture of experts of which this process has its share, and the whole router.

    Each process routes its own tokens. The vectors of those that chose an expert elsewhere go
    there, and the answers come back: two exchanges forward, two backward.
    """

    def __init__(self, wire: Wire, whole: MixtureOfExperts):
        super().__init__()
        if len(whole.experts) % wire.size or whole.shared is not None:
            raise ValueError(
                f"experts without a shared one are dealt out evenly; got {len(whole.experts)} "
                f"for {wire.size} processes"
            )
        self.wire, self.router = wire, whole.router
        self.each = len(whole.experts) // wire.size
        first = wire.rank * self.each
        self.experts = nn.ModuleList(list(whole.experts)[first : first + self.each])
        self.travelled = 0, 0  # vectors that left, and that came, in the last call

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        tokens = x.reshape(-1, x.shape[-1])
        _, share, chosen = self.router.choose(tokens)  # (N E), (N A), (N A)
        expert, order = chosen.flatten().sort(stable=True)  # by expert, so by process as well
        token = order // chosen.shape[1]
        out, back = self.counts(expert // self.each)
        sent = Exchange.apply(tokens[token], out, back, self.wire)
        which = exchange(expert, out, back, self.wire) - self.wire.rank * self.each
        answers = Exchange.apply(self.work(sent, which), back, out, self.wire)
        here = self.wire.rank
        self.travelled = sum(out) - out[here], sum(back) - back[here]
        weighted = share.flatten()[order, None] * answers
        return torch.zeros_like(tokens).index_add(0, token, weighted).view_as(x)

    def counts(self, owner: Int[Tensor, " n"]) -> tuple[Counts, Counts]:
        """How many rows go to each process, and how many come from each: said beforehand."""
        out = torch.bincount(owner, minlength=self.wire.size)
        back = all_to_all(self.wire, out.split(1), out.split(1))
        return out.tolist(), torch.cat(back).tolist()

    def work(self, rows: Float[Tensor, "n C"], which: Int[Tensor, " n"]) -> Float[Tensor, "n C"]:
        """Each expert's answers, in the order of the rows."""
        order = which.argsort(stable=True)
        parts = rows[order].split(torch.bincount(which, minlength=self.each).tolist())
        done = torch.cat([e(part) for e, part in zip(self.experts, parts, strict=True)])
        return done[order.argsort()]


def expert_model(wire: Wire, model: LanguageModel) -> LanguageModel:
    """A copy whose experts are dealt out; the rest is whole on every process."""
    mine = copy.deepcopy(model)
    for block in mine.body.blocks:
        feedforward = block.get_submodule("feedforward")
        whole = cast(MixtureOfExperts, feedforward.sublayer)
        feedforward.sublayer = ExpertParallel(wire, whole)
    return mine
