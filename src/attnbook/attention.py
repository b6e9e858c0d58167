"""Attention: score every key against a query, turn the scores into weights, average the values.

`attend` is the operation, `MultiHeadAttention` the layer; below them its projections, and scores
with weights of their own. `mask` is True where looking is allowed, as in torch's
`scaled_dot_product_attention` (`nn.MultiheadAttention` means the opposite by its masks).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.cache import Cache, KVCache, MemoryCache, StaticCache, WindowCache, append_to
from attnbook.checks import check_int
from attnbook.masks import (
    Grid,
    Mask,
    Pattern,
    add_key,
    as_pattern,
    causal,
    check_mask,
    check_positions,
    combine,
    dense,
    position_ids,
)
from attnbook.positions import Rotate, scale_queries
from attnbook.scores import Relative, Score, repeat_kv

KeysAndValues = tuple[Float[Tensor, "B kv_heads Tk D"], Float[Tensor, "B kv_heads Tk Dv"]]
Heads = tuple[
    Float[Tensor, "B H Tq D"], Float[Tensor, "B kv_heads Tk D"], Float[Tensor, "B kv_heads Tk Dv"]
]
ScoreFunction = Callable[
    [Float[Tensor, "*batch Tq Dq"], Float[Tensor, "*batch Tk Dk"]], Float[Tensor, "*batch Tq Tk"]
]


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


def masked_softmax(
    scores: Float[Tensor, "*batch Tq Tk"],
    mask: Bool[Tensor, "..."] | None = None,
    sink: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch Tq Tk"]:
    """Weights that are positive where looking is allowed, 0 elsewhere, and sum to 1 in each row.

    A row that may see nothing is all zeros. `mask` has the scores' shape or broadcasts to it. A
    `sink` is the score of one more key, (…, 1), that everybody may see: its weight is taken away.
    """
    if sink is not None:
        scores = torch.cat((scores, sink.expand(*scores.shape[:-1], 1).to(scores.dtype)), -1)
        return masked_softmax(scores, add_key(mask, scores.shape[-1] - 1))[..., :-1]
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    # A row of -inf alone would become NaN: a row that sees nothing is set to 0 at the end only.
    seen = mask.any(-1, keepdim=True)
    return scores.masked_fill(~mask & seen, -math.inf).softmax(-1).masked_fill(~mask, 0)


def attend(
    q: Float[Tensor, "*batch Tq Dq"],
    k: Float[Tensor, "*batch Tk Dk"],
    v: Float[Tensor, "*batch Tk Dv"],
    mask: Bool[Tensor, "..."] | None = None,
    score: ScoreFunction = scaled_dot_scores,
    sink: Float[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch Tq Dv"], Float[Tensor, "*batch Tq Tk"]]:
    """Each query looks at all keys and takes home the weighted average of their values.

    Returns the averages and the weights. `score(q, k)` says how well a key answers a query; `sink`
    is as in `masked_softmax`.
    Vaswani et al. 2017, equation 1; Bahdanau et al. 2015, equations 5 and 6, with q = s, k = v = h.
    """
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{k.shape[-2]} keys but {v.shape[-2]} values: each key needs its value")
    weights = masked_softmax(score(q, k), mask, sink)
    return weights @ v, weights


class Attention(nn.Module):
    """Multi-head attention from its parts: several attentions side by side, then mixed.

    `project(x, memory)` makes queries, keys and values; `rotate(x, start)` turns queries and keys
    by their position; `score` says how well they fit; `pattern` who may look at whom, in this
    layer; `gate(heads, x)` decides what passes; `to_out` mixes the heads. `MultiHeadAttention` is
    the usual choice of these. Vaswani et al. 2017, section 3.2.2.
    """

    project: "Projects"

    def __init__(
        self,
        project: nn.Module,
        to_out: nn.Module,
        rotate: Rotate | None = None,
        score: Score | None = None,
        pattern: Pattern | None = None,
        gate: nn.Module | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.project, self.to_out, self.rotate = cast(Projects, project), to_out, rotate
        self.score = Score() if score is None else score
        self.pattern, self.gate, self.dropout = pattern, gate, dropout
        self.heads, self.kv_heads = self.project.heads, self.project.kv_heads
        self.on_weights: Callable[[Tensor], None] | None = None  # called with (B H Tq Tk), if set

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk Cm"] | None = None,
        mask: Mask | None = None,
        cache: Cache | MemoryCache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B Tq Cout"]:
        """Queries come from `x`, keys and values from `memory`, or from `x` too: self-attention.

        `mask` is a pattern, or a boolean tensor that broadcasts to (B, Tq, Tk), or to
        (B, H, Tq, Tk). A `cache` supplies the keys and values of earlier calls; those of a memory
        are made once, with a `MemoryCache`. `positions` are those of `x`, (Tq,) or (B, Tq); without
        them they are counted on from the cache. A memory's positions count from 0.
        """
        self.check(x, x if memory is None else memory, mask, cache)
        if memory is not None and cache is not None:
            q, (k, v) = self.project.queries(x), cache.fill(partial(self.project.keys, memory))
        else:
            q, k, v = self.project(x, memory)  # (B H Tq D), (B kv_heads Tk D), (B kv_heads Tk Dv)
        q, k = self.rotate_both(q, k, cache, memory is not None, positions)
        if memory is None and cache is not None:
            k, v = append_to(cache, k, v, mask)
        sizes = x.shape[0], x.shape[1], k.shape[2], x.device
        grid = Grid(*sizes) if cache is None else cache.grid(*sizes)
        mask, grid = self.combine_masks(mask, grid)
        heads = self.mix(q, k, v, mask, grid)  # (B H Tq Dv)
        heads = heads.transpose(1, 2).flatten(2)  # (B Tq H·Dv)
        return self.to_out(heads if self.gate is None else self.gate(heads, x))

    def placed(self, x: Float[Tensor, "B T C"]) -> Heads:
        """Queries, keys and values of a whole text, turned by their positions."""
        q, k, v = self.project(x, None)
        return *self.rotate_both(q, k, None, False, None), v

    def rotate_both(
        self,
        q: Float[Tensor, "B H Tq D"],
        k: Float[Tensor, "B kv_heads Tk D"],
        cache: Cache | MemoryCache | None,
        cross: bool,
        positions: Int[Tensor, "..."] | None,
    ) -> tuple[Float[Tensor, "B H Tq D"], Float[Tensor, "B kv_heads Tk D"]]:
        """Queries and keys turned by their positions; `cross`: the keys are a memory's. ValueError
        for positions that do not fit."""
        if positions is not None:
            check_positions(positions, q.shape[0], q.shape[2])
        if self.rotate is None:
            return q, k
        cached = 0 if cache is None else cache.length
        start = cached if positions is None else positions
        if isinstance(cache, MemoryCache):  # nothing is appended to it: queries are counted here
            cache.length = cached + q.shape[2]
        q = scale_queries(self.rotate, self.rotate(q, start), start)
        return q, self.rotate(k, 0 if cross else start)

    def combine_masks(self, mask: Mask | None, grid: Grid) -> tuple[Mask | None, Grid]:
        """The mask and this layer's own pattern together, and the positions they speak of."""
        if mask is causal and self.pattern is None and grid.start is None:
            return (None if grid.Tq == 1 else mask), grid  # nothing to combine
        ids = position_ids(mask)
        grid = grid if ids is None else replace(grid, position_ids=ids)
        return combine(grid, mask, self.pattern), grid

    def check(
        self, x: Tensor, memory: Tensor, mask: Mask | None, cache: Cache | MemoryCache | None
    ) -> None:
        """Raise a ValueError unless widths, batches and the mask fit."""
        wants = self.project
        for name, given, width in (("x", x, wants.width), ("memory", memory, wants.memory_width)):
            if given.shape[-1] != width:
                raise ValueError(
                    f"{name} has width {given.shape[-1]}, this layer has width {width}"
                )
        if memory is not x and isinstance(cache, KVCache | StaticCache):
            raise ValueError("a memory is kept in a MemoryCache: its keys come all at once")
        if memory.shape[0] != x.shape[0]:
            raise ValueError(f"{x.shape[0]} sequences look at a memory of {memory.shape[0]}")
        if mask is not None and (mask is not causal or memory is not x):
            Tk = memory.shape[1] if cache is None else cache.total(memory.shape[1])
            as_pattern(mask).check(x.shape[0], self.heads, x.shape[1], Tk)

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, grid: Grid
    ) -> Float[Tensor, "B H Tq Dv"]:
        """`attend` in every head: by torch's fused kernel, unless somebody wants the weights."""
        dropout = self.dropout if self.training else 0.0
        if self.on_weights is None:
            output = self.score.fused(q, k, v, mask, grid, dropout)
            if output is not None:
                return output
        k, v = repeat_kv(k, self.heads), repeat_kv(v, self.heads)
        score = partial(self.score, bias=self.score.bias(grid))
        output, weights = attend(q, k, v, dense(mask, grid), score, self.score.sink())
        if self.on_weights is not None:
            self.on_weights(weights)
        return F.dropout(weights, dropout) @ v if dropout else output

    def cache(self, max_len: int | None = None) -> Cache:
        """An empty cache that suits this layer: of `max_len`, or one that grows or forgets."""
        if max_len is not None:
            return StaticCache(max_len)
        reach = None if self.pattern is None else self.pattern.reach
        return KVCache() if reach is None else WindowCache(reach)

    @property
    def relative(self) -> Relative | None:
        """What is added to the scores."""
        return self.score.relative


