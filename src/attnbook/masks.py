"""Masks: who may look at whom, as a table of True and False or as a pattern.

A table says it for each pair; a pattern is a rule, combined with others by `&` and `|`. What
forbids nothing at the sizes at hand is dropped, plain `causal` is told to torch's kernel by one
word, and another pattern becomes a table, once for all layers of a step.
"""

import torch
from jaxtyping import Bool
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
from attnbook.text_patterns import document as document
from attnbook.text_patterns import padding as padding
from attnbook.text_patterns import prefix as prefix


def left_of(at: Places, *masks: Mask | Rule | None) -> Mask | None:
    """What masks and patterns say together at these places; None if they forbid nothing."""
    given = [mask for mask in masks if mask is not None]
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
