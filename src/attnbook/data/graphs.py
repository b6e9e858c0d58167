"""Small graphs in which all nodes have three neighbours, and a question that needs the edges.

Nodes are people, edges are friendships. Whoever only counts neighbours sees no difference between
two people; whoever knows which of them have friends in common does.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Friends(NamedTuple):
    """Graphs, what each person drinks, and how many friends fit the question."""

    adjacency: Bool[Tensor, "B N N"]
    tea: Bool[Tensor, "B N"]
    answer: Int[Tensor, "B N"]


def cubic(B: int, N: int) -> Callable[[torch.Generator], Bool[Tensor, "B N N"]]:
    """A sampler of `B` graphs of `N` nodes, each with three neighbours: a ring and chords.

    Each node has one chord, to any node that is not its neighbour on the ring; then the nodes are
    numbered anew, so that a number says nothing.
    """
    if B < 1:
        raise ValueError(f"a batch holds at least 1 graph, not {B}")
    if N < 4 or N % 2:
        raise ValueError(f"chords join nodes in pairs, 4 nodes at least; not {N}")

    def sample(generator: torch.Generator) -> Bool[Tensor, "B N N"]:
        good = torch.empty(0, N // 2, 2, dtype=torch.long)
        while len(good) < B:
            ends = torch.rand(4 * B, N, generator=generator).argsort(1).view(4 * B, -1, 2)
            apart = (ends[..., 0] - ends[..., 1]) % N
            good = torch.cat((good, ends[((apart > 1) & (apart < N - 1)).all(1)]))
        adjacency = ring(N).repeat(B, 1, 1)
        one, other = good[:B].unbind(-1)
        adjacency[torch.arange(B)[:, None], one, other] = True
        adjacency |= adjacency.mT.clone()
        return renumbered(adjacency, torch.rand(B, N, generator=generator).argsort(1))

    return sample


def friends(B: int, N: int = 12) -> Callable[[torch.Generator], Friends]:
    """A sampler of `B` `cubic` graphs whose people drink tea or coffee, with equal chances.

    The answer at each node: how many of my friends drink tea and are on a triangle? From 0 to 3.
    """
    graphs = cubic(B, N)

    def sample(generator: torch.Generator) -> Friends:
        adjacency = graphs(generator)
        tea = torch.rand(B, N, generator=generator) < 0.5
        wanted = (tea & on_triangle(adjacency)).long()
        return Friends(adjacency, tea, (adjacency.long() * wanted[:, None]).sum(-1))

    return sample


def ring(N: int) -> Bool[Tensor, "N N"]:
    """Node i is joined to i + 1, the last one to the first."""
    if N < 3:
        raise ValueError(f"a ring has at least 3 nodes, not {N}")
    forward = torch.eye(N, dtype=torch.bool).roll(1, 1)
    return forward | forward.T


def renumbered(
    adjacency: Bool[Tensor, "B N N"], order: Int[Tensor, "B N"]
) -> Bool[Tensor, "B N N"]:
    """The same graphs with other numbers: new node i is old node `order[i]`."""
    rows = adjacency.gather(1, order[:, :, None].expand_as(adjacency))
    return rows.gather(2, order[:, None, :].expand_as(adjacency))


def on_triangle(adjacency: Bool[Tensor, "*batch N N"]) -> Bool[Tensor, "*batch N"]:
    """Which nodes have two neighbours that are neighbours of each other?"""
    steps = adjacency.float()
    return (steps @ steps @ steps).diagonal(dim1=-2, dim2=-1) > 0.5


def walk_returns(
    adjacency: Bool[Tensor, "*batch N N"], steps: int
) -> Float[Tensor, "*batch N steps"]:
    """How probably is a random walk back where it began, after 1, 2, … `steps` steps?

    One vector per node, the same however the nodes are numbered. Dwivedi et al. 2022, "RWPE".
    """
    if steps < 1:
        raise ValueError(f"a walk has at least 1 step, not {steps}")
    once = adjacency / adjacency.sum(-1, keepdim=True).clamp(min=1)
    walk, back = once, []
    for _ in range(steps):
        back.append(walk.diagonal(dim1=-2, dim2=-1))
        walk = walk @ once
    return torch.stack(back, -1)


def laplacian_vectors(adjacency: Bool[Tensor, "*batch N N"], k: int) -> Float[Tensor, "*batch N k"]:
    """The k slowest waves on a graph: eigenvectors of degree − adjacency, without the constant one.

    Each is of length 1 and known up to its sign only; with equal eigenvalues not even that.
    Dwivedi and Bresson 2021 (there of the normalised matrix).
    """
    N = adjacency.shape[-1]
    if not 1 <= k < N:
        raise ValueError(f"a graph of {N} nodes has {N - 1} such vectors, not {k}")
    edges = adjacency.float()
    return torch.linalg.eigh(torch.diag_embed(edges.sum(-1)) - edges).eigenvectors[..., 1 : k + 1]
