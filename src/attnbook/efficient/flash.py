"""Exact attention without the table of scores: softmax in one pass, keys block by block."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attnbook.attention import scaled_dot_scores
from attnbook.masks import Pattern, Rule, check_mask

Looks = Pattern | Rule | None  # who may look at whom; None: everybody at everybody


def online_softmax(
    scores: Float[Tensor, "*batch Tk"], block: int = 1
) -> Float[Tensor, "*batch Tk"]:
    """Softmax whose maximum and sum are found together, `block` scores at a time.

    When a greater score turns up, the sum so far is scaled down to the new maximum. A row of −∞
    becomes zeros. Milakov and Gimelshein 2018, algorithm 3.
    """
    if block < 1:
        raise ValueError(f"a block holds at least 1 score; got {block}")
    top, total = torch.full_like(scores[..., 0], -math.inf), torch.zeros_like(scores[..., 0])
    for part in scores.split(block, -1):
        new = torch.maximum(top, part.amax(-1))
        total = total * exp_below(top, new) + exp_below(part, new[..., None]).sum(-1)
        top = new
    return exp_below(scores, top[..., None]) / total.masked_fill(total == 0, 1)[..., None]


def exp_below(scores: Tensor, top: Tensor) -> Tensor:
    """exp(scores − top), which is 0 and not NaN where nothing was seen yet and both are −∞."""
    return torch.exp(scores - top.masked_fill(top == -math.inf, 0))


def flash_attend(
    q: Float[Tensor, "*batch Tq D"],
    k: Float[Tensor, "*batch Tk D"],
    v: Float[Tensor, "*batch Tk Dv"],
    mask: Bool[Tensor, "..."] | None = None,
    pattern: Looks = None,
    block: int = 64,
) -> Float[Tensor, "*batch Tq Dv"]:
    """What `attend` returns, from tiles of block × block scores: memory grows with T, not T².

    `mask` as in `attend`. `pattern(i, j)` is True where position i may look at position j; no mask
    of Tq × Tk is made of it, and tiles without any such pair cost nothing. The backward pass
    computes the tiles again. Dao et al. 2022, algorithm 1.
    """
    check_flash(q, k, v, mask, pattern, block)
    Tq, Tk = q.shape[-2], k.shape[-2]
    if mask is not None:  # a view that repeats axes of length 1, not a copy
        mask = torch.atleast_2d(mask).expand(*mask.shape[:-2], Tq, Tk)
    outputs = []
    for start in range(0, Tq, block):
        rows = slice(start, start + block)
        given = q[..., rows, :], k, v, None if mask is None else mask[..., rows, :]
        where = Tk - Tq + start  # the queries are the last Tq of the Tk positions
        outputs.append(checkpoint(some_rows, *given, pattern, where, block, use_reentrant=False))
    return torch.cat(outputs, -2)


def check_flash(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, pattern: Looks, block: int
) -> None:
    """Raise a ValueError unless all of it fits together."""
    Tq, Tk = q.shape[-2], k.shape[-2]
    if block < 1:
        raise ValueError(f"a block holds at least 1 position; got {block}")
    if Tk != v.shape[-2]:
        raise ValueError(f"{Tk} keys but {v.shape[-2]} values: each key needs its value")
    if pattern is not None and Tk < Tq:
        raise ValueError(f"{Tq} queries cannot be the last of {Tk} positions")
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], Tk))


def some_rows(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, pattern: Looks, start: int, block: int
) -> Tensor:
    """The outputs of a few queries, the first of which stands at position `start`."""
    i = torch.arange(start, start + q.shape[-2], device=q.device)[:, None]
    top = torch.full_like(q[..., :1], -math.inf)
    total, output = torch.zeros_like(top), q.new_zeros(*q.shape[:-1], v.shape[-1])
    for first in range(0, k.shape[-2], block):
        here = slice(first, first + block)
        allowed = torch.ones((), dtype=torch.bool, device=q.device)
        if mask is not None:
            allowed = mask[..., here]
        if pattern is not None:
            j = torch.arange(first, min(first + block, k.shape[-2]), device=q.device)
            allowed = allowed & pattern(i, j)
        if not allowed.any():
            continue
        scores = scaled_dot_scores(q, k[..., here, :]).masked_fill(~allowed, -math.inf)
        new = torch.maximum(top, scores.detach().amax(-1, keepdim=True))
        shrink, weights = exp_below(top, new), exp_below(scores, new)
        total = total * shrink + weights.sum(-1, keepdim=True)
        output, top = output * shrink + weights @ v[..., here, :], new
    return output / total.masked_fill(total == 0, 1)
