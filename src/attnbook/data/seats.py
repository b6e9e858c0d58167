"""A table with two questions: what does the person on my left drink, and what does my friend drink?

Twelve people sit around a table. Each has a name, a drink, and a friend at the table of whom they
know the name only. The left neighbour is found by place, the friend by name, and both answers are
drinks.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

SEATS, DRINKS = 12, 10
C = 3 * SEATS + DRINKS  # one row: own seat, own name, name of the friend, own drink

Tables = tuple[Float[Tensor, "B 12 46"], Int[Tensor, "B 12 2"]]


def tables(generator: torch.Generator, B: int = 32) -> Tables:
    """B tables: rows of four one-hot parts, and the two drinks that each person has to say.

    Left is the seat before, that of seat 0 is seat 11. Nobody is their own friend; the friend is
    the left neighbour in 1 of 11 cases.
    """
    names = torch.rand(B, SEATS, generator=generator, dtype=torch.float).argsort(-1)
    drinks = torch.randint(DRINKS, (B, SEATS), generator=generator)
    steps = torch.randint(1, SEATS, (B, SEATS), generator=generator)
    seats = torch.arange(SEATS).expand(B, -1)
    friends = (seats + steps) % SEATS  # where the friend sits: never told
    known = [(seats, SEATS), (names, SEATS), (names.gather(1, friends), SEATS), (drinks, DRINKS)]
    x = torch.cat([one_hot(what, n) for what, n in known], -1).float()
    return x, torch.stack([drinks.roll(1, 1), drinks.gather(1, friends)], -1)


def columns(x: Float[Tensor, "B 12 46"]) -> list[Int[Tensor, "B 12"]]:
    """Seat, name, friend's name and drink of each person, as numbers."""
    return [part.argmax(-1) for part in x.split([SEATS, SEATS, SEATS, DRINKS], -1)]


def wanted(x: Float[Tensor, "B 12 46"]) -> tuple[Bool[Tensor, "B 12 12"], Bool[Tensor, "B 12 12"]]:
    """Where each person's left neighbour sits, and where the friend: one True in each row."""
    _, names, friends, _ = columns(x)
    left = torch.eye(SEATS, dtype=torch.bool, device=x.device).roll(-1, 1)
    return left.expand(len(x), -1, -1), friends[:, :, None] == names[:, None, :]


def most_common(x: Float[Tensor, "B 12 46"]) -> Int[Tensor, "B 12"]:
    """What one can say of the friend without looking for them: the drink most people have.

    Of several that are equally common, the one with the smallest number.
    """
    return x[..., 3 * SEATS :].sum(1).argmax(-1, keepdim=True).expand(-1, SEATS)
