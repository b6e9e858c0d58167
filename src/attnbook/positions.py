"""Positions: attention itself cannot tell first from last; these say where a token stands.

Added to the tokens' vectors: `Sinusoidal`, `Learned`. Added to the scores: `RelativeBias`, `Alibi`.
Turning queries and keys: `Rotary`.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.frequencies import frequencies
from attnbook.masks import at_least_one, check_last
from attnbook.rotary import Rotary as Rotary  # taught as one of the ways to say a position
from attnbook.step import once

Where = int | Int[Tensor, " _"]  # how many, or the positions themselves


def sinusoidal(
    positions: Float[Tensor, "*batch T"] | Int[Tensor, "*batch T"],
    width: int,
    base: float = 10_000.0,
) -> Float[Tensor, "*batch T C"]:
    """A position as the hands of width/2 clocks: sine in even coordinates, cosine in odd ones.

    Vaswani et al. 2017, section 3.5.
    """
    angles = positions[..., None] * frequencies(width, base, positions.device)  # (… T C/2)
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


class Weightless(nn.Module):
    """A part without weights that still knows its device and its precision."""

    here: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("here", torch.zeros(()), persistent=False)

    def _load_from_state_dict(self, *what: object) -> None:
        """A model built without memory (meta) that is assigned weights has a place from then on."""
        if self.here.is_meta:
            self.here = torch.zeros_like(self.here, device=torch.get_default_device())
        super()._load_from_state_dict(*what)


class Sinusoidal(Weightless):
    """`sinusoidal` for positions start, start + 1, …: nothing to learn, no longest sequence."""

    limit = None

    def __init__(self, width: int, base: float = 10_000.0):
        super().__init__()
        self.width, self.base = width, base
        frequencies(width, base)  # says at once if the width is odd

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        return self.at(torch.arange(start, start + T, device=self.here.device))

    def at(self, positions: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T C"]:
        """The same for any positions, such as those of rows that are padded on the left."""
        return sinusoidal(positions, self.width, self.base).to(self.here.dtype)


class Learned(nn.Module):
    """One learned vector per position, up to a longest sequence: beyond it nothing was learned."""

    def __init__(self, limit: int, width: int):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(limit, width))

    @property
    def limit(self) -> int:
        """How many positions there are."""
        return len(self.table)

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        if start + T > len(self.table):
            raise ValueError(
                f"a sequence of {start + T} tokens is longer than the table of {len(self.table)} "
                "positions"
            )
        return self.table[start : start + T]

    def at(self, positions: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T C"]:
        """The vectors of any positions, such as those of rows that are padded on the left."""
        try:
            return F.embedding(positions, self.table)
        except IndexError as error:
            raise ValueError(
                f"positions {int(positions.min())} to {int(positions.max())} are not all in the "
                f"table of {len(self.table)} positions"
            ) from error


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

    def forward(self, queries: Where, keys: Where) -> Float[Tensor, "H Tq Tk"]:
        """For so many queries, the last of so many keys; or for queries and keys at positions."""
        device = self.table.device
        key = ("buckets", queries, keys, len(self.table), self.limit, self.both_ways, device)
        rows = once(key, lambda: self.bucket(distances(queries, keys, device)))
        return self.table[rows].permute(2, 0, 1)


class Alibi(Weightless):
    """A penalty that grows with the distance, steeper in one head than in the next; not learned.

    Press et al. 2022, section 3: slopes 2^(−8/H), 2^(−16/H), … for H heads. If H is no power of 2,
    `published` has the slopes of the published models: those of the power of 2 below H, then every
    other one of the next power, as in the authors' code and in BLOOM.
    """

    def __init__(self, heads: int, published: bool = False):
        super().__init__()
        self.heads, self.rule = heads, published_slopes if published else alibi_slopes
        self.rule(heads)  # says at once if there is no head

    @property
    def slopes(self) -> Float[Tensor, " H"]:
        """How much one position of distance costs in each head; computed, so never loaded."""
        return self.rule(self.heads, self.here.device).to(self.here.dtype)

    def forward(self, queries: Where, keys: Where) -> Float[Tensor, "H Tq Tk"]:
        """For so many queries, the last of so many keys; or for queries and keys at positions."""
        distance = distances(queries, keys, self.here.device).abs()
        return -self.slopes[:, None, None] * distance


def alibi_slopes(heads: int, device: torch.device | None = None) -> Float[Tensor, " H"]:
    """2^(−8/H), 2^(−16/H), …, 2^(−8). Press et al. 2022, section 3."""
    at_least_one("a number of heads", heads)
    return 2.0 ** (-8 * torch.arange(1, heads + 1, device=device, dtype=torch.float32) / heads)


def published_slopes(heads: int, device: torch.device | None = None) -> Float[Tensor, " H"]:
    """The slopes of published models, also if the number of heads is no power of 2."""
    at_least_one("a number of heads", heads)
    power = 2 ** int(math.log2(heads))
    between = alibi_slopes(2 * power, device)[::2][: heads - power]
    return torch.cat((alibi_slopes(power, device), between))


def distances(
    queries: Where, keys: Where, device: torch.device | None = None
) -> Int[Tensor, "Tq Tk"]:
    """The key's position minus the query's: for so many queries, the last of so many keys, or for
    queries and keys at positions."""
    if isinstance(keys, Tensor) and isinstance(queries, Tensor):
        return keys - queries[:, None]
    if isinstance(keys, Tensor) or isinstance(queries, Tensor):
        raise ValueError("give the number of queries and of keys, or the positions of both")
    check_last(queries, keys)
    key = torch.arange(keys, device=device)
    return key - key[keys - queries :, None]
