"""Recall: pairs of a name and a number are read, and a number is asked for by its name.

The associative recall of Arora et al. 2024 (Zoology), cut to what one look can answer. In `pairs`
every position reads a pair and is asked a question. In `later` the pairs come first, then words
that say nothing, then the questions, so that an answer lies far back.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

T, NAMES, NUMBERS, OFTEN = 64, 64, 16, 16  # `OFTEN` names, where they return
KNOWN, KINDS, FILLING, GAP = 16, 8, 16, 20  # names, numbers and idle words of `later`, its gap
V = KNOWN * KINDS + KNOWN + FILLING  # a token for each pair, each question, each idle word

Pairs = tuple[Int[Tensor, "B T 3"], Int[Tensor, "B T"]]
Later = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"], Bool[Tensor, " T"]]


def pairs(returning: bool = False) -> Callable[..., Pairs]:
    """A sampler of B lists of 64 pairs: (name, number, name asked for) at each position.

    The answer is the number of the name asked for. Each of 64 names comes once; with `returning`
    each of 16 names comes again and again, with a new number, and the newest one is right.
    """

    def sample(generator: torch.Generator, B: int = 32) -> Pairs:
        if returning:
            names = torch.randint(OFTEN, (B, T), generator=generator)
        else:
            names = torch.rand(B, NAMES, generator=generator, dtype=torch.float).argsort(-1)
        numbers = torch.randint(NUMBERS, (B, T), generator=generator)
        share = torch.rand(B, T, generator=generator, dtype=torch.float)
        which = (share * torch.arange(1, T + 1)).long()  # one of those read so far
        asked = names.gather(1, which)
        read = torch.ones(T, T, dtype=torch.bool).tril()
        same = (names[:, None, :] == asked[:, :, None]) & read
        newest = (same * torch.arange(1, T + 1)).argmax(-1)
        return torch.stack([names, numbers, asked], -1), numbers.gather(1, newest)

    return sample


def newest_of(x: Int[Tensor, "B T 3"], last: int) -> Float[Tensor, " T"]:
    """What one can know who remembers the last so many pairs and guesses otherwise: right answers.

    By position, the mean over the batch.
    """
    names, asked = x[..., 0], x[..., 2]
    near = torch.ones(T, T, dtype=torch.bool).tril().triu(1 - last)
    there = ((names[:, None, :] == asked[:, :, None]) & near).any(-1).float().mean(0)
    return there + (1 - there) / NUMBERS


def later(count: int = 8) -> Callable[..., Later]:
    """A sampler of B texts: `count` pairs, 20 idle words, as many questions; and their answers.

    A token is a pair, a question or an idle word; the third tensor is True at the questions. From a
    question to its answer there are 21 positions or more.
    """
    if not 1 <= count <= KNOWN:
        raise ValueError(f"1 to {KNOWN} names can be known; got {count}")

    def sample(generator: torch.Generator, B: int = 32) -> Later:
        names = torch.rand(B, KNOWN, generator=generator, dtype=torch.float).argsort(-1)
        names = names[:, :count]
        numbers = torch.randint(KINDS, (B, count), generator=generator)
        order = torch.rand(B, count, generator=generator, dtype=torch.float).argsort(-1)
        idle = torch.randint(V - FILLING, V, (B, GAP), generator=generator)
        asked = KNOWN * KINDS + names.gather(1, order)
        tokens = torch.cat((names * KINDS + numbers, idle, asked), 1)
        answers = torch.zeros_like(tokens)
        answers[:, -count:] = numbers.gather(1, order)
        return tokens, answers, torch.arange(tokens.shape[1]) >= count + GAP

    return sample
