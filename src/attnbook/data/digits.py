"""Strings of random digits to be copied or reversed.

The smallest task that shows how much a single state can carry: all the digits, or not.
"""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Int
from torch import Tensor

from attnbook.data.pairs import Batch
from attnbook.data.vocabulary import BEGIN, END, PAD, SPECIALS

FIRST = len(SPECIALS)  # the token of digit d is FIRST + d
V = FIRST + 10

Sampler = Callable[[torch.Generator], Batch]


def _batch(
    source: Int[Tensor, "B T"], target: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]
) -> Batch:
    """The batch of these rows, of which row `b` counts up to `lengths[b]`."""
    B, T = source.shape
    places = torch.arange(T + 1)
    mask, target_mask = places[:T] < lengths[:, None], places <= lengths[:, None]
    padded = torch.cat([target.masked_fill(~mask, PAD), torch.full((B, 1), PAD)], dim=1)
    target_out = padded.masked_fill(places == lengths[:, None], END)
    target_in = torch.cat([torch.full((B, 1), BEGIN), padded[:, :T]], dim=1)
    return Batch(source.masked_fill(~mask, PAD), mask, target_in, target_out, target_mask)


def _sampler(B: int, shortest: int, longest: int, backwards: bool) -> Sampler:
    if B < 1:
        raise ValueError(f"a batch holds at least 1 string, not {B}")
    if not 1 <= shortest <= longest:
        raise ValueError(f"lengths run from at least 1 upwards, not from {shortest} to {longest}")

    def sample(generator: torch.Generator) -> Batch:
        lengths = torch.randint(shortest, longest + 1, (B,), generator=generator)
        T = int(lengths.max())
        source = torch.randint(FIRST, V, (B, longest), generator=generator)[:, :T]
        from_end = (lengths[:, None] - 1 - torch.arange(T)).clamp(min=0)
        return _batch(source, source.gather(1, from_end) if backwards else source, lengths)

    return sample


def copy(B: int, shortest: int, longest: int) -> Sampler:
    """A sampler of `B` strings of `shortest` to `longest` digits, to be written once more.

    Each length is equally likely. Token numbers: digit d is 4 + d; `V` is 14.
    """
    return _sampler(B, shortest, longest, backwards=False)


def reverse(B: int, shortest: int, longest: int) -> Sampler:
    """A sampler of `B` strings of `shortest` to `longest` digits, to be written backwards.

    Each length is equally likely. Token numbers: digit d is 4 + d; `V` is 14.
    """
    return _sampler(B, shortest, longest, backwards=True)


def by_length(
    task: Callable[[int, int, int], Sampler], lengths: Iterable[int], B: int, seed: int = 0
) -> dict[int, Batch]:
    """For each length the same `B` strings in every run: fixed evaluation sets.

    `task` is `copy` or `reverse`. A set does not depend on which other lengths are asked for.
    """
    return {T: task(B, T, T)(torch.Generator().manual_seed(seed * 1000 + T)) for T in lengths}
