"""Positions: attention itself cannot tell first from last; these say where a token stands.

Added to the tokens' vectors: `Sinusoidal`, `Learned`. Added to the scores: `RelativeBias`, `Alibi`.
Turning queries and keys: `Rotary`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.checks import check_int
from attnbook.masks import check_last
from attnbook.memo import memoise

Frequencies = Float[Tensor, " half"]


def frequencies(
    width: int, base: float = 10_000.0, device: torch.device | None = None
) -> Frequencies:
    """How fast each pair of coordinates turns, in radians a position: 1 down to nearly 1/base.

    Vaswani et al. 2017, section 3.5.
    """
    if width < 2 or width % 2:
        raise ValueError(f"sine and cosine come in pairs: the width is even, not {width}")
    return base ** (-torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)


CPU = torch.device("cpu")  # a table is made there even if a model is built without memory


def linear(D: int, base: float = 10_000.0, factor: float = 1.0) -> Frequencies:
    """All pairs slowed down alike: position 8 is turned as position 8/`factor` was.

    Chen et al. 2023, "Extending context window of large language models via positional
    interpolation", equation 3.
    """
    check_factor(factor)
    return frequencies(D, base, CPU) / factor


def llama3(
    D: int,
    base: float = 500_000.0,
    factor: float = 8.0,
    low: float = 1.0,
    high: float = 4.0,
    trained: int = 8192,
) -> Frequencies:
    """Pairs that turned more than `high` times in the `trained` context stay as they are, those
    that turned fewer than `low` times are slowed by `factor`; in between it goes over smoothly.

    Grattafiori et al. 2024 (Llama 3.1); the numbers are those of its configuration.
    """
    check_factor(factor)
    speed = frequencies(D, base, CPU)
    turns = trained * speed / (2 * math.pi)
    stays = ((turns - low) / (high - low)).clamp(0, 1)
    return stays * speed + (1 - stays) * speed / factor


def yarn(
    D: int,
    base: float = 10_000.0,
    factor: float = 4.0,
    trained: int = 4096,
    fast: float = 32.0,
    slow: float = 1.0,
    whole: bool = True,
) -> Frequencies:
    """Pairs that turned more than `fast` times in the `trained` context stay as they are, those
    that turned fewer than `slow` times are slowed by `factor`; in between a straight line over the
    pairs.

    `whole` rounds the two ends of that line to whole pairs, as the published code does. The
    temperature that belongs to it is `yarn_temperature`. Peng et al. 2024, section 3.2.
    """
    check_factor(factor)

    def pair(turns: float) -> float:
        """The pair that turns so many times in the context."""
        return D * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair(fast), pair(slow)
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, D - 1)
    last = last + 0.001 if first == last else last
    slowed = (
        (torch.arange(D // 2, dtype=torch.float32, device=CPU) - first) / (last - first)
    ).clamp(0, 1)
    speed = frequencies(D, base, CPU)
    return (1 - slowed) * speed + slowed * speed / factor


def yarn_temperature(factor: float, strength: float = 1.0) -> float:
    """What queries and keys are multiplied with when the context is stretched by `factor`.

    Scores then grow by its square. Peng et al. 2024, equation 22: 0.1 ln(factor) + 1.
    """
    return 1.0 if factor <= 1 else 0.1 * strength * math.log(factor) + 1


def dynamic(
    length: int | Int[Tensor, ""],
    D: int,
    base: float = 10_000.0,
    factor: float = 2.0,
    trained: int = 2048,
) -> Frequencies:
    """A base that grows with a text's length once it is longer than the `trained` context: the
    slowest pairs are slowed most, the fastest hardly at all.

    "Dynamic NTK", Peng et al. 2024 (YaRN), section 3.3; the growth as in published code.
    """
    check_factor(factor)
    length = length if isinstance(length, Tensor) else torch.tensor(length, device=CPU)
    stretched = factor * length.float().clamp(min=trained) / trained - (factor - 1)
    slower = torch.arange(0, D, 2, dtype=torch.float32, device=length.device) / (2 - D)
    return frequencies(D, base, length.device) * stretched**slower


def longrope(D: int, factors: list[float], base: float = 10_000.0) -> Frequencies:
    """Each pair slowed by a factor of its own, found by a search: one list for texts up to the
    trained context, another for longer ones, between which `LongRotary` chooses.

    Its temperature is `longrope_temperature`. Ding et al. 2024, "LongRoPE", section 3.
    """
    if len(factors) != D // 2:
        raise ValueError(f"{D // 2} pairs turn, each with a factor of its own; got {len(factors)}")
    return frequencies(D, base, CPU) / torch.tensor(factors, dtype=torch.float32, device=CPU)


def longrope_temperature(factor: float, trained: int = 4096) -> float:
    """What queries and keys are multiplied with when the context is stretched by `factor`.

    Phi-3's published code: √(1 + ln(factor) / ln(trained)).
    """
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))


def check_factor(factor: float) -> None:
    """Raise a ValueError unless the context gets longer."""
    if factor < 1:
        raise ValueError(f"a context is stretched by a factor of at least 1; got {factor}")


Rotate = Callable[
    [Float[Tensor, "*batch T D"], int | Int[Tensor, "..."]], Float[Tensor, "*batch T D"]
]
Pair = tuple[Float[Tensor, "*batch half"], Float[Tensor, "*batch half"]]


class Pairs(NamedTuple):
    """Which coordinates are a pair: how they are taken apart, and put together again."""

    split: Callable[[Float[Tensor, "*batch D"]], Pair]
    join: Callable[[Pair], Float[Tensor, "*batch D"]]


def split_halves(x: Float[Tensor, "*batch D"]) -> Pair:
    """Coordinates 0 … D/2 − 1, and those D/2 further on."""
    first, second = x.chunk(2, -1)
    return first, second


def join_halves(pair: Pair) -> Float[Tensor, "*batch D"]:
    """The inverse of `split_halves`."""
    return torch.cat(pair, -1)


def split_neighbours(x: Float[Tensor, "*batch D"]) -> Pair:
    """Even coordinates, and the odd ones behind them."""
    return x[..., ::2], x[..., 1::2]


def join_neighbours(pair: Pair) -> Float[Tensor, "*batch D"]:
    """The inverse of `split_neighbours`."""
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
        speed = linear(D, base) if frequencies is None else frequencies
        if not 1 <= len(speed) <= D // 2:
            raise ValueError(f"{len(speed)} pairs cannot turn in heads of width {D}")
        # Numbers, no buffer: they are float32 and right whatever a model is moved or loaded to.
        self.frequencies = tuple(speed.float().tolist())
        self.speed = self.speed_on(CPU)  # the same where the model lies
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
        cos, sin = memoise(key, lambda: self.tables(start, x))  # (T half) or (B T half) each
        if cos.dim() == 3 and x.dim() == 4:  # a row's positions are those of all its heads
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        turning = 2 * len(self.frequencies)
        a, b = self.pairs.split(x[..., :turning])
        turned = self.pairs.join((a * cos - b * sin, b * cos + a * sin))
        return turned if turning == D else torch.cat((turned, x[..., turning:]), -1)

    def speed_on(self, device: torch.device) -> Float[Tensor, " half"]:
        """The frequencies on a device."""
        return torch.tensor(self.frequencies, dtype=torch.float32, device=device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Rotary":
        """As a module is moved: a step copies nothing to the device. They stay float32."""
        device = fn(self.speed).device
        if device.type != "meta":
            self.speed = self.speed_on(device)
        return super()._apply(fn, recurse)

    def angles(self, positions: Int[Tensor, "*rows T"]) -> Float[Tensor, "*rows T half"]:
        """By how much each pair is turned, in radians, in float32."""
        return positions[..., None] * self.speed.to(positions.device)

    def tables(self, start: int | Tensor, like: Tensor) -> Pair:
        """Cosine and sine for each position and pair, in the precision of what is turned."""
        angles = self.angles(positions_from(start, like))
        cos, sin = self.scale * angles.cos(), self.scale * angles.sin()
        return cos.to(like.dtype), sin.to(like.dtype)


class DynamicRotary(Rotary):
    """A rotation by the frequencies of `dynamic` for the text's length by now.

    `turning` coordinates turn, all D if nothing else is said. Keys in a cache keep the angles of
    the length at which they were read, as in published code.
    """

    def __init__(
        self,
        D: int,
        base: float = 10_000.0,
        factor: float = 2.0,
        trained: int = 2048,
        turning: int | None = None,
        pairs: Pairs = halves,
    ):
        self.factor, self.trained, self.turning = factor, trained, turning or D
        super().__init__(D, base, dynamic(1, self.turning, base, factor, trained), pairs)

    def angles(self, positions: Int[Tensor, "*rows T"]) -> Float[Tensor, "*rows T half"]:
        length = positions.max() + 1
        speed = dynamic(length, self.turning, self.base, self.factor, self.trained)
        return positions[..., None] * speed


class LongRotary(Rotary):
    """A rotation with two tables of frequencies (`longrope`): `short` while the text is no longer
    than the `trained` context, `long` from then on.

    Keys in a cache keep the angles of the length at which they were read, as in published code.
    """

    def __init__(
        self,
        D: int,
        short: Frequencies,
        long: Frequencies,
        trained: int = 4096,
        pairs: Pairs = halves,
        scale: float = 1.0,
    ):
        self.long, self.trained = tuple(long.float().tolist()), trained
        super().__init__(D, frequencies=short, pairs=pairs, scale=scale)

    def speed_on(self, device: torch.device) -> Float[Tensor, "2 half"]:
        """Both tables on a device."""
        return torch.tensor((self.frequencies, self.long), dtype=torch.float32, device=device)

    def angles(self, positions: Int[Tensor, "*rows T"]) -> Float[Tensor, "*rows T half"]:
        short, long = self.speed.to(positions.device)
        return positions[..., None] * torch.where(positions.max() < self.trained, short, long)


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


def scale_queries(
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
        speed = linear(D // 2, base) if frequencies is None else frequencies
        super().__init__(D, base, torch.cat((speed, speed)), pairs)
        self.grid, self.extra = grid, extra

    def angles(self, positions: Int[Tensor, "*rows T"]) -> Float[Tensor, "*rows T half"]:
        places = (positions - self.extra).clamp(min=0)[..., None]
        where = torch.cat((places // self.grid[1], places % self.grid[1]), -1)
        by_pair = where.repeat_interleave(len(self.frequencies) // 2, -1)  # rows, then columns
        speed = self.speed.to(positions.device)
        return by_pair * speed * (positions >= self.extra)[..., None]


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
    """Base of modules without parameters: an empty buffer tracks device and dtype."""

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
        rows = memoise(key, lambda: self.bucket(distances(queries, keys, device)))
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
    check_int("heads", heads, 1)
    return 2.0 ** (-8 * torch.arange(1, heads + 1, device=device, dtype=torch.float32) / heads)


def published_slopes(heads: int, device: torch.device | None = None) -> Float[Tensor, " H"]:
    """The slopes of published models, also if the number of heads is no power of 2."""
    check_int("heads", heads, 1)
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
