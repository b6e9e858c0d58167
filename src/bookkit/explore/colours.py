"""Explorable: two graphs, colours refined round by round, and attention along the edges."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import cos, pi, sin
from typing import Any

import torch
from torch import Tensor

from attnbook.attention import attend
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

Edges = list[tuple[int, int]]
Points = list[tuple[int, int]]

MOST = 4  # rounds, and layers
TOKENS = ("nothing", "degree", "walks", "numbers")
LOOKS = ("edges", "all")
ROLES = ("value", "query", "output", "key", "state", "position", "gradient", "weight")


def circle(N: int, x: int = 100, y: int = 100, r: int = 74, start: float = 0.0) -> Points:
    """N points around (x, y), the first one at the top, turned by `start` of a full turn."""
    turns = [2 * pi * (start + i / N) for i in range(N)]
    return [(round(x + r * sin(t)), round(y - r * cos(t))) for t in turns]


def around(*nodes: int) -> Edges:
    """Edges from each node to the next, the last one to the first."""
    return list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))


# name: two graphs, each as the places of its nodes and its edges
PAIRS: dict[str, tuple[tuple[Points, Edges], tuple[Points, Edges]]] = {
    "rings": (
        (circle(6), around(*range(6))),
        (
            circle(3, y=52, r=36) + circle(3, y=148, r=36, start=0.5),
            around(0, 1, 2) + around(3, 4, 5),
        ),
    ),
    "molecules": (
        (circle(10), [*around(*range(10)), (0, 5)]),
        (
            circle(5, y=46, r=34, start=0.5) + circle(5, y=154, r=34),
            around(0, 1, 2, 3, 4) + around(5, 6, 7, 8, 9) + [(0, 5)],
        ),
    ),
    "path and star": (
        ([(25, 100), (75, 100), (125, 100), (175, 100)], [(0, 1), (1, 2), (2, 3)]),
        ([(100, 100), *circle(3)], [(0, 1), (0, 2), (0, 3)]),
    ),
    "one, renumbered": (
        (circle(6), around(*range(6))),
        ([circle(6)[place] for place in (0, 3, 1, 4, 2, 5)], around(0, 2, 4, 1, 3, 5)),
    ),
}
WEIGHTS = [[round(sin(5 * i + j + 1), 2) for j in range(5)] for i in range(5)]


def adjacency(edges: Edges) -> Tensor:
    """Who is joined to whom, (N, N), in double precision."""
    N = 1 + max(max(edge) for edge in edges)
    A = torch.zeros(N, N, dtype=torch.float64)
    one, other = torch.tensor(edges).T
    A[one, other] = A[other, one] = 1
    return A


def tokens(A: Tensor, kind: str) -> Tensor:
    """A vector of five numbers for each node: a one, and what it is told of itself."""
    N = len(A)
    x = torch.zeros(N, 5, dtype=torch.float64)
    x[:, 0] = 1
    if kind == "degree":
        x[:, 1] = A.sum(1)
    elif kind == "walks":
        step = A / A.sum(1, keepdim=True)
        powers = [torch.linalg.matrix_power(step, k).diagonal() for k in range(2, 6)]
        x[:, 1:] = torch.stack(powers, 1)
    elif kind == "numbers":
        angle = [2 * pi * i / N for i in range(N)]
        x[:, 1:3] = x.new_tensor([[cos(a), sin(a)] for a in angle])
    return x


def ranked(signatures: list[list[tuple[int, ...]]]) -> list[list[int]]:
    """Numbers from 0 for the different signatures of both graphs, in their order."""
    order = {each: n for n, each in enumerate(sorted({s for of in signatures for s in of}))}
    return [[order[each] for each in of] for of in signatures]


def refined(graphs: list[Tensor], kind: str, rounds: int) -> list[list[int]]:
    """The colours of both graphs' nodes after so many rounds. Weisfeiler and Leman 1968."""
    told = [tokens(A, kind) for A in graphs]
    colours = ranked([[tuple(round(1e9 * v) for v in row) for row in x.tolist()] for x in told])
    near = [[row.nonzero()[:, 0].tolist() for row in A] for A in graphs]
    for _ in range(rounds):
        pairs = list(zip(near, colours, strict=True))
        seen = [
            [(own[i], *sorted(own[j] for j in of[i])) for i in range(len(of))] for of, own in pairs
        ]
        colours = ranked(seen)
    return colours


