"""Attention: score every key against a query, turn the scores into weights, average the values.

`mask` is True where looking is allowed, as in torch's `scaled_dot_product_attention`
(`nn.MultiheadAttention` means the opposite by its masks).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


def dot_scores(
    q: Float[Tensor, "*batch Tq D"], k: Float[Tensor, "*batch Tk D"]
) -> Float[Tensor, "*batch Tq Tk"]:
    """How much each query and key point the same way: their dot product.

    Luong et al. 2015, section 3.1, "dot".
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"queries have width {q.shape[-1]}, keys have width {k.shape[-1]}: a dot product needs "
            "equal widths (AdditiveScores and MultiplicativeScores do not)"
        )
    return q @ k.mT


def scaled_dot_scores(
    q: Float[Tensor, "*batch Tq D"], k: Float[Tensor, "*batch Tk D"]
) -> Float[Tensor, "*batch Tq Tk"]:
    """Dot products divided by √D, so that their typical size does not grow with the width.

    Vaswani et al. 2017, equation 1.
    """
    return dot_scores(q, k) / math.sqrt(q.shape[-1])


class MultiplicativeScores(nn.Module):
    """A learned matrix between query and key, q W kᵀ: their widths may differ.

    Luong et al. 2015, section 3.1, "general".
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        self.to_query = nn.Linear(key_width, query_width, bias=False)
        self.widths = query_width, key_width

    def forward(
        self, q: Float[Tensor, "*batch Tq Dq"], k: Float[Tensor, "*batch Tk Dk"]
    ) -> Float[Tensor, "*batch Tq Tk"]:
        check_widths(q, k, self.widths)
        return q @ self.to_query(k).mT


class AdditiveScores(nn.Module):
    """A small network looks at query and key together: v · tanh(W q + U k).

    Bahdanau et al. 2015, appendix A.1.2, where q is the decoder's state and k the encoder's.
    """

    def __init__(self, query_width: int, key_width: int, width: int):
        super().__init__()
        self.from_query = nn.Linear(query_width, width, bias=False)
        self.from_key = nn.Linear(key_width, width, bias=False)
        self.to_score = nn.Linear(width, 1, bias=False)
        self.widths = query_width, key_width

    def forward(
        self, q: Float[Tensor, "*batch Tq Dq"], k: Float[Tensor, "*batch Tk Dk"]
    ) -> Float[Tensor, "*batch Tq Tk"]:
        check_widths(q, k, self.widths)
        pairs = self.from_query(q).unsqueeze(-2) + self.from_key(k).unsqueeze(-3)  # (… Tq Tk width)
        return self.to_score(torch.tanh(pairs)).squeeze(-1)


def check_widths(q: Tensor, k: Tensor, widths: tuple[int, int]) -> None:
    """Raise a ValueError unless queries and keys have the widths that a score was made for."""
    if (q.shape[-1], k.shape[-1]) != widths:
        raise ValueError(
            f"queries have width {q.shape[-1]}, keys {k.shape[-1]}; this score was made for "
            f"{widths[0]} and {widths[1]}"
        )


def masked_softmax(
    scores: Float[Tensor, "*batch Tq Tk"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*batch Tq Tk"]:
    """Weights that are positive where looking is allowed, 0 elsewhere, and sum to 1 in each row.

    A row that may see nothing is all zeros. `mask` has the scores' shape or broadcasts to it.
    """
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    # A row of -inf alone would become NaN: a row that sees nothing is set to 0 at the end only.
    seen = mask.any(-1, keepdim=True)
    return scores.masked_fill(~mask & seen, -math.inf).softmax(-1).masked_fill(~mask, 0)


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless `mask` is boolean and broadcasts to scores of this shape."""
    if mask.dtype != torch.bool:
        raise ValueError(f"a mask is boolean, True where looking is allowed; got {mask.dtype}")
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(m not in (1, s) for m, s in sizes):
        raise ValueError(f"mask {tuple(mask.shape)} does not fit scores {tuple(shape)}")


def attend(
    q: Float[Tensor, "*batch Tq Dq"],
    k: Float[Tensor, "*batch Tk Dk"],
    v: Float[Tensor, "*batch Tk Dv"],
    mask: Bool[Tensor, "..."] | None = None,
    score: Callable = scaled_dot_scores,
) -> tuple[Float[Tensor, "*batch Tq Dv"], Float[Tensor, "*batch Tq Tk"]]:
    """Each query looks at all keys and takes home the weighted average of their values.

    Returns the averages and the weights. `score(q, k)` says how well a key answers a query.
    Vaswani et al. 2017, equation 1; Bahdanau et al. 2015, equations 5 and 6, with q = s, k = v = h.
    """
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{k.shape[-2]} keys but {v.shape[-2]} values: each key needs its value")
    weights = masked_softmax(score(q, k), mask)
    return weights @ v, weights


