"""Rows of random tokens that come again and again.

Nothing can be predicted in the first copy. From the second token of the second copy on everything
can, by whoever looks back to what followed the same token before. The random sequences of Olsson et
al. 2022, each token once a row.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Repeats = tuple[Int[Tensor, "B T"], Bool[Tensor, "B T-1"]]


def repeats(
    B: int, T: int, V: int, shortest: int, longest: int
) -> Callable[[torch.Generator], Repeats]:
    """A sampler of `B` sequences of `T` tokens: a row of different tokens, over and over.

    Each length of the row, `shortest` to `longest`, is equally likely: with one length only, "look
    so many places back" would do. The second tensor is True where the next token is certain: the
    token now has been there before.
    """
    if B < 1:
        raise ValueError(f"a batch holds at least 1 sequence, not {B}")
    if not 1 <= shortest <= longest:
        raise ValueError(f"rows run from at least 1 upwards, not from {shortest} to {longest}")
    if longest > V:
        raise ValueError(f"{longest} different tokens are more than the vocabulary of {V}")
    if longest + 1 >= T:
        raise ValueError(f"of a row of {longest} nothing is certain within {T} tokens")

    def sample(generator: torch.Generator) -> Repeats:
        length = torch.randint(shortest, longest + 1, (B, 1), generator=generator)
        row = torch.rand(B, V, generator=generator).argsort(1)
        return row.gather(1, torch.arange(T) % length), torch.arange(1, T) > length

    return sample