def answer(A: Tensor, kind: str, look: str, layers: int) -> Tensor:
    """The mean of what layers of attention with fixed weights make of the nodes, (5,)."""
    x, W = tokens(A, kind), torch.tensor(WEIGHTS, dtype=torch.float64)
    mask = A.bool() | torch.eye(len(A), dtype=torch.bool) if look == "edges" else None
    for _ in range(layers):
        x = x + torch.tanh(attend(x, x, x, mask)[0] @ W)
    return x.mean(0)


class ColourRefinement(Explorable):
    """Two graphs of PAIRS; colours after some `rounds`, and as many layers of attention.

    `tokens`, one of TOKENS, is what each node is told of itself at first; attention looks along the
    `edges` or at `all` nodes. Its weights are fixed numbers that nobody trained.
    """

    tag = "colours"
    needs = ("maths", "stepper")
    question = "Are these two graphs the same?"

    def __init__(
        self, pair: str = "rings", tokens: str = "nothing", look: str = "edges", rounds: int = 2
    ):
        if pair not in PAIRS or tokens not in TOKENS or look not in LOOKS:
            raise ValueError(
                f"pair is one of {', '.join(PAIRS)}, tokens one of {', '.join(TOKENS)}, look one "
                f"of {', '.join(LOOKS)}; got {pair!r}, {tokens!r}, {look!r}"
            )
        if not 0 <= rounds <= MOST:
            raise ValueError(f"rounds are 0 to {MOST}, not {rounds}")
        self.begin: dict[str, Any] = {"pair": pair, "tokens": tokens, "look": look}
        self.begin["rounds"] = rounds

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {"pairs": PAIRS, "weights": WEIGHTS, "roles": ROLES}

    def result(self, state: dict) -> dict:
        """Colours, the first round that tells the graphs apart or −1, the distance of answers."""
        graphs = [adjacency(edges) for _, edges in PAIRS[state["pair"]]]
        kind, rounds = state["tokens"], state["rounds"]
        after = [refined(graphs, kind, n) for n in range(len(graphs[0]) + 1)]
        apart = [n for n, (one, other) in enumerate(after) if Counter(one) != Counter(other)]
        one, other = (answer(A, kind, state["look"], rounds) for A in graphs)
        return {
            "colours": after[rounds],
            "apart": min(apart, default=-1),
            "gap": (one - other).abs().max().item(),
        }

    def cases(self) -> Iterator[dict]:
        for n, (pair, kind, look) in enumerate(product(PAIRS, TOKENS, LOOKS)):
            yield {"pair": pair, "tokens": kind, "look": look, "rounds": (n + 1) % (MOST + 1)}

    def picture(self) -> str:
        """Both graphs, each node with the number of its colour."""
        picture = Still(440, 200, self.sentence())
        colours = self.result(self.start())["colours"]
        for n, (at, edges) in enumerate(PAIRS[self.begin["pair"]]):
            for ends in edges:
                picture.line([(at[i][0] + 240 * n, at[i][1]) for i in ends], width=2)
            for (x, y), colour in zip(at, colours[n], strict=True):
                role = ROLES[colour % len(ROLES)]
                picture.add(
                    f'<circle cx="{x + 240 * n}" cy="{y}" r="16" style="fill:var(--d-paper)"/>'
                )
                picture.cell(x + 240 * n - 14, y - 14, 28, 28, role, 1, str(colour))
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        rounds, apart = state["rounds"], now["apart"]
        if apart < 0:
            colours = "Colours: the same in both, as often, and no further round changes that."
        elif rounds < apart:
            colours = f"Colours: still the same; round {apart} tells the graphs apart."
        else:
            since = f"since round {apart}" if apart else "in the tokens already"
            colours = f"Colours: they tell the graphs apart, {since}."
        whom = "along the edges" if state["look"] == "edges" else "at all nodes"
        layers = f"{rounds} layer{'' if rounds == 1 else 's'}"
        far = number(now["gap"], 3) if now["gap"] >= 5e-4 or now["gap"] < 1e-12 else "under .001"
        attention = f"Attention {whom}: after {layers} the answers are {far} apart."
        same = " But it is one graph." if state["pair"] == "one, renumbered" and apart >= 0 else ""
        return f"{colours} {attention}{same}"
