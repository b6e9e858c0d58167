"""The KV cache keeps keys and values of the past: a new token then asks only its own query."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.kept import Cache as Cache
from attnbook.kept import CrossCache as CrossCache
from attnbook.kept import Kept as Kept
from attnbook.kept import KeysAndValues as KeysAndValues
from attnbook.kept import MemoryCache as MemoryCache
from attnbook.kept import OneByOne as OneByOne
from attnbook.masks import Mask, Places, at_least_one, own_count, there_of
from attnbook.step import once


class KVCache(OneByOne):
    """The keys and values that one attention layer has seen so far.

    `length` says how many positions those are. Room is doubled when it runs out, so that adding a
    token costs the same however many there are (amortised). It is written in place: for generation,
    under `torch.no_grad()`, not for training.
    """

    def __init__(self) -> None:
        self.length = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Store the keys and values of T new positions; return those of all positions so far."""
        check_fit(self.keys, k)
        end = self.length + k.shape[2]
        self.keys, self.values = grown(self.keys, k, end), grown(self.values, v, end)
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k, v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def total(self, T: int) -> int:
        """How many keys a mask speaks of when T positions are new."""
        return self.length + T

    def places(self, B: int, Tq: int, Tk: int, device: torch.device) -> Places:
        """The keys stand at the last Tk positions so far, the queries at the last Tq."""
        return Places(B, Tq, Tk, device, first=self.length - Tk)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order, as a search among beams does."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def cut(self, length: int) -> None:
        """Forget all positions but the first `length`: what was guessed and turned out wrong."""
        if not 0 <= length <= self.length:
            raise ValueError(f"a cache of {self.length} positions cannot be cut to {length}")
        self.length = length


class WindowCache(KVCache):
    """A cache that keeps of the past what a window of `window` positions can reach, and no more.

    A query sees itself and `window` − 1 positions before. `spare` more are kept so that the last
    `spare` positions can be taken back by `cut`. Memory does not grow with the text.
    """

    def __init__(self, window: int, spare: int = 0) -> None:
        super().__init__()
        at_least_one("a window", window)
        self.window, self.spare = window, spare

    def append(
        self,
        k: Float[Tensor, "B H T D"],
        v: Float[Tensor, "B H T Dv"],
        there: Bool[Tensor, "B all"] | None = None,
    ) -> KeysAndValues:
        """Store T new positions; return them and the past that their windows can reach. `there` is
        False at padding, over all positions so far: so much more is kept as stands among tokens."""
        check_fit(self.keys, k)
        self.length += k.shape[2]
        if self.keys is not None and self.values is not None:
            k, v = torch.cat((self.keys, k), 2), torch.cat((self.values, v), 2)
        gone = max(0, k.shape[2] - within_reach(there, self.window - 1 + self.spare))
        self.keys, self.values = k[:, :, gone:], v[:, :, gone:]
        if gone > self.window:  # a long prompt is let go, not only looked past
            self.keys, self.values = k[:, :, gone:].clone(), v[:, :, gone:].clone()
        return k, v

    def cut(self, length: int) -> None:
        """As KVCache; only so far back that the windows of what follows are still whole."""
        kept = 0 if self.keys is None else self.keys.shape[2]
        left = kept - (self.length - length)
        if not 0 <= length <= self.length or left < min(self.window - 1, length):
            raise ValueError(
                f"a window's cache of {self.length} positions cannot be cut to {length}: it has "
                f"{self.spare} to spare"
            )
        self.length = length
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[:, :, :left], self.values[:, :, :left]


class StaticCache(OneByOne):
    """A cache of fixed room: its tensors keep their shape and place, so that a step compiles once.

    `length` is a tensor, which nobody needs to read. Keys that are not written yet are masked.
    """

    def __init__(self, room: int) -> None:
        at_least_one("a room", room)
        self.room = room
        self.length: Int[Tensor, ""] = torch.zeros((), dtype=torch.long)
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Store the keys and values of T new positions; return those of the whole room."""
        T = k.shape[2]
        if T > self.room:
            raise ValueError(f"{T} positions do not fit into a room of {self.room}")
        check_fit(self.keys, k)
        if self.keys is None or self.values is None:
            self.keys, self.values = empty(k, self.room), empty(v, self.room)
            self.length = self.length.to(k.device)
        at = self.length + torch.arange(T, device=k.device)
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        self.length = self.length + T
        return self.keys, self.values

    def total(self, T: int) -> int:
        """A mask speaks of the whole room."""
        return self.room

    def places(self, B: int, Tq: int, Tk: int, device: torch.device) -> Places:
        """The keys stand everywhere in the room, the queries at the last positions written."""
        return Places(B, Tq, Tk, device, start=self.length - Tq)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def cut(self, length: int | Int[Tensor, ""]) -> None:
        """Forget all positions but the first `length`, which is not read if it is a tensor."""
        self.length = torch.zeros_like(self.length) + length


def cache_of(part: nn.Module, room: int | None = None) -> Kept:
    """An empty cache of the kind that the first layer needs, inside of a part, that says so."""
    for inner in part.modules():
        if callable(make := getattr(inner, "cache", None)):
            return make(room)
    return KVCache() if room is None else StaticCache(room)


def append_to(cache: Cache, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
    """Store new keys and values; a window's cache is told which are padding, not to keep those in
    the place of tokens."""
    if isinstance(cache, WindowCache):
        return cache.append(k, v, there_of(mask))
    return cache.append(k, v)


def places(x: Tensor, k: Tensor, cache: Cache | MemoryCache | None, mask: Mask | None) -> Places:
    """Where the queries of `x` and the keys of one look stand."""
    sizes = x.shape[0], x.shape[1], k.shape[2], x.device
    at = Places(*sizes) if cache is None else cache.places(*sizes)
    own = own_count(mask)
    return at if own is None else replace(at, own=own)


def check_fit(store: Tensor | None, k: Tensor) -> None:
    """Raise a ValueError unless new keys go with those that are stored."""
    B, H, _, D = k.shape
    if store is not None and store.shape != (B, H, store.shape[2], D):
        raise ValueError(
            f"the cache has (B, H, room, D) = {tuple(store.shape)}, these keys are "
            f"{tuple(k.shape)}: one cache belongs to one batch and one layer"
        )


def empty(like: Float[Tensor, "B H T D"], room: int) -> Float[Tensor, "B H room D"]:
    """Zeros for `room` positions. They may be written in any mode, whatever mode is on now."""
    B, H, _, D = like.shape
    with torch.inference_mode(False):
        return torch.zeros(B, H, room, D, dtype=like.dtype, device=like.device)


def grown(store: Tensor | None, like: Tensor, length: int) -> Tensor:
    """`store` if it has room for `length` positions, else the same in a store of twice the room."""
    if store is not None and store.shape[2] >= length:
        return store
    larger = empty(like, 2 * length)
    if store is not None:
        larger[:, :, : store.shape[2]] = store
    return larger


def within_reach(there: Bool[Tensor, "B all"] | None, count: int) -> int:
    """How many of the last places hold the last `count` tokens of every row."""
    if there is None or there.shape[-1] <= count:
        return count

    def places() -> int:
        last = there.flip(-1)
        wanted = last & (last.long().cumsum(-1) <= count)
        return int((wanted * torch.arange(1, last.shape[-1] + 1, device=last.device)).amax())

    return max(count, once(("reach", there, count), places))
