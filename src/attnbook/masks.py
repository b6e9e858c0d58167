"""Masks: who may look at whom, as a table of True and False or as a pattern.

A table says it for each pair; a pattern is a rule, combined with others by `&` and `|`. What
forbids nothing at the sizes at hand is dropped, plain `causal` is told to torch's kernel by one
word, and another pattern becomes a table, once for all layers of a step. Where a mask hides
padding, a layer's own pattern counts the tokens of each row, wherever its padding stands.
"""

from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnbook.patterns import Causal as Causal
from attnbook.patterns import Mask as Mask
from attnbook.patterns import Pattern as Pattern
from attnbook.patterns import Places as Places
from attnbook.patterns import Rule as Rule
from attnbook.patterns import as_pattern as as_pattern
from attnbook.patterns import both as both
from attnbook.patterns import by_head as by_head
from attnbook.patterns import causal as causal
from attnbook.patterns import either as either
from attnbook.patterns import local as local
from attnbook.patterns import rule as rule
from attnbook.patterns import written as written
from attnbook.step import once
from attnbook.tables import at_least_one as at_least_one
from attnbook.tables import causal_mask as causal_mask
from attnbook.tables import check_last as check_last
from attnbook.tables import check_mask as check_mask
from attnbook.tables import length_mask as length_mask
from attnbook.text_patterns import chunked as chunked
from attnbook.text_patterns import document as document
from attnbook.text_patterns import padding as padding
from attnbook.text_patterns import prefix as prefix


@dataclass(frozen=True)
class counted(Pattern):
    """A rule that counts the tokens of each row: `own` is every place's number among them."""

    pattern: Pattern
    own: Int[Tensor, "B places"]
    by_row = True

    @property
    def reach(self) -> int | None:
        return self.pattern.reach

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        self.pattern.check(B, H, Tq, Tk)

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        i, j = self.own[b, i], self.own[b, j]
        return self.pattern(i, j, b) if self.pattern.by_row else self.pattern(i, j)

    def within(self, at: Places) -> "Pattern | None":
        left = self.pattern.within(at)  # own numbers are never further apart than the places
        return None if left is None else counted(left, self.own)


def in_rows(pattern: Mask | Rule, own: Int[Tensor, "B places"] | None) -> Pattern:
    """The rule as each row counts its own tokens, if it is a rule, and if rows differ."""
    pattern = as_pattern(pattern)
    return pattern if own is None or not pattern.is_rule else counted(pattern, own)


def there_of(mask: Mask | Rule | None) -> Bool[Tensor, "B Tk"] | None:
    """True at tokens, False at padding, over all keys; None if the mask hides no padding."""
    if isinstance(mask, padding):
        return mask.there
    if isinstance(mask, both):
        found = [there for there in map(there_of, mask.patterns) if there is not None]
        return reduce(torch.logical_and, found) if found else None
    return None


def own_count(mask: Mask | Rule | None) -> Int[Tensor, "B Tk"] | None:
    """Each place's number among the tokens of its row, padding not counted, made once for all
    layers of a step; None if the mask hides no padding."""
    there = there_of(mask)
    if there is None:
        return None
    return once(("own", there), lambda: (there.long().cumsum(-1) - 1).clamp(min=0))


def left_of(at: Places, mask: Mask | Rule | None, *patterns: Mask | Rule | None) -> Mask | None:
    """What a mask and a layer's own patterns say together at these places; None if they forbid
    nothing."""
    own = [in_rows(pattern, at.own) for pattern in patterns if pattern is not None]
    given = [*([] if mask is None else [mask]), *own]
    if at.start is not None:  # keys that are not written yet stand later than every query
        given.append(causal)
    if len(given) == 1 and isinstance(given[0], Tensor):
        return given[0]
    if given and at.start is None:
        check_last(at.Tq, at.Tk)
    return both(*given).within(at) if given else None


def table_of(mask: Mask | None, at: Places) -> Bool[Tensor, "..."] | None:
    """The mask as a table that broadcasts to (B, H, Tq, Tk), made once for all layers of a step."""
    if mask is None:
        return None
    if isinstance(mask, Tensor):
        return by_head(mask, at)
    return once(("mask", mask, at), lambda: mask.table(at))


def pattern_mask(
    pattern: Pattern | Rule,
    Tq: int,
    Tk: int | None = None,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "*B Tq Tk"]:
    """The pattern as a mask. The Tq queries are the last of the Tk positions."""
    Tk = Tq if Tk is None else Tk
    check_last(Tq, Tk)
    return as_pattern(pattern).table(Places(1, Tq, Tk, torch.device(device) if device else None))
