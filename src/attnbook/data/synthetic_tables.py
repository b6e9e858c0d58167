"""Tables that nobody measured: each from a random function, for a model that learns to read tables.

A prior over tables, after Hollmann et al. 2023: small random networks, whose inputs, hidden values
and outputs may all be columns, so that a column may be a cause of the label or an effect of it.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

HIDDEN, LAYERS = 12, 3


class Tables(NamedTuple):
    """Columns, zeros behind each table's last, and labels; how many of each a table has."""

    x: Float[Tensor, "B T columns"]
    y: Int[Tensor, "B T"]
    columns: Int[Tensor, " B"]
    classes: Int[Tensor, " B"]


def bend(h: Float[Tensor, "B T H"], kind: Int[Tensor, " B"]) -> Float[Tensor, "B T H"]:
    """One of five activation functions for each table."""
    every = torch.stack((h, h.tanh(), h.relu(), (2 * h).sin(), h.abs()))
    return every[kind, torch.arange(len(h))]


def level(h: Float[Tensor, "B T H"]) -> Float[Tensor, "B T H"]:
    """Mean 0 and deviation 1 in every column of a table."""
    std = h.std(1, keepdim=True)
    return (h - h.mean(1, keepdim=True)) / std.where(std > 1e-6, 1)


def draw_tables(
    B: int, T: int, generator: torch.Generator, most_columns: int = 10, most_classes: int = 3
) -> Tables:
    """`B` tables of `T` rows.

    A third each: the label is a function of the columns; it is one value inside a random network,
    as the columns are; it comes first, and the columns follow from it.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def whole(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=generator)

    columns, classes = whole(2, most_columns, B), whole(2, most_classes, B)
    way = whole(0, 2, B)[:, None, None]
    of_columns, first = way == 0, way == 2
    # what the network reads: noise, normal or uniform; around one of up to six centres if first
    noise = torch.where(uniform(B, 1, 1) < 0.5, normal(B, T, HIDDEN), 4 * uniform(B, T, HIDDEN) - 2)
    centre = (whole(0, 5, B, T) % (classes * whole(1, 2, B))[:, None]).long()
    centres = normal(B, 6, HIDDEN) * (0.5 + 2.5 * uniform(B, 1, 1))
    causes = torch.where(of_columns, columns[:, None, None], whole(2, HIDDEN, B)[:, None, None])
    h = noise + first * centres.gather(1, centre[..., None].expand(-1, -1, HIDDEN))
    h = torch.where(torch.arange(HIDDEN) < causes, level(h), 0)
    values, depth = [h], whole(1, LAYERS, B)[:, None, None]
    for layer in range(LAYERS):
        kept = uniform(B, HIDDEN, HIDDEN) < 0.3 + 0.7 * uniform(B, 1, 1)
        W = normal(B, HIDDEN, HIDDEN) * kept
        into = h @ W / (h.square().mean((1, 2), keepdim=True) * HIDDEN).sqrt()
        new = bend(into * (0.5 + 2 * uniform(B, 1, 1)) + normal(B, 1, HIDDEN), whole(0, 4, B))
        rough = normal(B, T, HIDDEN) * 0.3 * uniform(B, 1, 1) * ~of_columns
        h = torch.where(layer < depth, level(new) + rough, h)
        values.append(h)
    nodes = torch.cat(values, 2)  # (B, T, (LAYERS + 1)·HIDDEN)
    # the label: a value cut into pieces, or the largest of several values
    last = LAYERS * HIDDEN
    target = nodes[..., last : last + most_classes] + normal(B, T, most_classes) * (
        0.7 * uniform(B, 1, 1).square()
    )
    cuts = (0.15 + 0.7 * uniform(B, most_classes - 1)).sort(1).values
    cuts = torch.where(torch.arange(1, most_classes) < classes[:, None], cuts, 2)
    rank = target[..., 0].argsort(1).argsort(1) / T
    pieces = (rank[..., None] > cuts[:, None]).sum(-1)
    there = torch.arange(most_classes) < classes[:, None, None]
    largest = target.masked_fill(~there, -torch.inf).argmax(-1)
    y = torch.where(uniform(B, 1) < 0.5, pieces, largest)
    y = torch.where(first[..., 0], centre % classes[:, None], y)
    name = uniform(B, most_classes).masked_fill(~there[:, 0], 2).argsort(1).argsort(1)
    y = name.gather(1, y)
    # the columns: what the network read, or any values before the last layer's first ones, which
    # make the label (a shallow network repeats its last layer, so a copy may be a column)
    taken = uniform(B, nodes.shape[2])
    taken[:, last : last + most_classes] += 2
    taken = torch.where(
        of_columns[:, 0], torch.arange(nodes.shape[2]).expand(B, -1), taken.argsort(1)
    )[:, :most_columns]
    x = nodes.gather(2, taken[:, None].expand(-1, T, -1))
    warp = uniform(B, 1, most_columns)  # some columns are skewed, some are whole numbers
    x = torch.where(warp < 0.15, x.clamp(max=4).exp(), torch.where(warp > 0.9, x.round(), x))
    x = torch.where(torch.arange(most_columns) < columns[:, None, None], x, 0)
    return Tables(x, y, columns, classes)