class MultiHeadAttention(Attention):
    """Multi-head attention: each head attends in its own slice of the width.

    Vaswani et al. 2017, section 3.2.2. With `kv_heads` < `heads`, several queries share a key and
    value (Ainslie et al. 2023). `rotate(x, start)` turns queries and keys by their position, from
    position `start` on; `relative(Tq, Tk)` is added to the scores, one (Tq, Tk) table per head;
    `q_norm` and `k_norm` normalise each head's queries and keys (Henry et al. 2020). `dropout` acts
    on the weights.
    """

    project: "Projection"

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        rotate: Rotate | None = None,
        relative: Relative | None = None,
        bias: bool = True,
        q_norm: nn.Module | None = None,
        k_norm: nn.Module | None = None,
        dropout: float = 0.0,
    ):
        project = Projection(width, heads, kv_heads, bias=bias, q_norm=q_norm, k_norm=k_norm)
        to_out = nn.Linear(width, width, bias=bias)
        super().__init__(project, to_out, rotate, Score(relative=relative), dropout=dropout)

    @property
    def to_qkv(self) -> nn.Module:
        """The map that makes queries, keys and values."""
        return self.project.to_qkv

    @property
    def widths(self) -> list[int]:
        """How many of its channels are queries, keys and values."""
        return self.project.widths

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "to_qkv":  # an adapter: torch would register a second map that nobody calls
            self.project.to_qkv = value
        else:
            super().__setattr__(name, value)


