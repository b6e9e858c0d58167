"""Masks written out as tables: True where looking is allowed."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


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


def at_least_one(name: str, number: int) -> None:
    """Raise a ValueError unless the number is 1 or more."""
    if number < 1:
        raise ValueError(f"{name} is at least 1; got {number}")
