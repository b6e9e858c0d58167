"""Explorable: a transformer block on three tokens, step by step, with and without its stream."""

import random
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention, attend, scaled_dot_scores
from attnbook.block import Block, PostNorm, PreNorm
from attnbook.feedforward import MLP
from attnbook.norms import LayerNorm
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number, power

TOKENS = ((1.0, 0.0, 2.0, 0.0), (0.0, 1.0, 0.0, 2.0), (1.0, 1.0, 1.0, 0.0))
DEPTH = 12
NORMS = ("before", "after", "none")


class BlockWalk(Explorable):
    """Three tokens of width 4 through norm, attention, norm and network, one step at a time.

    The weights are those of chapter 6: sines, two heads, 4 → 16 → 4. `x` (3, 4) are the tokens,
    `token` (1 to 3) the one that is followed, `norm` stands "before" a part, "after" it, or is
    "none". The curve shows, for up to 12 equal blocks, what share of the vectors differs between
    the tokens, with the residual stream and without; `depth` is where its marker starts.
    """

    tag = "block"
    needs = ("maths", "axis")
    near = 1e-7  # twelve blocks, one after the other

    def __init__(
        self, x: Tensor | None = None, token: int = 2, norm: str = "before", depth: int = 8
    ):
        self.x = torch.tensor(TOKENS) if x is None else x.detach()
        if tuple(self.x.shape) != (3, 4) or self.x.abs().max() > 3:
            raise ValueError(f"x is (3, 4) with numbers from −3 to 3; got {tuple(self.x.shape)}")
        if norm not in NORMS:
            raise ValueError(f"norm is one of {', '.join(NORMS)}; got {norm!r}")
        if not 1 <= token <= 3 or not 1 <= depth <= DEPTH:
            raise ValueError(f"token is 1 to 3, depth 1 to {DEPTH}; got {token} and {depth}")
        self.token, self.norm, self.depth = token, norm, depth

    @property
    def question(self) -> str:
        return f"What does a block add to token {self.token}?"

    def start(self) -> dict:
        x = [[round(value, 6) for value in row] for row in self.x.tolist()]
        settings = {"token": self.token, "norm": self.norm, "depth": self.depth}
        return {"x": x, **settings, "step": "add1", "stream": True}

    def result(self, state: dict) -> dict:
        """Every tensor on the way through one block, and the spreads over twelve."""
        x = torch.tensor([state["x"]], dtype=torch.float64)
        norm, stream = state["norm"], state["stream"]
        with torch.no_grad():
            steps = walk(x, norm, stream)
            found = {name: tensor[0].tolist() for name, tensor in steps.items() if name != "heads"}
            found["heads"] = [
                {name: tensor[0, h].tolist() for name, tensor in steps["heads"].items()}
                for h in range(2)
            ]
            found["kept"] = spreads(x, wrapped(norm, True))
            found["lost"] = spreads(x, wrapped(norm, False))
        return found

    def cases(self) -> Iterator[dict]:
        for norm in NORMS:
            for stream in (True, False):
                yield {"norm": norm, "stream": stream, "step": "add1"}
        yield {"x": [[0.0] * 4] * 3}
        pick = random.Random(0)
        for _ in range(30):
            x = [[pick.randint(-30, 30) / 10 for _ in range(4)] for _ in range(3)]
            yield {"x": x, "norm": pick.choice(NORMS), "stream": pick.random() < 0.5}

    def picture(self) -> str:
        """What was there, what attention adds, and their sum; the two curves below."""
        now, t = self.result(self.start()), self.token - 1
        rows = (("x", "x", "state"), ("+ attention", "mixed", "weight"), ("=", "first", "output"))
        label = "; ".join(f"{name} {[round(x, 2) for x in now[key][t]]}" for name, key, _ in rows)
        picture = Still(400, 270, f"token {self.token}: {label}")
        for y, (name, key, role) in enumerate(rows):
            picture.text(110, 36 * y + 22, name, role, "end", bold=True)
            for i, x in enumerate(now[key][t]):
                picture.cell(120 + 62 * i, 36 * y, 58, 32, role, abs(x) / 2, number(x))
        picture.text(36, 134, "what differs between the tokens", "muted", "start", 12)
        for y in (0, 1):
            picture.text(28, 244 - 90 * y, y, "muted", "end", 12)
            picture.line([(36, 240 - 90 * y), (372, 240 - 90 * y)])
        for key, role, name in (("kept", "state", "with stream"), ("lost", "gradient", "without")):
            points = [(36 + 28 * n, 240 - 90 * min(1, s)) for n, s in enumerate(now[key])]
            picture.line(points, role, 3)
            x, y = (200, points[6][1] - 10) if key == "kept" else (160, 234)
            picture.text(x, y, name, role, "start", 13, bold=True)
        picture.text(204, 262, "0 to 12 blocks", "muted", size=12)
        return picture.svg()

    def sentence(self) -> str:
        now, t = self.result(self.start()), self.token - 1
        added = ", ".join(f"{x:.2f}" for x in now["mixed"][t]).replace("-", "−")
        kept, lost = power(now["kept"][self.depth]), power(now["lost"][self.depth])
        return (
            f"Attention adds ({added}) to token {self.token}, and what was there stays in the "
            f"sum. After {self.depth} block{'s' if self.depth > 1 else ''} {kept} of the vectors "
            f"differs between tokens; without the stream {lost}."
        )


