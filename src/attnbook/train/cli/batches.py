"""Batches: which windows of a text a step reads, and which process reads which of them.

A step's windows follow from seed and step alone. So a run that goes on needs to know no more than
its step, and any number of processes read the same windows, each once.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from attnbook.train.run import Callback, Run

Pair = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]


class Batches(Callback):
    """Windows of `T` tokens that do not overlap, in an order of its own for each epoch.

    In one epoch no token is a target twice, whoever reads it. Where the first window begins differs
    from epoch to epoch. Windows that fill no batch are left out of the epoch. Raises ValueError if
    the text has fewer windows than a batch of `B`.

    Called, as `train` calls its sampler, it returns the next micro-batch of process `rank` of
    `world`; a step has `accumulate` of them. As a callback it starts at the run's step.
    """

    def __init__(
        self,
        tokens: Int[Tensor, " N"],
        T: int,
        B: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        accumulate: int = 1,
    ):
        self.tokens, self.T, self.B, self.seed = tokens, T, B, seed
        self.rank, self.world, self.accumulate, self.drawn = rank, world, accumulate, 0
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
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            room = len(self.tokens) - 1 - self.windows * self.T
            self.shift = int(torch.randint(room + 1, (), generator=generator))
            self.order = torch.randperm(self.windows, generator=generator)
            self.epoch = epoch
        return self.shift + self.T * self.order[place * self.B : (place + 1) * self.B]

    def on_start(self, run: Run) -> None:
        self.drawn = run.history.steps * self.accumulate

    def __call__(self, generator: torch.Generator) -> Pair:
        """Tokens, and what follows each. The generator is not used."""
        step, number = divmod(self.drawn, self.accumulate)
        self.drawn += 1
        return self.micro_batches(step)[number]

    def micro_batches(self, step: int) -> list[Pair]:
        """What this process reads in a step."""
        mine = self.first(step).chunk(self.world)[self.rank]
        return [windows_at(self.tokens, first, self.T) for first in mine.chunk(self.accumulate)]


def windows_at(tokens: Int[Tensor, " N"], first: Int[Tensor, " B"], T: int) -> Pair:
    """Windows of `T` tokens from these places on, and what follows each token."""
    places = first[:, None] + torch.arange(T + 1)
    found = tokens[places].long() & 0xFFFF  # 16 bits without a sign, which torch cannot index
    return found[:, :-1], found[:, 1:]


def check_divides(B: int, world: int, accumulate: int) -> None:
    """Raise a ValueError unless a batch can be divided evenly."""
    if B % (world * accumulate):
        raise ValueError(
            f"a batch of {B} windows cannot be divided evenly among {world} processes in "
            f"{accumulate} micro-batches each: take a multiple of {world * accumulate}"
        )
