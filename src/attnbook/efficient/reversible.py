"""Reversible layers: the inputs can be computed from the outputs, so nobody has to keep them."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

Two = tuple[Float[Tensor, "*batch C"], Float[Tensor, "*batch C"]]


class ReversibleBlock(nn.Module):
    """Two streams that change in turns: y₁ = x₁ + f(x₂), then y₂ = x₂ + g(y₁).

    `f` and `g` are any parts that keep the shape, such as attention and feed-forward network, each
    with its norm. Gomez et al. 2017, section 3; Kitaev et al. 2020, section 3.
    """

    def __init__(self, f: nn.Module, g: nn.Module):
        super().__init__()
        for part in (*f.modules(), *g.modules()):
            if isinstance(part, nn.Dropout) and part.p > 0:
                raise ValueError(f"dropout of {part.p} would differ when it is computed again")
        self.f, self.g = f, g

    def forward(self, x1: Float[Tensor, "*batch C"], x2: Float[Tensor, "*batch C"]) -> Two:
        y1 = x1 + self.f(x2)
        return y1, x2 + self.g(y1)

    def inverse(self, y1: Float[Tensor, "*batch C"], y2: Float[Tensor, "*batch C"]) -> Two:
        """The inputs that gave these outputs, up to rounding."""
        x2 = y2 - self.g(y1)
        return y1 - self.f(x2), x2


class ReversibleStack(nn.Module):
    """Reversible blocks that keep the activations of none: training memory without the depth.

    Both streams start as x; their mean comes out, normalised if there is a `norm`. The backward
    pass computes the inputs of each block from its outputs. Kitaev et al. 2020, section 3.
    """

    def __init__(self, blocks: Sequence[ReversibleBlock], norm: nn.Module | None = None):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), nn.Identity() if norm is None else norm

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        weights = tuple(weight for weight in self.blocks.parameters() if weight.requires_grad)
        y1, y2 = Reversal.apply(self.blocks, x, x, *weights)
        return self.norm((y1 + y2) / 2)


class Reversal(torch.autograd.Function):
    """Runs blocks forward without keeping anything but the end; runs them back for gradients."""

    @staticmethod
    def forward(ctx: Any, blocks: nn.ModuleList, x1: Tensor, x2: Tensor, *weights: Tensor) -> Two:
        for block in blocks:  # nothing is recorded in here
            x1, x2 = block(x1, x2)
        ctx.blocks, ctx.weights = blocks, weights
        ctx.save_for_backward(x1, x2)
        return x1, x2

    @staticmethod
    def backward(ctx: Any, grad1: Tensor, grad2: Tensor) -> tuple[Tensor | None, ...]:
        y1, y2 = ctx.saved_tensors
        totals = {id(weight): torch.zeros_like(weight) for weight in ctx.weights}
        for block in reversed(ctx.blocks):
            x1, x2 = (x.detach().requires_grad_() for x in block.inverse(y1, y2))
            with torch.enable_grad():
                outputs = block(x1, x2)
            own = [weight for weight in block.parameters() if weight.requires_grad]
            grad1, grad2, *grads = torch.autograd.grad(
                outputs, (x1, x2, *own), (grad1, grad2), materialize_grads=True
            )
            for weight, grad in zip(own, grads, strict=True):
                totals[id(weight)] = totals[id(weight)] + grad
            y1, y2 = x1.detach(), x2.detach()
        return None, grad1, grad2, *totals.values()
