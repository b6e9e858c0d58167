"""Counting: after each bit, how many ones have there been, modulo 2 or another small number?

Modulo 2 it is parity. A state of two values is enough, if it can be turned around.
"""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

Counted = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]


def counting(T: int, modulus: int = 2) -> Callable[..., Counted]:
    """A sampler of B sequences of T random bits, and the count of ones so far modulo `modulus`."""
    if T < 1 or modulus < 2:
        raise ValueError(f"1 bit or more and a modulus of 2 or more fit; got {T} and {modulus}")

    def sample(generator: torch.Generator, B: int = 64) -> Counted:
        bits = torch.randint(2, (B, T), generator=generator)
        return bits, bits.cumsum(1) % modulus

    return sample