def parts() -> tuple[MultiHeadAttention, MLP]:
    """Attention and network of chapter 6 in float64: matrix n holds sin(0), sin(n), sin(2n) …"""
    attention, network = MultiHeadAttention(4, heads=2).double(), MLP(4, 16).double()
    with torch.no_grad():
        for n, matrix in enumerate([*attention.parameters(), *network.parameters()], 1):
            places = torch.arange(matrix.numel(), dtype=torch.float64)
            matrix.copy_(places.mul(n).sin().view_as(matrix) / 2)
    return attention, network


class Replace(nn.Module):
    """A part without a way around it: only what it found goes on."""

    def __init__(self, sublayer: nn.Module, before: nn.Module, after: nn.Module):
        super().__init__()
        self.sublayer, self.before, self.after = sublayer, before, after

    def forward(self, x: Tensor, *given: object, **named: object) -> Tensor:
        """The part's answer to a normalised copy, or its answer normalised."""
        return self.after(self.sublayer(self.before(x), *given, **named))


def wrapped(norm: str, stream: bool) -> Block:
    """The block with its norms before, after or nowhere, with the stream or without."""
    made = [LayerNorm(4).double() if norm != "none" else nn.Identity() for _ in range(2)]
    if stream:
        wrap = PostNorm if norm == "after" else PreNorm
        return Block(*(wrap(part, n) for part, n in zip(parts(), made, strict=True)))
    same = nn.Identity()
    places = [(same, n) if norm == "after" else (n, same) for n in made]
    return Block(*(Replace(part, *at) for part, at in zip(parts(), places, strict=True)))


def walk(x: Tensor, norm: str, stream: bool) -> dict:
    """One block by hand: each tensor between two steps."""
    attention, network = parts()
    standard, same = LayerNorm(4).double(), nn.Identity()
    before = standard if norm == "before" else same
    after = standard if norm == "after" else same
    seen = before(x)
    q, k, v = attention.project(seen)
    output, weights = attend(q, k, v)
    heads = {"scores": scaled_dot_scores(q, k), "weights": weights, "output": output}
    mixed = attention.to_out(output.transpose(1, 2).flatten(2))
    first = x + mixed if stream else mixed
    z = after(first)
    seen2 = before(z)
    raw = network.up(seen2)
    wide = network.activation(raw)
    thought = network.down(wide)
    second = z + thought if stream else thought
    steps = {"x": x, "seen": seen, "heads": heads, "mixed": mixed, "first": first, "z": z}
    late = {"seen2": seen2, "raw": raw, "wide": wide, "thought": thought, "second": second}
    return {**steps, **late, "y": after(second)}


def spreads(x: Tensor, block: nn.Module) -> list[float]:
    """What share of the vectors differs between the tokens, after 0 … 12 equal blocks."""
    found = []
    for _ in range(DEPTH + 1):
        size = x.norm() if x.norm() > 0 else torch.ones(())
        found.append(((x - x.mean(-2, keepdim=True)).norm() / size).item())
        x = block(x)
    return found
