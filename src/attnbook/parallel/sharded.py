"""Sharded data parallelism (ZeRO, FSDP): what all would hold alike is dealt out."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from attnbook.parallel.collectives import all_gather, reduce_scatter
from attnbook.parallel.wire import Wire
from attnbook.transformer import LanguageModel

Mine = Float[Tensor, " n"]
All = Float[Tensor, " all"]


def parts_of(tensors: Sequence[Tensor], P: int) -> list[Tensor]:
    """All numbers in one row, filled up with zeros, cut into P equal parts."""
    row = torch.cat([tensor.detach().flatten() for tensor in tensors])
    return list(F.pad(row, (0, -row.numel() % P)).chunk(P))


class ShardedAdam:
    """Adam whose numbers are dealt out, ZeRO's stage 1: a process updates its part of the weights.

    Gradients are scattered as sums, the new weights gathered: together as many bytes as the sum
    that data parallelism needs anyway. Rajbhandari et al. 2020, section 5.1.
    """

    def __init__(self, wire: Wire, model: nn.Module, lr: float):
        self.wire, self.weights = wire, list(model.parameters())
        self.mine = nn.Parameter(parts_of(self.weights, wire.size)[wire.rank].clone())
        self.adam = torch.optim.Adam([self.mine], lr)

    def step(self) -> None:
        """Update the weights on all processes from the gradients of each."""
        gradients = [w.new_zeros(w.shape) if w.grad is None else w.grad for w in self.weights]
        total = reduce_scatter(self.wire, parts_of(gradients, self.wire.size))
        self.mine.grad = total / self.wire.size
        self.adam.step()
        row = torch.cat(all_gather(self.wire, self.mine))
        with torch.no_grad():
            for weight in self.weights:
                weight.copy_(row[: weight.numel()].view_as(weight))
                row = row[weight.numel() :]


class Gathered(torch.autograd.Function):
    """Forward, the parts of all are gathered; backward, gradients are scattered as their mean."""

    @staticmethod
    def forward(ctx: Any, mine: Mine, wire: Wire) -> All:
        ctx.wire = wire
        return torch.cat(all_gather(wire, mine))

    @staticmethod
    def backward(ctx: Any, gradient: All) -> tuple[Mine, None]:
        parts = gradient.chunk(ctx.wire.size)
        return reduce_scatter(ctx.wire, parts) / ctx.wire.size, None


class Sharded(nn.Module):
    """A module whose weights are dealt out, ZeRO's stage 3: whole only while it computes.

    They are gathered for the forward pass, dropped, gathered again for the backward pass (which
    computes the module's activations once more), and the gradients scattered: three times
    (P − 1)/P of the weights. With `keep` they stay whole in between: twice, and no recomputation,
    as in stage 2. Rajbhandari et al. 2020, section 7.2.2; Zhao et al. 2023 (FSDP), section 3.2.
    """

    def __init__(self, wire: Wire, whole: nn.Module, keep: bool = False):
        super().__init__()
        self.keep = keep
        self.shapes = {name: weight.shape for name, weight in whole.named_parameters()}
        self.mine = nn.Parameter(parts_of(list(whole.parameters()), wire.size)[wire.rank].clone())
        self.wire, self.shell = wire, [whole.to("meta")]  # a list: no weights of this module

    def forward(self, *given: Any, **named: Any) -> Any:
        if self.keep:
            return self.whole(self.mine, given, named)
        return checkpoint(self.whole, self.mine, given, named, use_reentrant=False)

    def whole(self, mine: Mine, given: tuple, named: dict) -> Any:
        """Gather the weights and compute."""
        row, weights = Gathered.apply(mine, self.wire), {}
        for name, shape in self.shapes.items():
            weights[name], row = row[: shape.numel()].view(shape), row[shape.numel() :]
        return functional_call(self.shell[0], weights, given, named)


def sharded_model(wire: Wire, model: LanguageModel, keep: bool = False) -> LanguageModel:
    """A copy in which the embedding, each block and the map to the vocabulary are dealt out."""
    mine = copy.deepcopy(model)
    mine.embed = Sharded(wire, mine.embed, keep)
    blocks = [Sharded(wire, block, keep) for block in mine.body.blocks]
    mine.body.blocks = nn.ModuleList(blocks)
    mine.body.norm = Sharded(wire, mine.body.norm, keep)
    mine.lm_head = Sharded(wire, mine.lm_head, keep)
    return mine
