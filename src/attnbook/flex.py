"""A score for GPUs: FlexAttention makes one kernel of a pattern, a cap, a bias; without a table."""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnbook.masks import Mask, Pattern, Places
from attnbook.score import Score
from attnbook.step import once

# Of a score, and the numbers of its sequence, head, query and key.
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Kernel = Callable[..., tuple[Tensor, Tensor]]
plain = cast(Kernel, flex_attention)  # torch's own types do not say what it returns


class FlexScore(Score):
    """As `Score`, by FlexAttention: blocks of keys that a pattern forbids are never looked at.

    On a GPU its kernel is compiled, once per pattern; elsewhere torch computes it plainly, without
    gradients. A mask that is a table, few queries, and dropout are left to `Score`. He et al. 2024,
    "FlexAttention".
    """

    least = 128  # queries for which it is worth while: the size of a block

    def fused(
        self,
        q: Float[Tensor, "B H Tq D"],
        k: Float[Tensor, "B kv_heads Tk D"],
        v: Float[Tensor, "B kv_heads Tk Dv"],
        mask: Mask | None,
        at: Places,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Tq Dv"] | None:
        """The output of `attend`, without its weights."""
        rule = mask if isinstance(mask, Pattern) and mask.is_rule else None
        learns = torch.is_grad_enabled() and not q.is_cuda  # torch has no such gradient elsewhere
        if rule is not mask or at.Tq < self.least or dropout or learns:
            return super().fused(q, k, v, mask, at, dropout)
        scale = q.shape[-1] ** -0.5 if self.scale is None else self.scale
        blocks = None if rule is None else once(("blocks", rule, at), partial(blocks_of, rule, at))
        kernel = compiled if q.is_cuda and not torch.compiler.is_compiling() else plain
        output, total = kernel(
            *(q, k, v, self.change(at), blocks, scale),
            enable_gqa=q.shape[1] > k.shape[1],
            return_lse=True,
        )
        if self.sinks is None:
            return output
        return output * torch.sigmoid(total - self.sinks[:, None]).unsqueeze(-1).to(output.dtype)

    def change(self, at: Places) -> ScoreMod | None:
        """What is done to each score: the cap, and the bias of its head, query and key."""
        bias = self.bias(at)
        if self.cap is None and bias is None:
            return None
        return lambda score, b, h, i, j: changed(score, self.cap, bias, (b, h, i, j))


def changed(
    score: Tensor, cap: float | None, bias: Tensor | None, where: tuple[Tensor, ...]
) -> Tensor:
    """One score, bent by the cap, and the bias of its (sequence,) head, query and key added."""
    score = score if cap is None else cap * torch.tanh(score / cap)
    return score if bias is None else score + bias[where[-bias.dim() :]]


def blocks_of(pattern: Pattern, at: Places) -> BlockMask:
    """Which blocks of keys a block of queries needs at all."""
    first = at.first + at.Tk - at.Tq if at.start is None else at.start
    rows = at.B if pattern.by_row else None
    return create_block_mask(
        lambda b, h, i, j: allowed(pattern, b, i + first, j + at.first),
        *(rows, None, at.Tq, at.Tk),
        device=at.device,
    )


def allowed(pattern: Pattern, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """What the pattern says of one pair, in one sequence."""
    return pattern(i, j, b) if pattern.by_row else pattern(i, j)


def compiled(*given: object, **named: object) -> tuple[Tensor, Tensor]:
    """FlexAttention as one kernel, compiled when it is first needed."""
    global _kernel
    if _kernel is None:
        _kernel = torch.compile(flex_attention, dynamic=False)
    return _kernel(*given, **named)


_kernel: Kernel | None = None


def with_flex(model: nn.Module) -> nn.Module:
    """Let every attention of a model compute its scores by FlexAttention; the model is changed."""
    for part in model.modules():
        if type(part) is Score:
            part.__class__ = FlexScore
    return model
