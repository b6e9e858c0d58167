"""Which windows of a text a step reads, and which process reads which of them.

A step's windows follow from seed and step alone. So a run that goes on needs to know no more than
its step, and any number of processes read the same windows, each once.
"""

import torch
from jaxtyping import Int
from torch import Tensor

Pair = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]


class Batches:
    """Windows of `T` tokens that do not overlap, in an order of its own for each epoch.

    In one epoch no token is a target twice, whoever reads it. Where the first window begins differs
    from epoch to epoch. Windows that fill no batch are left out of the epoch. Raises ValueError if
    the text has fewer windows than a batch of `B`.
    """

    def __init__(self, tokens: Int[Tensor, " N"], T: int, B: int, seed: int = 0):
        self.tokens, self.T, self.B, self.seed = tokens, T, B, seed
        self.windows = max(1, (len(tokens) - 1) // T - 1)
        if len(tokens) <= T or self.windows < B:
            raise ValueError(
                f"{len(tokens)} tokens are too few for a batch of {B} windows of {T}: "
                f"at least {(B + 1) * T + 1} are needed"
            )
        self.steps = self.windows // B  # in an epoch
        self.epoch, self.order, self.shift = -1, torch.empty(0, dtype=torch.long), 0

    def first(self, step: int) -> Int[Tensor, " B"]:
        """Where each of the step's windows begins."""
        epoch, place = divmod(step, self.steps)
        if epoch != self.epoch:
            dice = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            room = len(self.tokens) - 1 - self.windows * self.T
            self.shift = int(torch.randint(room + 1, (), generator=dice))
            self.order = torch.randperm(self.windows, generator=dice)
            self.epoch = epoch
        return self.shift + self.T * self.order[place * self.B : (place + 1) * self.B]

    def pieces(self, step: int, rank: int = 0, world: int = 1, parts: int = 1) -> list[Pair]:
        """What process `rank` of `world` reads in this step, in `parts` pieces: tokens, and what
        follows each."""
        mine = self.first(step).chunk(world)[rank]
        return [windows_at(self.tokens, first, self.T) for first in mine.chunk(parts)]


def windows_at(tokens: Int[Tensor, " N"], first: Int[Tensor, " B"], T: int) -> Pair:
    """Windows of `T` tokens from these places on, and what follows each token."""
    places = first[:, None] + torch.arange(T + 1)
    found = tokens[places].long() & 0xFFFF  # 16 bits without a sign, which torch cannot index
    return found[:, :-1], found[:, 1:]


def check_shares(B: int, world: int, parts: int) -> None:
    """Raise a ValueError unless a batch can be dealt out evenly."""
    if B % (world * parts):
        raise ValueError(
            f"a batch of {B} windows cannot be dealt out evenly to {world} processes in {parts} "
            f"pieces each: take a multiple of {world * parts}"
        )