class Projects(Protocol):
    """What an attention asks of its projection: its sizes, and queries, keys and values."""

    width: int
    memory_width: int
    heads: int
    kv_heads: int

    def __call__(
        self, x: Float[Tensor, "B Tq C"], memory: Float[Tensor, "B Tk Cm"] | None = None
    ) -> Heads:
        """Queries, keys and values, each (B, heads, T, D)."""

    def queries(self, x: Float[Tensor, "B Tq C"]) -> Float[Tensor, "B H Tq D"]:
        """Queries alone."""

    def keys(self, memory: Float[Tensor, "B Tk Cm"]) -> KeysAndValues:
        """Keys and values of a memory."""


class Projection(nn.Module):
    """Queries, keys and values of all heads by one product with one matrix, `to_qkv`.

    A head is `D` wide, width ÷ heads if nothing else is said. `q_norm` and `k_norm` work on each
    head's queries and keys; on all heads together inside `AcrossHeads`. One module given as both is
    one norm with one gain. Queries are made of `x`, keys and values of `memory`: the matrix is
    multiplied with both then, and what is not needed is dropped (`SplitProjection` makes none of
    it).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        D: int | None = None,
        bias: bool = True,
        q_norm: nn.Module | None = None,
        k_norm: nn.Module | None = None,
    ):
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or (D is None and width % heads):
            raise ValueError(f"width {width} does not divide into {heads} heads")
        check_sharing(heads, kv_heads)
        self.width = self.memory_width = width
        self.heads, self.kv_heads = heads, kv_heads
        self.D = width // heads if D is None else check_int("head width D", D, 1)
        self.widths = [heads * self.D, kv_heads * self.D, kv_heads * self.D]
        self.to_qkv: nn.Module = nn.Linear(width, sum(self.widths), bias=bias)
        self.q_norm, self.k_norm = q_norm, k_norm

    def forward(
        self, x: Float[Tensor, "B Tq C"], memory: Float[Tensor, "B Tk C"] | None = None
    ) -> Heads:
        """Queries, keys and values, each (B, heads, T, D)."""
        if memory is not None:
            return self.queries(x), *self.keys(memory)
        q, k, v = (split_heads(part, self.D) for part in self.to_qkv(x).split(self.widths, -1))
        return normalise(q, self.q_norm), normalise(k, self.k_norm), v

    def queries(self, x: Float[Tensor, "B Tq C"]) -> Float[Tensor, "B H Tq D"]:
        """Queries alone, as `forward` makes them."""
        q, _, _ = self.to_qkv(x).split(self.widths, -1)
        return normalise(split_heads(q, self.D), self.q_norm)

    def keys(self, memory: Float[Tensor, "B Tk C"]) -> KeysAndValues:
        """Keys and values of a memory; the same for all that is asked of it."""
        _, k, v = self.to_qkv(memory).split(self.widths, -1)
        return normalise(split_heads(k, self.D), self.k_norm), split_heads(v, self.D)


class SplitProjection(nn.Module):
    """Queries, keys and values by a map each: for attention to a memory, or if the maps differ.

    Of the maps' sizes follow all others: the memory may have another width than `x`, values another
    than keys. Norms as in `Projection`.
    """

    def __init__(
        self,
        heads: int,
        to_q: nn.Linear,
        to_k: nn.Linear,
        to_v: nn.Linear,
        q_norm: nn.Module | None = None,
        k_norm: nn.Module | None = None,
    ):
        super().__init__()
        if heads < 1 or to_q.out_features % heads:
            raise ValueError(f"queries of {to_q.out_features} do not divide into {heads} heads")
        self.D = to_q.out_features // heads
        if to_k.out_features % self.D:
            raise ValueError(f"keys of {to_k.out_features} do not divide into heads of {self.D}")
        self.heads, self.kv_heads = heads, to_k.out_features // self.D
        check_sharing(heads, self.kv_heads)
        if to_v.out_features % self.kv_heads or to_v.in_features != to_k.in_features:
            raise ValueError(
                f"values of {to_v.in_features} → {to_v.out_features} do not go with "
                f"{self.kv_heads} heads of keys from {to_k.in_features}"
            )
        self.width, self.memory_width = to_q.in_features, to_k.in_features
        self.to_q, self.to_k, self.to_v = to_q, to_k, to_v
        self.q_norm, self.k_norm = q_norm, k_norm

    def forward(
        self, x: Float[Tensor, "B Tq C"], memory: Float[Tensor, "B Tk Ck"] | None = None
    ) -> Heads:
        return self.queries(x), *self.keys(x if memory is None else memory)

    def queries(self, x: Float[Tensor, "B Tq C"]) -> Float[Tensor, "B H Tq D"]:
        """Queries alone, as `forward` makes them."""
        return normalise(split_heads(self.to_q(x), self.D), self.q_norm)

    def keys(self, memory: Float[Tensor, "B Tk Ck"]) -> KeysAndValues:
        """Keys and values of a memory; the same for all that is asked of it."""
        k, v = self.to_k(memory), self.to_v(memory)
        values = v.shape[-1] // self.kv_heads
        return normalise(split_heads(k, self.D), self.k_norm), split_heads(v, values)


class AcrossHeads(nn.Module):
    """A norm of all heads' queries, or keys, together: its width is heads × D (OLMo 2)."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
        return split_heads(self.norm(x.transpose(1, 2).flatten(2)), x.shape[-1])


