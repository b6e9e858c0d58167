"""Masks: who may look at whom, as a table of True and False or as a pattern.

A table says it for each pair; a pattern is a rule, combined with others by `&` and `|`. What
forbids nothing at the sizes at hand is dropped, plain `causal` is told to torch's kernel by one
word, and another pattern becomes a table, once for all layers of a step. Where a mask hides
padding, a layer's own pattern counts the tokens of each row, wherever its padding stands.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Union

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from attnbook.checks import check_int
from attnbook.memo import memoise


def length_mask(lengths: Int[Tensor, " B"], T: int | None = None) -> Bool[Tensor, "B T"]:
    """True where a sequence has a token, False where it was padded up to the batch's length T."""
    longest = int(lengths.max())
    if T is not None and T < longest:
        raise ValueError(f"a sequence of length {longest} does not fit into T = {T}")
    return torch.arange(T or longest, device=lengths.device) < lengths[:, None]


def causal_mask(
    Tq: int, Tk: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "Tq Tk"]:
    """No query sees a later key. The Tq queries are the last of the Tk positions.

    Vaswani et al. 2017, section 3.2.3.
    """
    Tk = Tq if Tk is None else Tk
    check_last(Tq, Tk)
    return torch.ones(Tq, Tk, dtype=torch.bool, device=device).tril(Tk - Tq)


