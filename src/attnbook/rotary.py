"""Rotary positions: queries and keys are turned, so that their product knows the distance."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.frequencies import frequencies as plain
from attnbook.step import once

Rotate = Callable[
    [Float[Tensor, "*batch T D"], int | Int[Tensor, "..."]], Float[Tensor, "*batch T D"]
]
Two = tuple[Float[Tensor, "*batch half"], Float[Tensor, "*batch half"]]


class Pairs(NamedTuple):
    """Which coordinates are a pair: how they are taken apart, and put together again."""

    split: Callable[[Float[Tensor, "*batch D"]], Two]
    join: Callable[[Two], Float[Tensor, "*batch D"]]


def split_halves(x: Float[Tensor, "*batch D"]) -> Two:
    first, second = x.chunk(2, -1)
    return first, second


def join_halves(pair: Two) -> Float[Tensor, "*batch D"]:
    return torch.cat(pair, -1)


def split_neighbours(x: Float[Tensor, "*batch D"]) -> Two:
    return x[..., ::2], x[..., 1::2]


def join_neighbours(pair: Two) -> Float[Tensor, "*batch D"]:
    return torch.stack(pair, -1).flatten(-2)


halves = Pairs(split_halves, join_halves)  # i and i + D/2, as Llama and GPT-NeoX
neighbours = Pairs(split_neighbours, join_neighbours)  # 2i and 2i + 1, as the paper and GPT-J


class Rotary(nn.Module):
    """Turns pairs of coordinates by an angle proportional to the position.

    The dot product of a turned query and a turned key depends on their distance only. `frequencies`
    says how fast each pair turns, if not as `base` says; with fewer than D/2 of them only the first
    coordinates turn. `pairs` says which coordinates are a pair: i and i + D/2 (`halves`), or
    `neighbours` as in the paper. `scale` multiplies what is turned (YaRN's temperature). Su et al.
    2021, section 3.2.
    """

    def __init__(
        self,
        D: int,
        base: float = 10_000.0,
        frequencies: Float[Tensor, " half"] | None = None,
        pairs: Pairs = halves,
        scale: float = 1.0,
    ):
        super().__init__()
        speed = plain(D, base, torch.device("cpu")) if frequencies is None else frequencies
        if not 1 <= len(speed) <= D // 2:
            raise ValueError(f"{len(speed)} pairs cannot turn in heads of width {D}")
        # Numbers, not a tensor: they are float32 and right whatever a model is moved or loaded to.
        self.frequencies = tuple(speed.float().tolist())
        self.D, self.base, self.pairs, self.scale = D, base, pairs, scale

    def forward(
        self, x: Float[Tensor, "*batch T D"], start: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "*batch T D"]:
        """`start` is the position of the first, or the positions of all: (T,), or (B, T) for rows
        that differ."""
        T, D = x.shape[-2:]
        if D != self.D:
            raise ValueError(f"heads have width {D}, this rotation has width {self.D}")
        key = self, start, T, x.dtype, x.device
        cos, sin = once(key, lambda: self.tables(start, T, x))
        if cos.dim() == 3 and x.dim() == 4:  # a row's positions are those of all its heads
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        turning = 2 * len(self.frequencies)
        a, b = self.pairs.split(x[..., :turning])
        turned = self.pairs.join((a * cos - b * sin, b * cos + a * sin))
        return turned if turning == D else torch.cat((turned, x[..., turning:]), -1)

    def angles(self, positions: Int[Tensor, "*rows T"]) -> Float[Tensor, "*rows T half"]:
        """By how much each pair is turned, in radians, in float32."""
        speed = torch.tensor(self.frequencies, dtype=torch.float32, device=positions.device)
        return positions[..., None] * speed

    def tables(self, start: int | Tensor, T: int, like: Tensor) -> Two:
        """Cosine and sine for each position and pair, in the precision of what is turned."""
        angles = self.angles(positions_from(start, like))
        return (self.scale * angles.cos()).to(like.dtype), (self.scale * angles.sin()).to(
            like.dtype
        )


class Tempered(nn.Module):
    """Queries grow with their position i, times 1 + `strength` · ln(1 + ⌊(i + 1) / `every`⌋), so
    that scores stay as sharp among more and more keys. Keys stay as they are.

    Both are turned by `rotate` first, if there is one; no other rotation stands around this. Meta
    2025 (Llama 4), in layers that turn nothing, after Nakanishi 2025, "Scalable-softmax".
    """

    def __init__(self, every: int = 8192, strength: float = 0.1, rotate: Rotate | None = None):
        super().__init__()
        if every < 1:
            raise ValueError(f"queries grow every 1 position or more; got {every}")
        self.every, self.strength, self.rotate = every, strength, rotate

    def forward(
        self, x: Float[Tensor, "*batch T D"], start: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "*batch T D"]:
        """What is done to keys, and to queries first; `start` as in `Rotary`."""
        return x if self.rotate is None else self.rotate(x, start)

    def grow(
        self, q: Float[Tensor, "*batch T D"], start: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "*batch T D"]:
        """What is done to queries alone."""
        at = positions_from(start, q)
        factor = 1 + self.strength * torch.log1p(((at + 1) // self.every).float())
        factor = factor.unsqueeze(1) if factor.dim() == 2 and q.dim() == 4 else factor
        return q * factor.to(q.dtype).unsqueeze(-1)


def grown(
    rotate: Rotate | None, q: Float[Tensor, "*batch T D"], start: int | Int[Tensor, "..."]
) -> Float[Tensor, "*batch T D"]:
    """Queries as `rotate` lets them grow, if it is one that does."""
    grow: Rotate | None = getattr(rotate, "grow", None)
    return q if grow is None else grow(q, start)


def positions_from(start: int | Int[Tensor, "..."], x: Float[Tensor, "*batch T D"]) -> Tensor:
    """The positions of x, if `start` is that of the first, or these positions themselves."""
    if isinstance(start, Tensor) and start.dim() > 0:
        return start
    return start + torch.arange(x.shape[-2], device=x.device)


class Rotary2d(Rotary):
    """Turns by place in a picture: half of the pairs by row, half by column.

    Tokens are the places of a grid of (rows, columns), row by row, after `extra` tokens that stand
    nowhere and are not turned (class token, registers). Heo et al. 2024, section 3.1, "axial".
    """

    def __init__(
        self,
        D: int,
        grid: tuple[int, int],
        base: float = 100.0,
        frequencies: Float[Tensor, " quarter"] | None = None,
        pairs: Pairs = halves,
        extra: int = 0,
    ):
        if D % 4:
            raise ValueError(f"row and column need pairs each: width {D} is not 4 × something")
        speed = plain(D // 2, base, torch.device("cpu")) if frequencies is None else frequencies
        super().__init__(D, base, torch.cat((speed, speed)), pairs)
        self.grid, self.extra = grid, extra

    def angles(self, positions: Int[Tensor, "*rows T"]) -> Float[Tensor, "*rows T half"]:
        places = (positions - self.extra).clamp(min=0)[..., None]
        where = torch.cat((places // self.grid[1], places % self.grid[1]), -1)
        by_pair = where.repeat_interleave(len(self.frequencies) // 2, -1)  # rows, then columns
        speed = torch.tensor(self.frequencies, dtype=torch.float32, device=positions.device)
        return by_pair * speed * (positions >= self.extra)[..., None]