class SigmoidGate(nn.Module):
    """Each head's output, times a number between 0 and 1 that the layer's input decides on.

    A gate per head if `gates` is the number of heads, per channel if it is heads × D. Qiu et al.
    2025, section 2.2, position G1.
    """

    def __init__(self, width: int, gates: int, bias: bool = False):
        super().__init__()
        self.gates, self.to_gate = gates, nn.Linear(width, gates, bias=bias)

    def forward(
        self, heads: Float[Tensor, "B T all"], x: Float[Tensor, "B T C"]
    ) -> Float[Tensor, "B T all"]:
        if heads.shape[-1] % self.gates:
            raise ValueError(f"{heads.shape[-1]} channels do not divide among {self.gates} gates")
        open_by = self.to_gate(x).sigmoid().unsqueeze(-1)  # (B T gates 1)
        return (heads.unflatten(-1, (self.gates, -1)) * open_by).flatten(-2)


def split_heads(x: Float[Tensor, "B T all"], D: int) -> Float[Tensor, "B H T D"]:
    """One slice of the width for each head."""
    return x.unflatten(-1, (-1, D)).transpose(1, 2)


def normalise(x: Float[Tensor, "B H T D"], norm: nn.Module | None) -> Float[Tensor, "B H T D"]:
    """Each head's vectors, normalised if there is a norm."""
    return x if norm is None else norm(x)


def check_sharing(heads: int, kv_heads: int) -> None:
    """Raise a ValueError unless as many queries share each key."""
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} key heads evenly")


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
