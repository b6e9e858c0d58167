"""Tensor parallelism: every matrix is cut, first by its columns, then by its rows, with one sum.

Shoeybi et al. 2019 (Megatron-LM), section 3 and figure 3.
"""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnbook.attention import Attention, Projection
from attnbook.feedforward import GatedMLP
from attnbook.parallel.collectives import all_reduce
from attnbook.parallel.wire import Wire
from attnbook.transformer import LanguageModel


class Enter(torch.autograd.Function):
    """What all have enters a part of each: forward nothing is sent, backward gradients are summed.

    Shoeybi et al. 2019, figure 3: f.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, wire: Wire) -> Tensor:
        ctx.wire = wire
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return all_reduce(ctx.wire, gradient), None


class Leave(torch.autograd.Function):
    """What each has is summed; the gradient of a sum is the same for every term.

    Shoeybi et al. 2019, figure 3: g.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, wire: Wire) -> Tensor:
        return all_reduce(wire, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Split(nn.Module):
    """A part of which each process has a slice, between `Enter` and `Leave`."""

    def __init__(self, wire: Wire, slice: nn.Module):
        super().__init__()
        self.wire, self.slice = wire, slice

    def forward(self, x: Tensor, *given: Any, **named: Any) -> Tensor:
        return Leave.apply(self.slice(Enter.apply(x, self.wire), *given, **named), self.wire)


def outputs(wire: Wire, whole: nn.Linear, widths: list[int] | None = None) -> nn.Linear:
    """A linear map that makes this process' share of the outputs; of each of `widths`, if they
    are several things, such as queries, keys and values."""
    check_tensor_parallel(wire, whole, whole.out_features)
    kinds = whole.weight.detach().split(widths or [whole.out_features])
    return linear(torch.cat([kind.chunk(wire.size)[wire.rank] for kind in kinds]))


def inputs(wire: Wire, whole: nn.Linear) -> nn.Linear:
    """A linear map that reads this process' share of the inputs: the outputs are to be summed."""
    check_tensor_parallel(wire, whole, whole.in_features)
    return linear(whole.weight.detach().chunk(wire.size, 1)[wire.rank])


def linear(weight: Tensor) -> nn.Linear:
    """A map with these weights; none are drawn for it."""
    made = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias=False)
    made.weight = nn.Parameter(weight.clone())
    return made


def check_tensor_parallel(wire: Wire, whole: nn.Linear, width: int) -> None:
    """Raise a ValueError for a map that cannot be cut."""
    if whole.bias is not None or width % wire.size:
        raise ValueError(
            f"a map of {width} without bias is cut in {wire.size} equal parts; "
            f"{'it has a bias' if whole.bias is not None else 'these do not divide'}"
        )


def split_network(wire: Wire, whole: GatedMLP) -> Split:
    """Each process widens to its share of the hidden channels, and reads that share back."""
    mine = copy.deepcopy(whole)
    mine.gate, mine.up = outputs(wire, whole.gate), outputs(wire, whole.up)
    mine.down = inputs(wire, whole.down)
    return Split(wire, mine)


def split_attention(wire: Wire, whole: Attention) -> Split:
    """Each process has some of the heads: they do not know of each other before they are mixed."""
    if whole.heads % wire.size or whole.kv_heads % wire.size:
        raise ValueError(
            f"{whole.heads} heads, {whole.kv_heads} of keys and values, do not divide among "
            f"{wire.size} processes"
        )
    mine = copy.deepcopy(whole)
    project, widths = cast(Projection, mine.project), cast(Projection, whole.project).widths
    project.to_qkv = outputs(wire, cast(nn.Linear, project.to_qkv), widths)
    project.widths = [width // wire.size for width in widths]
    mine.to_out = inputs(wire, cast(nn.Linear, whole.to_out))
    for part in (mine, project):
        part.heads, part.kv_heads = whole.heads // wire.size, whole.kv_heads // wire.size
    return Split(wire, mine)


def split_model(wire: Wire, whole: LanguageModel) -> LanguageModel:
    """A copy whose blocks are split; embedding, norms and the map to the vocabulary stay whole."""
    mine = copy.deepcopy(whole)
    for block in mine.body.blocks:
        attention, network = (block.get_submodule(name) for name in ("attention", "feedforward"))
        attention.sublayer = split_attention(wire, cast(Attention, attention.sublayer))
        network.sublayer = split_network(wire, cast(GatedMLP, network.sublayer))
    return mine
