"""Attention: score every key against a query, turn the scores into weights, average the values.

`mask` is True where looking is allowed, as in torch's `scaled_dot_product_attention`
(`nn.MultiheadAttention` means the opposite by its masks).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.cache import Cache, KVCache, StaticCache, WindowCache, append_to, places
from attnbook.kept import MemoryCache
from attnbook.learned_scores import AdditiveScores as AdditiveScores  # other scores for `attend`
from attnbook.learned_scores import MultiplicativeScores as MultiplicativeScores
from attnbook.masks import Mask, Pattern, Places, as_pattern, left_of, table_of
from attnbook.masks import causal_mask as causal_mask  # taught as part of attention
from attnbook.masks import check_mask as check_mask
from attnbook.masks import length_mask as length_mask
from attnbook.projection import Projection, Projects
from attnbook.rotary import Rotate, grown
from attnbook.score import Relative, Score, shared

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
        mask = (
            None
            if mask is None
            else F.pad(mask.expand(*mask.shape[:-1], scores.shape[-1] - 1), (0, 1), value=True)
        )
        return masked_softmax(scores, mask)[..., :-1]
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
    """Several attentions side by side, each in a head of its own, then mixed: the layer's parts.

    `project(x, memory)` makes queries, keys and values; `rotate(x, start)` turns queries and keys
    by their position; `score` says how well they fit; `pattern` who may look at whom, in this
    layer; `gate(heads, x)` decides what passes; `to_out` mixes the heads. `MultiHeadAttention` is
    the usual choice of these. Vaswani et al. 2017, section 3.2.2.
    """

    project: Projects

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
        self.see: Callable[[Tensor], None] | None = None  # called with the weights, if wanted

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk Cm"] | None = None,
        mask: Mask | None = None,
        cache: Cache | MemoryCache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B Tq Cout"]:
        """Queries come from `x`, keys and values from `memory`, or from `x` too: self-attention.

        `mask` is a pattern, or a table that broadcasts to (B, Tq, Tk), or to (B, H, Tq, Tk). A
        `cache` supplies the keys and values of earlier calls; those of a memory are made once, with
        a `MemoryCache`. `positions` are those of `x`, (Tq,) or (B, Tq); without them they are
        counted on from the cache.
        """
        self.check(x, x if memory is None else memory, mask, cache)
        if memory is not None and cache is not None:
            q, (k, v) = self.project.queries(x), cache.keep(partial(self.project.keys, memory))
        else:
            q, k, v = self.project(x, memory)
        if self.rotate is not None:
            counted = 0 if cache is None else cache.length
            where = counted if positions is None else positions
            q, k = grown(self.rotate, self.rotate(q, where), where), self.rotate(k, where)
        if memory is None and cache is not None:
            k, v = append_to(cache, k, v, mask)
        at = places(x, k, cache, mask)
        heads = self.mix(q, k, v, left_of(at, mask, self.pattern), at)
        heads = heads.transpose(1, 2).flatten(2)  # (B Tq H·Dv)
        return self.to_out(heads if self.gate is None else self.gate(heads, x))

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
        if mask is not None:
            Tk = memory.shape[1] if cache is None else cache.total(memory.shape[1])
            as_pattern(mask).check(x.shape[0], self.heads, x.shape[1], Tk)

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, at: Places
    ) -> Float[Tensor, "B H Tq Dv"]:
        """`attend` in every head: by torch's fused kernel, unless somebody wants the weights."""
        dropout = self.dropout if self.training else 0.0
        output = self.score.fused(q, k, v, mask, at, dropout) if self.see is None else None
        if output is not None:
            return output
        k, v = shared(k, self.heads), shared(v, self.heads)
        score = partial(self.score, bias=self.score.bias(at))
        output, weights = attend(q, k, v, table_of(mask, at), score, self.score.sink())
        if self.see is not None:
            self.see(weights)
        return F.dropout(weights, dropout) @ v if dropout else output

    def cache(self, room: int | None = None) -> Cache:
        """An empty cache that suits this layer: of fixed `room`, or one that grows or forgets."""
        if room is not None:
            return StaticCache(room)
        reach = None if self.pattern is None else self.pattern.reach
        return KVCache() if reach is None else WindowCache(reach)

    @property
    def relative(self) -> Relative | None:
        """What is added to the scores."""
        return self.score.relative


class MultiHeadAttention(Attention):
    """Several attentions side by side, each in its own slice of the width, then mixed.

    Vaswani et al. 2017, section 3.2.2. With `kv_heads` < `heads`, several queries share a key and
    value (Ainslie et al. 2023). `rotate(x, start)` turns queries and keys by their position, from
    position `start` on; `relative(Tq, Tk)` is added to the scores, one (Tq, Tk) table per head.
    """

    project: Projection

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        rotate: Rotate | None = None,
        relative: Relative | None = None,
        bias: bool = True,
    ):
        project = Projection(width, heads, kv_heads, bias=bias)
        to_out = nn.Linear(width, width, bias=bias)
        super().__init__(project, to_out, rotate, Score(relative=relative))

    @property
    def to_qkv(self) -> nn.Module:
        """The map that makes queries, keys and values."""
        return self.project.to_qkv

    @property
    def widths(self) -> list[int]:
        """How many of its channels are queries, keys and values."""
        return self.project.widths

    def __setattr__(self, name: str, value: Any) -> None:  # any attribute: numbers, parts
        if name == "to_qkv":  # else torch would register a second map that nobody calls
            self.project.to_qkv = value
        else:
            super().__setattr__(name, value)
