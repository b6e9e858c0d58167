"""The KV cache keeps keys and values of the past: a new token then asks only its own query."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.checks import check_int
from attnbook.masks import Grid, Mask, padding_mask_of
from attnbook.memo import memoise

KeysAndValues = tuple[Float[Tensor, "B H Tk D"], Float[Tensor, "B H Tk Dv"]]


@runtime_checkable
class DecodingState(Protocol):
    """Decoding state of one layer: a KV cache or a recurrent state.

    `length` counts the positions seen so far: an int, or a tensor that stays on the device.
    """

    @property
    def length(self) -> int | Int[Tensor, ""]:
        """How many positions were seen so far."""

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order, as a search among beams does."""

    def cut(self, length: int) -> None:
        """Forget all positions but the first `length`: what was guessed and turned out wrong."""


@runtime_checkable
class Cache(DecodingState, Protocol):
    """What an attention layer asks of its cache."""

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Store the keys and values of T new positions; return those that may be looked at."""

    def fill(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """The keys and values of a memory, which `make` makes all at once."""

    def total(self, T: int) -> int:
        """Number of keys that a mask must cover, the T new ones included."""

    def grid(self, B: int, Tq: int, Tk: int, device: torch.device) -> Grid:
        """Where the last Tq queries and the Tk keys stand that `append` returned."""


class AppendOnly:
    """Append-only cache; raises if used for cross-attention."""

    def fill(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """Refused."""
        raise ValueError("a memory is kept in a MemoryCache: its keys come all at once")


class MemoryCache:
    """Keys and values of a memory for cross-attention, made once and read at every step.

    `length` counts the queries that have asked so far, for a layer that rotates them.
    """

    def __init__(self) -> None:
        self.length: int | Int[Tensor, ""] = 0
        self.stored: KeysAndValues | None = None

    def fill(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """What `make` returned the first time."""
        if self.stored is None:
            self.stored = make()
        return self.stored

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Refused: keys that come one after the other are no memory."""
        raise ValueError("self-attention needs a KVCache: a MemoryCache keeps a memory's keys")

    def total(self, T: int) -> int:
        """A mask speaks of the memory's positions."""
        return T

    def grid(self, B: int, Tq: int, Tk: int, device: torch.device) -> Grid:
        """As without a cache."""
        return Grid(B, Tq, Tk, device)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order."""
        if self.stored is not None:
            self.stored = self.stored[0][rows], self.stored[1][rows]

    def cut(self, length: int | Int[Tensor, ""]) -> None:
        """Forget all queries but the first `length`; the memory stays as it is."""
        self.length = length


class CrossCache:
    """What a block of a decoder keeps: of its own past, and of the memory that it looks at."""

    def __init__(self, own: DecodingState) -> None:
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
        self.memory.cut(length)


class KVCache(AppendOnly):
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
        self.keys, self.values = enlarge(self.keys, k, end), enlarge(self.values, v, end)
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k, v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def total(self, T: int) -> int:
        """Number of keys that a mask must cover, the T new ones included."""
        return self.length + T

    def grid(self, B: int, Tq: int, Tk: int, device: torch.device) -> Grid:
        """The keys stand at the last Tk positions so far, the queries at the last Tq."""
        return Grid(B, Tq, Tk, device, first=self.length - Tk)

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
        check_int("window", window, 1)
        self.window, self.spare = window, spare

    def append(
        self,
        k: Float[Tensor, "B H T D"],
        v: Float[Tensor, "B H T Dv"],
        is_token: Bool[Tensor, "B all"] | None = None,
    ) -> KeysAndValues:
        """Store T new positions; return them and the past that their windows can reach. `is_token`
        speaks of all positions so far: as much more is kept as there is padding among tokens."""
        check_fit(self.keys, k)
        self.length += k.shape[2]
        if self.keys is not None and self.values is not None:
            k, v = torch.cat((self.keys, k), 2), torch.cat((self.values, v), 2)
        gone = max(0, k.shape[2] - places_within(is_token, self.window - 1 + self.spare))
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


class StaticCache(AppendOnly):
    """A cache of `max_len` positions whose tensors keep their shape, so that a step compiles once.

    `length` stays on the device, so a decoding step compiles. Unwritten slots are masked. On a GPU
    only `held`, the length as far as Python has counted along, can refuse what does not fit: in a
    compiled step or after a `cut` to a tensor, writing past the end ends the process.
    """

    def __init__(self, max_len: int) -> None:
        check_int("max_len", max_len, 1)
        self.max_len = max_len
        self.length: Int[Tensor, ""] = torch.zeros((), dtype=torch.long)
        self.held: int | None = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T Dv"]) -> KeysAndValues:
        """Store the keys and values of T new positions; return all `max_len`."""
        T = k.shape[2]
        if T > self.max_len:
            raise ValueError(f"{T} positions do not fit into a cache of max_len {self.max_len}")
        check_fit(self.keys, k)
        if self.keys is None or self.values is None:
            self.keys, self.values = zeros_for(k, self.max_len), zeros_for(v, self.max_len)
            self.length = self.length.to(k.device)
        at = self.length + torch.arange(T, device=k.device)
        if torch.compiler.is_compiling():
            self.keys.index_copy_(2, at, k)
            self.values.index_copy_(2, at, v)
        else:
            self.write(at, k, v)
        self.length = self.length + T
        return self.keys, self.values

    def write(self, at: Int[Tensor, " T"], k: Tensor, v: Tensor) -> None:
        """Write at these positions, of which none is read back; ValueError past the end."""
        assert self.keys is not None and self.values is not None
        try:
            if self.held is not None and self.held + len(at) > self.max_len:
                raise IndexError  # before a kernel is started: a GPU's would end the process
            self.keys.index_copy_(2, at, k)
            self.values.index_copy_(2, at, v)
        except IndexError as error:
            raise ValueError(
                f"a cache of max_len {self.max_len} holds {int(self.length)} positions already: "
                f"{len(at)} more do not fit"
            ) from error
        self.held = None if self.held is None else self.held + len(at)

    def total(self, T: int) -> int:
        """A mask covers all `max_len` positions."""
        return self.max_len

    def grid(self, B: int, Tq: int, Tk: int, device: torch.device) -> Grid:
        """Keys stand at all `max_len` positions, queries at the last ones written."""
        return Grid(B, Tq, Tk, device, start=self.length - Tq)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def cut(self, length: int | Int[Tensor, ""]) -> None:
        """Forget all positions but the first `length`, which is not read if it is a tensor."""
        self.length = torch.zeros_like(self.length) + length
        self.held = length if isinstance(length, int) else None


def cache_of(part: nn.Module, max_len: int | None = None) -> DecodingState:
    """An empty cache from the first part inside that has a `cache` method; a `KVCache` if none has,
    or, with `max_len`, a `StaticCache`."""
    for inner in part.modules():
        if callable(make := getattr(inner, "cache", None)):
            return make(max_len)
    return KVCache() if max_len is None else StaticCache(max_len)


def append_to(cache: Cache, k: Tensor, v: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
    """Store new keys and values; a window's cache is told which are padding, not to keep those in
    the place of tokens."""
    if isinstance(cache, WindowCache):
        return cache.append(k, v, padding_mask_of(mask))
    return cache.append(k, v)


def check_fit(store: Tensor | None, k: Tensor) -> None:
    """Raise a ValueError unless new keys go with those that are stored."""
    B, H, _, D = k.shape
    if store is not None and store.shape != (B, H, store.shape[2], D):
        raise ValueError(
            f"the cache has (B, H, max_len, D) = {tuple(store.shape)}, these keys are "
            f"{tuple(k.shape)}: one cache belongs to one batch and one layer"
        )


def zeros_for(like: Float[Tensor, "B H T D"], max_len: int) -> Float[Tensor, "B H max_len D"]:
    """Zeros for `max_len` positions. They may be written in any mode, whatever mode is on now."""
    B, H, _, D = like.shape
    with torch.inference_mode(False):
        return torch.zeros(B, H, max_len, D, dtype=like.dtype, device=like.device)


def enlarge(store: Tensor | None, like: Tensor, length: int) -> Tensor:
    """`store` if it holds `length` positions, else a copy of twice as many."""
    if store is not None and store.shape[2] >= length:
        return store
    larger = zeros_for(like, 2 * length)
    if store is not None:
        larger[:, :, : store.shape[2]] = store
    return larger


def places_within(is_token: Bool[Tensor, "B all"] | None, count: int) -> int:
    """How many of the last places hold the last `count` tokens of every row."""
    if is_token is None or is_token.shape[-1] <= count:
        return count

    def places() -> int:
        last = is_token.flip(-1)
        wanted = last & (last.long().cumsum(-1) <= count)
        return int((wanted * torch.arange(1, last.shape[-1] + 1, device=last.device)).amax())

    return max(count, memoise(("reach", is_token, count), places))
