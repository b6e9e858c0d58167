"""What a layer keeps of the past, whatever it is, and of a memory that it looks at."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnbook.masks import Places

KeysAndValues = tuple[Float[Tensor, "B H Tk D"], Float[Tensor, "B H Tk Dv"]]


@runtime_checkable
class Kept(Protocol):
    """What a layer keeps of the past, whatever it is.

    `length` counts the positions seen so far: a number, or a tensor where it must not be read.
    """

    @property
    def length(self) -> int | Int[Tensor, ""]:
        """How many positions were seen so far."""

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order, as a search among beams does."""

    def cut(self, length: int) -> None:
        """Forget all positions but the first `length`: what was guessed and turned out wrong."""


@runtime_checkable
class Cache(Kept, Protocol):
    """What an attention layer asks of its cache."""

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Store the keys and values of T new positions; return those that may be looked at."""

    def keep(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """The keys and values of a memory, which `make` makes all at once."""

    def total(self, T: int) -> int:
        """How many keys a mask speaks of when T positions are new."""

    def places(self, B: int, Tq: int, Tk: int, device: torch.device) -> Places:
        """Where the last Tq queries and the Tk keys stand that `append` returned."""


class OneByOne:
    """A cache whose keys come one after the other: those of a memory it refuses."""

    def keep(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """Refused."""
        raise ValueError("a memory is kept in a MemoryCache: its keys come all at once")


class MemoryCache:
    """The keys and values of a memory that is looked at again and again: made once.

    `length` counts nothing: what looks at a memory does not stand in it.
    """

    length = 0

    def __init__(self) -> None:
        self.kept: KeysAndValues | None = None

    def keep(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """What `make` returned the first time."""
        if self.kept is None:
            self.kept = make()
        return self.kept

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Refused: keys that come one after the other are no memory."""
        raise ValueError("self-attention needs a KVCache: a MemoryCache keeps a memory's keys")

    def total(self, T: int) -> int:
        """A mask speaks of the memory's positions."""
        return T

    def places(self, B: int, Tq: int, Tk: int, device: torch.device) -> Places:
        """As without a cache."""
        return Places(B, Tq, Tk, device)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order."""
        if self.kept is not None:
            self.kept = self.kept[0][rows], self.kept[1][rows]

    def cut(self, length: int) -> None:
        """A memory stays as it is."""


class CrossCache:
    """What a block of a decoder keeps: of its own past, and of the memory that it looks at."""

    def __init__(self, own: Kept) -> None:
        self.own, self.memory = own, MemoryCache()

    @property
    def length(self) -> int | Int[Tensor, ""]:
        """How many of its own positions it has seen."""
        return self.own.length

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order."""
        self.own.select(rows)
        self.memory.select(rows)

    def cut(self, length: int) -> None:
        """Forget all of its own positions but the first `length`."""
        self.own.cut(length)
