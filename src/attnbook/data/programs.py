"""Programs of assignments and questions, where order is everything: what is the value of a?

`a=3` assigns and `a?` asks. The answer is what the letter was assigned last, or, in the other task,
what it was assigned first: so the answer is near, or as far away as it can be.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

LETTERS, VALUES = 4, 8
V = LETTERS * VALUES + LETTERS  # tokens: 0 is a=0, 8 is b=0, … 31 is d=7, then four questions

Programs: TypeAlias = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"], Bool[Tensor, "B T"]]


def programs(T: int, B: int = 32, first: bool = False) -> Callable[[torch.Generator], Programs]:
    """The task for B programs of T tokens: tokens, answers, and where a question has an answer.

    The answer to a question is the value that its letter was assigned last before it, or with
    `first` the one that it was assigned first. A question before any assignment has none.
    """
    if T < 2 or B < 1:
        raise ValueError(f"a program has at least 2 tokens, a batch 1 program; got {T} and {B}")

    def task(generator: torch.Generator) -> Programs:
        letter = torch.randint(LETTERS, (B, T), generator=generator)
        value = torch.randint(VALUES, (B, T), generator=generator)
        asks = torch.rand(B, T, generator=generator) < 0.4
        tokens = torch.where(asks, LETTERS * VALUES + letter, VALUES * letter + value)
        same = (letter[:, :, None] == letter[:, None]) & ~asks[:, None]
        before = same & torch.ones(T, T, dtype=torch.bool).tril()  # (B, Tq, Tk)
        place = torch.arange(T)
        if first:
            found = torch.where(before, place, T).amin(-1)
        else:
            found = torch.where(before, place, -1).amax(-1)
        there = (found >= 0) & (found < T)
        return tokens, value.gather(1, found.clamp(0, T - 1)), asks & there

    return task


def spelled(tokens: Int[Tensor, " T"]) -> list[str]:
    """The program in letters: a=3, b?, …"""
    letters = "abcd"
    return [
        f"{letters[t // VALUES]}={t % VALUES}"
        if t < LETTERS * VALUES
        else f"{letters[t % VALUES]}?"
        for t in tokens.tolist()
    ]
