"""Attention to similar positions only, which a hash finds without comparing all pairs (Reformer).

Queries are keys here, but for their length: similar vectors then fall into the same bucket.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnbook.attention import masked_softmax, scaled_dot_scores
from attnbook.masks import Pattern, Rule

# Vectors, values and buckets of one sequence, or of a batch, to what each position takes home.
Sequences = Callable[[Tensor, Tensor, Tensor], Tensor]


def rotations(
    rounds: int, D: int, buckets: int, generator: torch.Generator | None = None
) -> Float[Tensor, "rounds D half"]:
    """Random directions that hash vectors of width D into `buckets`, anew in every round."""
    if buckets < 2 or buckets % 2:
        raise ValueError(f"a direction and its opposite are two buckets: {buckets} is not even")
    return torch.randn(rounds, D, buckets // 2, generator=generator)


def buckets_of(
    x: Float[Tensor, "*batch T D"], turns: Float[Tensor, "rounds D half"]
) -> Int[Tensor, "*batch rounds T"]:
    """Which of some random directions and their opposites a vector points along most.

    The closer two vectors, the likelier they share a bucket; lengths do not matter. Kitaev et al.
    2020, section 2: h(x) = argmax([xR; −xR]).
    """
    if x.shape[-1] != turns.shape[1]:
        raise ValueError(f"vectors of width {x.shape[-1]}, random directions of {turns.shape[1]}")
    turned = x.unsqueeze(-3) @ turns
    return torch.cat((turned, -turned), -1).argmax(-1)


def lsh_attend(
    x: Float[Tensor, "*batch T D"],
    v: Float[Tensor, "*batch T Dv"],
    turns: Float[Tensor, "rounds D half"],
    chunk: int,
    pattern: Pattern | Rule | None = None,
) -> Float[Tensor, "*batch T Dv"]:
    """Queries x look at keys x / |x|, each only at those in its own bucket.

    In each round the positions are sorted by bucket and cut into chunks: one sees its own bucket in
    its own chunk and the one before. Memory grows with rounds × T × chunk. `pattern(i, j)` is True
    where i may look at j. Kitaev et al. 2020, section 2 (there one sees oneself only if alone).
    """
    T = x.shape[-2]
    if chunk < 1 or T % chunk:
        raise ValueError(f"{T} positions do not divide into chunks of {chunk}")
    if v.shape[-2] != T:
        raise ValueError(f"{T} keys but {v.shape[-2]} values: each key needs its value")
    attend: Sequences = partial(one_sequence, chunk=chunk, pattern=pattern)
    for _ in x.shape[:-2]:
        attend = torch.vmap(attend)
    return attend(x, v, buckets_of(x, turns))


def one_sequence(
    x: Tensor, v: Tensor, bucket: Tensor, chunk: int, pattern: Pattern | Rule | None
) -> Tensor:
    """A round sorts, looks around, sorts back; then the rounds are averaged. Returns (T Dv).

    A pair that several rounds find counts once: each takes its part of it. Kitaev et al. 2020,
    appendix A, log N.
    """
    order = bucket.sort(dim=-1, stable=True).indices  # (rounds T)
    place = order.argsort(-1)
    own = order.unflatten(-1, (-1, chunk))  # (rounds chunks chunk)
    near = torch.cat((own.roll(1, 1), own), -1)  # (rounds chunks 2·chunk)
    allowed, times = pairs_of(own[..., None], near[..., None, :], bucket, place // chunk)
    if pattern is not None:
        allowed = allowed & pattern(own[..., None], near[..., None, :])
    scores = scaled_dot_scores(x[own], F.normalize(x, dim=-1)[near]) - times.log()
    output = masked_softmax(scores, allowed) @ v[near]
    weight = scores.masked_fill(~allowed, -math.inf).logsumexp(-1)
    weight = weight.flatten(1).gather(1, place)  # (rounds T)
    output = output.flatten(1, 2).gather(1, place[..., None].expand(-1, -1, v.shape[-1]))
    share = masked_softmax(weight.T, (weight > -math.inf).T).T
    return (share[..., None] * output).sum(0)


def pairs_of(i: Tensor, j: Tensor, bucket: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Whether a round finds the pair (i, j) in it, and how many of the rounds find this pair.

    `bucket` and `cell` say in each round where a position is: its bucket, its chunk.
    """
    rounds = []
    for b, c in zip(bucket, cell, strict=True):
        back = c[i] - c[j]  # how many chunks
        rounds.append((b[i] == b[j]) & ((back == 0) | (back == 1)))
    by_round = torch.stack(rounds)
    # Before the first chunk stands the last: too far away. If it is the first itself, every pair is
    # there twice, which changes no average.
    return by_round.diagonal().movedim(-1, 0), by_round.sum(0).clamp(min=1)
