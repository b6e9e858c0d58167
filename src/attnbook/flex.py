"""FlexAttention, torch's kernel for GPUs: a pattern and a cap become part of it, without a table.

Blocks of keys that a pattern forbids are never looked at. He et al. 2024, "FlexAttention".
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import flex_attention as torchs
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnbook.masks import Causal, Mask, Pattern, Places
from attnbook.step import once

LEAST = 128  # queries for which it is worth while: the size of a block
TRITON = find_spec("triton") is not None  # what compiles kernels
NARROWEST = 16  # channels of a head that its kernel can compute

plain = cast(Callable[..., Tensor], flex_attention)  # torch's own types do not say what it returns


def on_gpu(q: Tensor) -> bool:
    """Is there a GPU that these queries are on, and a compiler for its kernels?"""
    return TRITON and q.is_cuda


def possible(mask: Mask | None, q: Tensor, dropout: float) -> bool:
    """Can FlexAttention compute this at all? Not dropout, nor a mask that is a table; without a
    GPU, torch computes it plainly, but not its gradients."""
    rule = mask is None or (isinstance(mask, Pattern) and mask.is_rule)
    return rule and not dropout and (q.is_cuda or not torch.is_grad_enabled())


def says_causal(mask: Mask | None, at: Places) -> bool:
    """Is this the mask that torch's kernels make themselves if they are told `is_causal`?"""
    return isinstance(mask, Causal) and at.start is None and at.Tq == at.Tk


def worth_while(mask: Mask | None, at: Places, capped: bool, q: Tensor, v: Tensor) -> bool:
    """Is it the best of torch's kernels? On a GPU, for many queries, if there is a cap, or a
    pattern that `is_causal` does not say."""
    plainly = mask is None or says_causal(mask, at)
    wide = min(q.shape[-1], v.shape[-1]) >= NARROWEST
    return on_gpu(q) and q.shape[-2] >= LEAST and wide and (capped or not plainly)


def flex_attend(
    q: Float[Tensor, "B H Tq D"],
    k: Float[Tensor, "B kv_heads Tk D"],
    v: Float[Tensor, "B kv_heads Tk Dv"],
    mask: Pattern | None,
    at: Places,
    scale: float,
    cap: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> Float[Tensor, "B H Tq Dv"]:
    """`attend` in every head by FlexAttention: its kernel is compiled once, elsewhere than on a GPU
    torch computes it plainly. A `bias` is (H, Tq, Tk) or (B, H, Tq, Tk)."""
    blocks = None if mask is None else once(("blocks", mask, at), partial(blocks_of, mask, at))
    kernel = compiled() if q.is_cuda and not torch.compiler.is_compiling() else plain
    bent = cap is None and bias is None
    change = None if bent else partial(changed, cap, None if bias is None else as_whole(bias, q, k))
    kernel = partial(kernel, enable_gqa=q.shape[1] > k.shape[1])
    if sinks is None:
        return kernel(q, k, v, change, blocks, scale)
    output, total = with_total(kernel, (q, k, v, change, blocks, scale))
    return output * torch.sigmoid(total - sinks[:, None]).unsqueeze(-1).to(output.dtype)


def with_total(kernel: Callable[..., object], given: tuple[object, ...]) -> tuple[Tensor, Tensor]:
    """What the kernel returns, and the logarithm of the sum that each weight was divided by."""
    if not hasattr(torchs, "AuxRequest"):  # before torch 2.9
        return cast(tuple[Tensor, Tensor], kernel(*given, return_lse=True))
    wanted = torchs.AuxRequest(lse=True)
    output, more = cast(tuple[Tensor, torchs.AuxOutput], kernel(*given, return_aux=wanted))
    return output, cast(Tensor, more.lse)


def as_whole(bias: Float[Tensor, "..."], q: Tensor, k: Tensor) -> Float[Tensor, "..."]:
    """A bias for each head, query and key, so that its numbers can be looked up."""
    return bias.expand(*bias.shape[:-3], q.shape[1], q.shape[2], k.shape[2])


def changed(
    cap: float | None,
    bias: Float[Tensor, "..."] | None,
    score: Tensor,
    b: Tensor,
    h: Tensor,
    i: Tensor,
    j: Tensor,
) -> Tensor:
    """One score, bent by the cap, and the bias of its (sequence,) head, query and key added."""
    score = score if cap is None else cap * torch.tanh(score / cap)
    return score if bias is None else score + bias[(b, h, i, j)[-bias.dim() :]]


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


def compiled() -> Callable[..., Tensor]:
    """FlexAttention as one kernel, compiled when it is first needed."""
    global _kernel
    if _kernel is None:
        _kernel = torch.compile(plain)
    return _kernel


_kernel: Callable[..., Tensor] | None = None