def check_last(Tq: int, Tk: int) -> None:
    """Raise a ValueError unless Tq queries can be the last of Tk positions."""
    if Tk < Tq:
        raise ValueError(f"{Tq} queries cannot be the last of {Tk} positions")


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless `mask` is boolean and broadcasts to scores of this shape."""
    if mask.dtype != torch.bool:
        raise ValueError(f"a mask is boolean, True where looking is allowed; got {mask.dtype}")
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(m not in (1, s) for m, s in sizes):
        raise ValueError(f"mask {tuple(mask.shape)} does not fit scores {tuple(shape)}")


def add_key(mask: Bool[Tensor, "..."] | None, Tk: int) -> Bool[Tensor, "..."] | None:
    """The mask of Tk keys with one more, last, that every query may see; None stays None."""
    return None if mask is None else F.pad(mask.expand(*mask.shape[:-1], Tk), (0, 1), value=True)


Rule = Callable[[Int[Tensor, "..."], Int[Tensor, "..."]], Bool[Tensor, "..."]]


@dataclass(frozen=True)
class Grid:
    """The positions of the B × Tq queries and Tk keys of one call of attention.

    Keys stand at `first`, `first` + 1, …; queries at `start`, `start` + 1, …, or, without `start`,
    at the last of the keys' positions. Where rows have padding, `position_ids` says for each
    position its number among the tokens of its row, for what counts distances.
    """

    B: int
    Tq: int
    Tk: int
    device: torch.device | None = None
    first: int = 0
    start: Int[Tensor, ""] | None = None
    position_ids: Int[Tensor, "B keys"] | None = None

    @property
    def i(self) -> Int[Tensor, "Tq 1"]:
        """The positions of the queries."""
        start = self.first + self.Tk - self.Tq if self.start is None else self.start
        return start + torch.arange(self.Tq, device=self.device)[:, None]

    @property
    def j(self) -> Int[Tensor, " Tk"]:
        """The positions of the keys."""
        return self.first + torch.arange(self.Tk, device=self.device)


class Pattern:
    """A rule for who may look at whom. Another rule is a subclass with `__call__`.

    `reach` is the number of last places that it may let a query see, if there is such a bound:
    the layer's cache then keeps no more.
    """

    @property
    def reach(self) -> int | None:
        """How many of the last places a query may see; None if there is no bound."""
        return None

    @property
    def by_row(self) -> bool:
        """Does it differ between the sequences of a batch? Then it is given their number b, too."""
        return False

    @property
    def is_rule(self) -> bool:
        """Is it a rule of places? A table that was written out is none."""
        return True

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        """May the query at place i look at the key at place j, in the sequence b?"""
        raise NotImplementedError(f"{type(self).__name__} does not say who may look at whom")

    def __and__(self, other: "Mask | Rule") -> "And":
        return And(self, other)

    def __rand__(self, other: "Mask | Rule") -> "And":
        return And(other, self)

    def __or__(self, other: "Mask | Rule") -> "Or":
        return Or(self, other)

    def __ror__(self, other: "Mask | Rule") -> "Or":
        return Or(other, self)

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        """Raise a ValueError if the pattern knows of other sizes than these."""

    def simplify(self, grid: Grid) -> "Pattern | None":
        """What is left of the rule for these places; None if everybody may look at everybody."""
        return self

    def to_dense(self, grid: Grid) -> Bool[Tensor, "..."]:
        """The rule written out; it broadcasts to (B, H, Tq, Tk)."""
        if not self.by_row:  # a rule of keys alone says one row, which holds for all queries
            return self(grid.i, grid.j).expand(grid.Tq, grid.Tk)
        return self(grid.i, grid.j, torch.arange(grid.B, device=grid.device).view(-1, 1, 1, 1))


Mask = Union[Bool[Tensor, "..."], Pattern]  # noqa: UP007


@dataclass(frozen=True)
class Causal(Pattern):
    """Look at the past and at yourself: `causal_mask` as a pattern."""

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return j <= i

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        check_last(Tq, Tk)

    def simplify(self, grid: Grid) -> Pattern | None:
        return None if grid.start is None and grid.Tq == 1 else self


causal = Causal()


@dataclass(frozen=True)
class local(Pattern):
    """Look at fewer than `window` positions away, on either side: Beltagy et al. 2020, 3.1.

    With `causal` these are the last `window` positions, the sliding window of Jiang et al. 2023.
    """

    window: int

    def __post_init__(self) -> None:
        check_int("window", self.window, 1)

    @property
    def reach(self) -> int:
        return self.window

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return (i - j).abs() < self.window

    def simplify(self, grid: Grid) -> Pattern | None:
        if torch.compiler.is_compiling():  # the length may be a symbol that fits all lengths
            return self
        return None if grid.start is None and grid.Tk <= self.window else self


@dataclass(frozen=True, eq=False)
class DenseMask(Pattern):
    """A mask that was written out as a table, to be combined with patterns."""

    mask: Bool[Tensor, "..."]

    @property
    def is_rule(self) -> bool:
        return False

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        check_mask(self.mask, (B, H, Tq, Tk) if self.mask.dim() > 3 else (B, Tq, Tk))

    def to_dense(self, grid: Grid) -> Bool[Tensor, "..."]:
        return with_head_axis(self.mask, grid)


@dataclass(frozen=True)
class FunctionMask(Pattern):
    """A plain function of two places as a pattern."""

    function: Rule

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return self.function(i, j)


@dataclass(frozen=True, init=False)
class Combined(Pattern):
    """Patterns that say together who may look at whom."""

    patterns: tuple[Pattern, ...]

    def __init__(self, *patterns: Mask | Rule):
        check_int("the number of patterns", len(patterns), 1)
        object.__setattr__(self, "patterns", tuple(map(as_pattern, patterns)))

    @staticmethod
    def join(tables: Iterable[Bool[Tensor, "..."]]) -> Bool[Tensor, "..."]:
        """One table from those of the patterns."""
        raise NotImplementedError("both or either?")

    @property
    def by_row(self) -> bool:
        return any(p.by_row for p in self.patterns)

    @property
    def is_rule(self) -> bool:
        return all(p.is_rule for p in self.patterns)

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        for pattern in self.patterns:
            pattern.check(B, H, Tq, Tk)

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return self.join(p(i, j, b) if p.by_row else p(i, j) for p in self.patterns)

    def to_dense(self, grid: Grid) -> Bool[Tensor, "..."]:
        return self.join(p.to_dense(grid) for p in self.patterns)


class And(Combined):
    """Look where all of the patterns let you: `a & b`."""

    @staticmethod
    def join(tables: Iterable[Bool[Tensor, "..."]]) -> Bool[Tensor, "..."]:
        return reduce(operator.and_, tables)

    @property
    def reach(self) -> int | None:
        return min((p.reach for p in self.patterns if p.reach is not None), default=None)

    def simplify(self, grid: Grid) -> Pattern | None:
        left = [p for p in (p.simplify(grid) for p in self.patterns) if p is not None]
        return And(*left) if len(left) > 1 else left[0] if left else None


class Or(Combined):
    """Look where at least one of the patterns lets you: `a | b`."""

    @staticmethod
    def join(tables: Iterable[Bool[Tensor, "..."]]) -> Bool[Tensor, "..."]:
        return reduce(operator.or_, tables)

    @property
    def reach(self) -> int | None:
        reaches = [p.reach for p in self.patterns if p.reach is not None]
        return max(reaches) if len(reaches) == len(self.patterns) else None

    def simplify(self, grid: Grid) -> Pattern | None:
        left = [p for p in (p.simplify(grid) for p in self.patterns) if p is not None]
        return Or(*left) if len(left) == len(self.patterns) else None


def as_pattern(mask: Mask | Rule) -> Pattern:
    """A pattern as it is; a table of True and False, or a plain function, as a pattern."""
    if isinstance(mask, Pattern):
        return mask
    return DenseMask(mask) if isinstance(mask, Tensor) else FunctionMask(mask)


def with_head_axis(mask: Bool[Tensor, "..."], grid: Grid) -> Bool[Tensor, "..."]:
    """A table with at least two axes, and a third only with a fourth: (B, H, Tq, Tk).

    Of more keys than there are, as in a cache that forgets, the last are meant.
    """
    mask = mask.unsqueeze(1) if mask.dim() == 3 else torch.atleast_2d(mask)
    return mask[..., -grid.Tk :] if mask.shape[-1] > grid.Tk else mask


@dataclass(frozen=True, eq=False)
class prefix(Pattern):
    """The first `count` positions are looked at by all; with `| causal` a prefix language model.

    `count` is a number, or one for each sequence, (B,). Raffel et al. 2020, section 3.2.1.
    """

    count: int | Int[Tensor, " B"]

    @property
    def by_row(self) -> bool:
        return isinstance(self.count, Tensor)

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        if isinstance(self.count, Tensor) and len(self.count) != B:
            raise ValueError(f"{len(self.count)} prefixes do not fit {B} sequences")

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return j < (self.count if b is None or isinstance(self.count, int) else self.count[b])


@dataclass(frozen=True)
class chunked(Pattern):
    """Look at your own chunk of `size` positions: 0 … size − 1, size … 2·size − 1, and so on.

    With `causal` the first of a chunk sees itself alone: Llama 4, in three layers of four.
    """

    size: int

    def __post_init__(self) -> None:
        check_int("chunk size", self.size, 1)

    @property
    def reach(self) -> int:
        return self.size

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return i // self.size == j // self.size

    def simplify(self, grid: Grid) -> Pattern | None:
        if torch.compiler.is_compiling():  # the length may be a symbol that fits all lengths
            return self
        return None if grid.start is None and grid.first + grid.Tk <= self.size else self


@dataclass(frozen=True, eq=False)
class document(Pattern):
    """Look at tokens of your own document: several stand in one sequence, one after the other.

    `ids` numbers the document of each token, (T,) or (B, T), over all keys.
    """

    ids: Int[Tensor, "*B T"]

    @property
    def by_row(self) -> bool:
        return self.ids.dim() == 2

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        if self.ids.shape not in ((Tk,), (B, Tk)):
            raise ValueError(f"documents {tuple(self.ids.shape)} do not fit keys {(B, Tk)}")

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        if b is None:
            return self.ids[i] == self.ids[j]
        return self.ids[b, i] == self.ids[b, j]


@dataclass(frozen=True, eq=False)
class padding(Pattern):
    """Look at tokens, not at padding: `is_token` is True at the tokens, (B, T), over all keys."""

    is_token: Bool[Tensor, "B T"]

    @property
    def by_row(self) -> bool:
        return True

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        if self.is_token.shape != (B, Tk):
            raise ValueError(f"padding {tuple(self.is_token.shape)} does not fit keys {(B, Tk)}")

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return self.is_token[b, j]


@dataclass(frozen=True)
class PerRow(Pattern):
    """A rule that counts the tokens of each row by `position_ids`, which skip its padding."""

    pattern: Pattern
    position_ids: Int[Tensor, "B keys"]
    by_row = True

    @property
    def reach(self) -> int | None:
        return self.pattern.reach

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        self.pattern.check(B, H, Tq, Tk)

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        i, j = self.position_ids[b, i], self.position_ids[b, j]
        return self.pattern(i, j, b) if self.pattern.by_row else self.pattern(i, j)

    def simplify(self, grid: Grid) -> "Pattern | None":
        left = self.pattern.simplify(grid)  # ids are never further apart than positions
        return None if left is None else PerRow(left, self.position_ids)


def per_row(pattern: Mask | Rule, position_ids: Int[Tensor, "B keys"] | None) -> Pattern:
    """The rule as each row counts its own tokens, if it is a rule, and if rows differ."""
    pattern = as_pattern(pattern)
    if position_ids is None or not pattern.is_rule:
        return pattern
    return PerRow(pattern, position_ids)


def padding_mask_of(mask: Mask | Rule | None) -> Bool[Tensor, "B Tk"] | None:
    """True at tokens, False at padding, over all keys; None if the mask hides no padding."""
    if isinstance(mask, padding):
        return mask.is_token
    if isinstance(mask, And):
        found = [row for row in map(padding_mask_of, mask.patterns) if row is not None]
        return reduce(torch.logical_and, found) if found else None
    return None


def position_ids(mask: Mask | Rule | None) -> Int[Tensor, "B Tk"] | None:
    """Position ids per row that skip padding, (B, Tk), memoised for a forward pass; None without
    padding."""
    rows = padding_mask_of(mask)
    if rows is None:
        return None
    return memoise(("position ids", rows), lambda: (rows.long().cumsum(-1) - 1).clamp(min=0))


def check_positions(positions: Int[Tensor, "..."], B: int, T: int) -> None:
    """Raise a ValueError unless positions are one number, or one for each of T tokens, of all rows
    alike, (T,), or of each, (B, T)."""
    shape = tuple(positions.shape)
    if shape and shape not in ((T,), (1, T), (B, T)):
        raise ValueError(f"positions {shape} do not fit tokens {(B, T)}")


def combine(grid: Grid, mask: Mask | Rule | None, *patterns: Mask | Rule | None) -> Mask | None:
    """The conjunction of a mask and a layer's own patterns on this grid, simplified; None if it
    forbids nothing."""
    own = [per_row(pattern, grid.position_ids) for pattern in patterns if pattern is not None]
    given = [*([] if mask is None else [mask]), *own]
    if grid.start is not None:  # keys that are not written yet stand later than every query
        given.append(causal)
    if len(given) == 1 and isinstance(given[0], Tensor):
        return given[0]
    if given and grid.start is None:
        check_last(grid.Tq, grid.Tk)
    return And(*given).simplify(grid) if given else None


def dense(mask: Mask | None, grid: Grid) -> Bool[Tensor, "..."] | None:
    """The mask as a boolean tensor that broadcasts to (B, H, Tq, Tk), memoised for a pass."""
    if mask is None:
        return None
    if isinstance(mask, Tensor):
        return with_head_axis(mask, grid)
    return memoise(("mask", mask, grid), lambda: mask.to_dense(grid))


def pattern_mask(
    pattern: Pattern | Rule,
    Tq: int,
    Tk: int | None = None,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "*B Tq Tk"]:
    """The pattern as a mask. The Tq queries are the last of the Tk positions."""
    Tk = Tq if Tk is None else Tk
    check_last(Tq, Tk)
    return as_pattern(pattern).to_dense(Grid(1, Tq, Tk, torch.device(device) if device else None))