def length_mask(lengths: Int[Tensor, " B"], T: int | None = None) -> Bool[Tensor, "B T"]:
    """True where a sequence has a token, False where it was padded up to the batch's length T."""
    longest = int(lengths.max())
    if T is not None and T < longest:
        raise ValueError(f"a sequence of length {longest} does not fit into T = {T}")
    return torch.arange(T or longest, device=lengths.device) < lengths[:, None]


def causal_mask(
    Tq: int, Tk: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "Tq Tk"]:
    """No query sees a later key. The Tq queries are the last of the Tk positions.

    Vaswani et al. 2017, section 3.2.3.
    """
    Tk = Tq if Tk is None else Tk
    if Tk < Tq:
        raise ValueError(f"{Tq} queries cannot be the last of {Tk} positions")
    return torch.ones(Tq, Tk, dtype=torch.bool, device=device).tril(Tk - Tq)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of the width, then mixed.

    Vaswani et al. 2017, section 3.2.2. With `kv_heads` < `heads`, several queries share a key and
    value (Ainslie et al. 2023). `rotate(x, start)` turns queries and keys by their position, from
    position `start` on; `relative(Tq, Tk)` is added to the scores, one (Tq, Tk) table a head.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        rotate: Callable | None = None,
        relative: Callable | None = None,
        bias: bool = True,
    ):
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} does not divide into {heads} heads")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"{heads} query heads cannot share {kv_heads} key heads evenly")
        D = width // heads
        self.heads, self.kv_heads = heads, kv_heads
        self.widths = [heads * D, kv_heads * D, kv_heads * D]
        self.to_qkv = nn.Linear(width, sum(self.widths), bias=bias)
        self.to_out = nn.Linear(width, width, bias=bias)
        self.rotate, self.relative = rotate, relative
        self.see = None  # called with the weights, if anybody wants them

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk C"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: Any = None,
    ) -> Float[Tensor, "B Tq C"]:
        """Queries come from `x`, keys and values from `memory`, or from `x` too: self-attention.

        `mask` broadcasts to (B, Tq, Tk). A `cache` supplies the keys and values of earlier calls.
        """
        start = 0 if cache is None else cache.length
        self.check(x, x if memory is None else memory, mask, start)
        q, k, v = self.project(x, memory)
        if self.rotate is not None:
            q, k = self.rotate(q, start), self.rotate(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        heads = self.mix(q, k, v, mask)
        return self.to_out(heads.transpose(1, 2).flatten(2))  # (B Tq C)

    def check(self, x: Tensor, memory: Tensor, mask: Tensor | None, start: int) -> None:
        """Raise a ValueError unless widths, batches and the mask fit."""
        width = self.to_out.in_features
        for name, given in (("x", x), ("memory", memory)):
            if given.shape[-1] != width:
                raise ValueError(
                    f"{name} has width {given.shape[-1]}, this layer has width {width}"
                )
        if len(memory) != len(x):
            raise ValueError(f"{len(x)} sequences look at a memory of {len(memory)}")
        if mask is not None:
            check_mask(mask, (len(x), x.shape[1], start + memory.shape[1]))

    def project(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, heads, T, D), by one product with a fused matrix."""
        if memory is None:
            parts = self.to_qkv(x).split(self.widths, -1)
        else:
            weights, bias = self.to_qkv.weight.split(self.widths), self.to_qkv.bias
            biases = (None, None, None) if bias is None else bias.split(self.widths)
            parts = map(F.linear, (x, memory, memory), weights, biases)
        D = self.to_out.in_features // self.heads
        return tuple(part.unflatten(-1, (-1, D)).transpose(1, 2) for part in parts)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """`attend` in every head: by torch's fused kernel, unless somebody wants the weights."""
        if self.kv_heads < self.heads:
            k, v = (x.repeat_interleave(self.heads // self.kv_heads, 1) for x in (k, v))
        if mask is not None:  # the same for every head
            mask = mask.unsqueeze(1) if mask.dim() == 3 else torch.atleast_2d(mask)
        bias = None if self.relative is None else self.relative(q.shape[2], k.shape[2])
        if self.see is None:
            return fused(q, k, v, mask, bias)
        output, weights = attend(q, k, v, mask, partial(biased_scores, bias=bias))
        self.see(weights)
        return output


def biased_scores(q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """Scaled dot products plus what is known about the pair beforehand, such as its distance."""
    scores = scaled_dot_scores(q, k)
    return scores if bias is None else scores + bias


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """The output of `attend` without its weights, by torch's kernel that never stores them."""
    if bias is not None:  # torch's fast kernels take masks with 2 axes or 4, not with 3
        bias = bias.unsqueeze(0)
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
