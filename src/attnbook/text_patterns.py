"""Patterns that cut the text: where its prompt, a chunk, a document ends, where padding is."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnbook.patterns import Pattern, Places
from attnbook.tables import at_least_one


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
        at_least_one("a chunk", self.size)

    @property
    def reach(self) -> int:
        return self.size

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return i // self.size == j // self.size

    def within(self, at: Places) -> Pattern | None:
        if torch.compiler.is_compiling():  # the length may be a symbol that fits all lengths
            return self
        return None if at.start is None and at.first + at.Tk <= self.size else self


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
    """Look at tokens, not at padding: `there` is True at the tokens, (B, T), over all keys."""

    there: Bool[Tensor, "B T"]

    @property
    def by_row(self) -> bool:
        return True

    def check(self, B: int, H: int, Tq: int, Tk: int) -> None:
        if self.there.shape != (B, Tk):
            raise ValueError(f"padding {tuple(self.there.shape)} does not fit keys {(B, Tk)}")

    def __call__(self, i: Tensor, j: Tensor, b: Tensor | None = None) -> Bool[Tensor, "..."]:
        return self.there[b, j]
