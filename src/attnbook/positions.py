"""Positions: attention itself cannot tell first from last; these say where a token stands.

Added to the tokens' vectors: `Sinusoidal`, `Learned`. Added to the scores: `RelativeBias`, `Alibi`.
Turning queries and keys: `Rotary`.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


def frequencies(
    width: int, base: float = 10_000.0, device: torch.device | None = None
) -> Float[Tensor, " half"]:
    """How fast each pair of coordinates turns, in radians a position: 1 down to nearly 1/base.

    Vaswani et al. 2017, section 3.5.
    """
    if width < 2 or width % 2:
        raise ValueError(f"sine and cosine come in pairs: the width is even, not {width}")
    return base ** (-torch.arange(0, width, 2, device=device) / width)


def sinusoidal(
    positions: Float[Tensor, " T"] | Int[Tensor, " T"], width: int, base: float = 10_000.0
) -> Float[Tensor, "T C"]:
    """A position as the hands of width/2 clocks: sine in even coordinates, cosine in odd ones.

    Vaswani et al. 2017, section 3.5.
    """
    angles = positions[:, None] * frequencies(width, base, positions.device)  # (T C/2)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def sinusoidal_2d(rows: int, columns: int, width: int) -> Float[Tensor, "P C"]:
    """A place in a picture, row by row: half of the width is the row, the other half the column."""
    if width % 4:
        raise ValueError(
            f"row and column need an even half each: width {width} is not 4 × something"
        )
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    half = width // 2
    return torch.cat((sinusoidal(row.flatten(), half), sinusoidal(column.flatten(), half)), -1)


def resized(
    table: Float[Tensor, "P C"], old: tuple[int, int], new: tuple[int, int]
) -> Float[Tensor, "Q C"]:
    """A table learned on a grid of `old` (rows, columns), interpolated for a grid of `new` ones.

    Dosovitskiy et al. 2021, section 3.2.
    """
    if len(table) != old[0] * old[1]:
        raise ValueError(f"a grid of {old[0]} × {old[1]} has no {len(table)} places")
    grid = table.T.reshape(1, -1, *old)
    return F.interpolate(grid, new, mode="bicubic", antialias=True).flatten(2)[0].T


class Sinusoidal(nn.Module):
    """`sinusoidal` for positions start, start + 1, …: nothing to learn, no longest sequence."""

    def __init__(self, width: int, base: float = 10_000.0):
        super().__init__()
        self.width, self.base = width, base
        frequencies(width, base)  # says at once if the width is odd
        self.register_buffer("here", torch.zeros(0), persistent=False)  # device and dtype

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        positions = torch.arange(start, start + T, device=self.here.device)
        return sinusoidal(positions, self.width, self.base).to(self.here.dtype)


class Learned(nn.Module):
    """One learned vector a position, up to a longest sequence: beyond it nothing was learned."""

    def __init__(self, limit: int, width: int):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(limit, width))

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        if start + T > len(self.table):
            raise ValueError(
                f"a sequence of {start + T} tokens is longer than the table of {len(self.table)} "
                "positions"
            )
        return self.table[start : start + T]


class Rotary(nn.Module):
    """Turns pairs of coordinates by an angle proportional to the position.

    The dot product of a turned query and a turned key depends on their distance only. Coordinate i
    is paired with i + D/2. Su et al. 2021, section 3.2 (there the pairs are neighbours).
    """

    def __init__(self, D: int, base: float = 10_000.0):
        super().__init__()
        self.D, self.base = D, base
        frequencies(D, base)  # says at once if the width is odd

    def forward(
        self, x: Float[Tensor, "*batch T D"], start: int = 0
    ) -> Float[Tensor, "*batch T D"]:
        T, D = x.shape[-2:]
        if D != self.D:
            raise ValueError(f"heads have width {D}, this rotation has width {self.D}")
        positions = torch.arange(start, start + T, device=x.device)
        angles = positions[:, None] * frequencies(D, self.base, x.device)  # (T D/2)
        a, b = x.chunk(2, -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class RelativeBias(nn.Module):
    """A learned number for each head and distance, added to the scores.

    Distances fall into buckets: one each when near, wider and wider when far, and one for all from
    `limit` on. Raffel et al. 2020, section 2.1; Shaw et al. 2018 had vectors instead of numbers.
    """

    def __init__(self, heads: int, buckets: int = 32, limit: int = 128, both_ways: bool = True):
        super().__init__()
        if buckets < 4 or buckets % 4:
            raise ValueError(
                f"buckets divide into near and far, before and after: {buckets} do not"
            )
        near = buckets // (4 if both_ways else 2)
        if limit <= near:
            raise ValueError(f"{near} near buckets already reach the limit of {limit}")
        self.table = nn.Parameter(torch.zeros(buckets, heads))
        self.limit, self.both_ways = limit, both_ways

    def bucket(self, distance: Int[Tensor, "Tq Tk"]) -> Int[Tensor, "Tq Tk"]:
        """Which row of the table a distance (key's position − query's position) uses."""
        buckets = len(self.table)
        first = torch.zeros_like(distance)
        if self.both_ways:  # half of the rows for keys that come later
            buckets //= 2
            first = first + buckets * (distance > 0)
            far = distance.abs()
        else:
            far = (-distance).clamp(min=0)
        near = buckets // 2
        ratio = (far.clamp(min=1) / near).log() / math.log(self.limit / near)
        wide = (near + (ratio * (buckets - near)).long()).clamp(max=buckets - 1)
        return first + torch.where(far < near, far, wide)

    def forward(self, Tq: int, Tk: int) -> Float[Tensor, "H Tq Tk"]:
        """The queries are the last Tq of the Tk positions."""
        return self.table[self.bucket(distances(Tq, Tk, self.table.device))].permute(2, 0, 1)


class Alibi(nn.Module):
    """A penalty that grows with the distance, steeper in one head than in the next; not learned.

    Press et al. 2022, section 3: slopes 2^(−8/H), 2^(−16/H), … for H heads.
    """

    def __init__(self, heads: int):
        super().__init__()
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, Tq: int, Tk: int) -> Float[Tensor, "H Tq Tk"]:
        """The queries are the last Tq of the Tk positions."""
        return -self.slopes[:, None, None] * distances(Tq, Tk, self.slopes.device).abs()


def distances(Tq: int, Tk: int, device: torch.device | None = None) -> Int[Tensor, "Tq Tk"]:
    """The key's position minus the query's; the queries are the last Tq of the Tk positions."""
    if Tk < Tq:
        raise ValueError(f"{Tq} queries cannot be the last of {Tk} positions")
    key = torch.arange(Tk, device=device)
    return key - key[Tk - Tq :, None]
