"""Patterns: rules for who may look at whom, which are combined by `&` and `|`.

A pattern is a rule on two places in the sequence, `pattern(i, j)`: True where i may look at j. It
is given integers that broadcast, and makes no table before somebody needs one.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Union

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnbook.tables import at_least_one, check_mask

Rule = Callable[[Int[Tensor, "..."], Int[Tensor, "..."]], Bool[Tensor, "..."]]


@dataclass(frozen=True)
class Places:
    """Where the B × Tq queries and Tk keys of one look stand in their sequences.

    The keys stand at `first`, `first` + 1, …; the queries at `start`, `start` + 1, …, or, without
    `start`, at the last of the keys' places. Where rows have padding, `own` says for each place its
    number among the tokens of its row, for what counts distances.
    """

    B: int
    Tq: int
    Tk: int
    device: torch.device | None = None
    first: int = 0
    start: Int[Tensor, ""] | None = None
    own: Int[Tensor, "B places"] | None = None

    @property
    def i(self) -> Int[Tensor, "Tq 1"]:
        """The places of the queries."""
        start = self.first + self.Tk - self.Tq if self.start is None else self.start
        return start + torch.arange(self.Tq, device=self.device)[:, None]

    @property
    def j(self) -> Int[Tensor, " Tk"]:
        """The places of the keys."""
        return self.first + torch.arange(self.Tk, device=self.device)


class Pattern:
    """A rule for who may look at whom. Another rule is a subclass with `__call__`.

    `reach` is the number of last places that it may let a query see, if there is such a bound:
    the layer's cache then keeps no more.
    """

    @property
    def reach(self) -> int | None:
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
        raise NotImplementedError(f"{type(self).__name__} does not say who may look at whom")

    def __and__(self, other: "Mask | Rule") -> "both":
        return both(self, other)

    def __rand__(self, other: "Mask | Rule") -> "both":
        return both(other, self)

    def __or__(self, other: "Mask | Rule") -> "either":
        return either(self, other)

    def __ror__(self, other: "Mask | Rule") -> "either":
        return either(other, self)

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        """Raise a ValueError if the pattern knows of other sizes than these."""

    def within(self, at: Places) -> "Pattern | None":
        """What is left of the rule for these places; None if everybody may look at everybody."""
        return self

    def table(self, at: Places) -> Bool[Tensor, "..."]:
        """The rule written out; it broadcasts to (B, H, Tq, Tk)."""
        if not self.by_row:
            return self(at.i, at.j)
        return self(at.i, at.j, torch.arange(at.B, device=at.device).view(-1, 1, 1, 1))


Mask = Union[Bool[Tensor, "..."], Pattern]  # noqa: UP007


@dataclass(frozen=True)
class Causal(Pattern):
    """Look at the past and at yourself: `causal_mask` as a pattern."""

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return j <= i

    def within(self, at: Places) -> Pattern | None:
        return None if at.start is None and at.Tq == 1 else self


causal = Causal()


@dataclass(frozen=True)
class local(Pattern):
    """Look at fewer than `window` positions away, on either side: Beltagy et al. 2020, 3.1.

    With `causal` these are the last `window` positions, the sliding window of Jiang et al. 2023.
    """

    window: int

    def __post_init__(self) -> None:
        at_least_one("a window", self.window)

    @property
    def reach(self) -> int:
        return self.window

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return (i - j).abs() < self.window

    def within(self, at: Places) -> Pattern | None:
        if torch.compiler.is_compiling():  # the length may be a symbol that fits all lengths
            return self
        return None if at.start is None and at.Tk <= self.window else self


@dataclass(frozen=True, eq=False)
class written(Pattern):
    """A mask that was written out as a table, to be combined with patterns."""

    mask: Bool[Tensor, "..."]

    @property
    def is_rule(self) -> bool:
        return False

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        check_mask(self.mask, (B, H, Tq, Tk) if self.mask.dim() > 3 else (B, Tq, Tk))

    def table(self, at: Places) -> Bool[Tensor, "..."]:
        return by_head(self.mask, at)


@dataclass(frozen=True)
class rule(Pattern):
    """A plain function of two places as a pattern."""

    function: Rule

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return self.function(i, j)


@dataclass(frozen=True, init=False)
class Several(Pattern):
    """Patterns that say together who may look at whom."""

    patterns: tuple[Pattern, ...]

    def __init__(self, *patterns: Mask | Rule):
        at_least_one("a number of patterns", len(patterns))
        object.__setattr__(self, "patterns", tuple(map(as_pattern, patterns)))

    @staticmethod
    def join(tables: Iterable[Bool[Tensor, "..."]]) -> Bool[Tensor, "..."]:
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

    def table(self, at: Places) -> Bool[Tensor, "..."]:
        return self.join(p.table(at) for p in self.patterns)


class both(Several):
    """Look where all of the patterns let you: `a & b`."""

    @staticmethod
    def join(tables: Iterable[Bool[Tensor, "..."]]) -> Bool[Tensor, "..."]:
        return reduce(operator.and_, tables)

    @property
    def reach(self) -> int | None:
        return min((p.reach for p in self.patterns if p.reach is not None), default=None)

    def within(self, at: Places) -> Pattern | None:
        left = [p for p in (p.within(at) for p in self.patterns) if p is not None]
        return both(*left) if len(left) > 1 else left[0] if left else None


class either(Several):
    """Look where at least one of the patterns lets you: `a | b`."""

    @staticmethod
    def join(tables: Iterable[Bool[Tensor, "..."]]) -> Bool[Tensor, "..."]:
        return reduce(operator.or_, tables)

    @property
    def reach(self) -> int | None:
        reaches = [p.reach for p in self.patterns if p.reach is not None]
        return max(reaches) if len(reaches) == len(self.patterns) else None

    def within(self, at: Places) -> Pattern | None:
        left = [p for p in (p.within(at) for p in self.patterns) if p is not None]
        return either(*left) if len(left) == len(self.patterns) else None


def as_pattern(mask: Mask | Rule) -> Pattern:
    """A pattern as it is; a table of True and False, or a plain function, as a pattern."""
    if isinstance(mask, Pattern):
        return mask
    return written(mask) if isinstance(mask, Tensor) else rule(mask)


def by_head(mask: Bool[Tensor, "..."], at: Places) -> Bool[Tensor, "..."]:
    """A table with at least two axes, and a third only with a fourth: (B, H, Tq, Tk).

    Of more keys than there are, as in a cache that forgets, the last are meant.
    """
    mask = mask.unsqueeze(1) if mask.dim() == 3 else torch.atleast_2d(mask)
    return mask[..., -at.Tk :] if mask.shape[-1] > at.Tk else mask
