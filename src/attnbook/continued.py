"""What comes next in sequences that grow: only what is new is read, caches keep the rest.

`generate`, `stream` and the searches ask for logits by one call, `next_logits(tokens)`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnbook.prompts import check_mask, check_numbers, left_order


class Continued:
    """The logits after the last token of each row, asked again and again while the rows grow.

    `model(tokens)` gives logits; with `caches` it is `model(new, caches)`, and only tokens that
    were not read before are read. `mask`, True at tokens and False at padding of the first call's
    tokens, (B, T), on whatever side, makes it `model(…, mask=…)`: rows of their own. With `window`
    the last so many tokens are read, anew each time. Whoever stops asking can go on later with the
    same tokens and more.
    """

    def __init__(
        self,
        model: Callable[..., Float[Tensor, "B T V"]],
        caches: Sequence[Any] | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        window: int | None = None,
        limit: int | None = None,
    ):
        if window is not None and caches is not None:
            raise ValueError("a window is read anew in each step: it has no use for caches")
        if any(int(cache.length) for cache in caches or []):
            raise ValueError("these caches have seen tokens: go on with the object that read them")
        self.model, self.caches, self.mask, self.window = model, caches, mask, window
        self.limit = getattr(model, "limit", None) if limit is None else limit
        self.first = self.read = 0  # columns of the first call's tokens; columns that were read
        self.order: Tensor | None = None

    @torch.no_grad()
    def __call__(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B V"]:
        """`tokens` are those of the last call and more; the rows of the first one may be several
        for each row of the mask, one after the other."""
        if not self.first:
            self.begin(tokens)
        if self.order is not None:
            start = tokens[:, : self.first].gather(1, self.order)
            tokens = torch.cat((start, tokens[:, self.first :]), 1)
        if self.caches is None:
            new = tokens if self.window is None else tokens[:, -self.window :]
            given: tuple[Any, ...] = (new,)
        else:
            # a copy: of the same strides in each step, so that a compiled model fits them all
            new = tokens[:, self.read :].clone(memory_format=torch.contiguous_format)
            given = new, self.caches
        T, mask = tokens.shape[1], self.mask
        named = {} if mask is None else {"mask": self.shown(mask, T, new.shape[1])}
        logits = self.model(*given, **named)[:, -1]
        self.read = T
        return check_numbers(logits)

    def begin(self, tokens: Int[Tensor, "B T"]) -> None:
        """From now on a row's padding stands before its tokens, and only as much as is needed."""
        self.first = tokens.shape[1]
        if self.mask is None:
            return
        check_mask(self.mask, tokens)
        mask = self.mask.repeat_interleave(len(tokens) // len(self.mask), 0)
        self.order = left_order(mask)
        mask = mask.gather(1, self.order)
        self.mask = None if bool(mask.all()) else mask

    def longest(self, tokens: Int[Tensor, "B T"]) -> int:
        """How many tokens the longest row has, padding not counted."""
        T = tokens.shape[1]
        if self.first:
            return T if self.order is None else T - self.first + self.order.shape[1]
        if self.mask is None:
            return T
        check_mask(self.mask, tokens)
        return int(self.mask.sum(-1).amax())

    def shown(self, mask: Bool[Tensor, "B L"], T: int, new: int) -> Bool[Tensor, "B Tk"]:
        """The mask for all keys that the model looks at: what was written later is no padding."""
        rooms = [T, *(cache.total(new) for cache in self.caches or [])]
        mask = F.pad(mask, (0, max(rooms) - mask.shape[1]), value=True)
        return mask if self.window is None else mask[:, -self.window :]

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows, in this order, as a search among beams does."""
        for cache in self.caches or []:
            cache.select(rows)
        self.mask = None if self.mask is None else self.mask[rows]
        self.order = None if self.order is None else self.order[rows]

    @property
    def room(self) -> int | None:
        """How many tokens fit into the caches, if these are of fixed room."""
        rooms = [getattr(cache, "room", None) for cache in self.caches or []]
        return min((room for room in rooms if room is not None), default=None)


def translation(
    model: Any,
    source: Int[Tensor, "B Tk"],
    source_mask: Bool[Tensor, "B Tk"],
    caches: Sequence[Any] | None = None,
) -> Continued:
    """What an `EncoderDecoder` writes next, for the searches: the source is encoded once.

    With `caches`, `model.caches()`, the keys of the source are made once, too, and those of the
    target are kept. Of several beginnings for a source each is given the same memory.
    """
    with torch.no_grad():
        memory = model.encode(source, source_mask)

    def decode(new: Tensor, caches: Sequence[Any] | None = None) -> Tensor:
        each = len(new) // len(memory)
        given = memory.repeat_interleave(each, 0), source_mask.repeat_interleave(each, 0)
        return model.decode(new, *given, caches)

    return Continued(decode, caches, limit=model.limit)
