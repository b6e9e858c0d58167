"""Who asks whom: people in a ring, and everybody has to say the number of the one they ask.

Each of the T people has a name, knows the name of the one to ask, and has a number. Following the
arrows leads through all of them and back, so nobody asks the one who asks them.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

T, V = 6, 8  # people, different numbers
C = 2 * T + V  # one row: own name, name of the one to ask, own number


def ring(
    generator: torch.Generator, B: int = 64
) -> tuple[Float[Tensor, "{B} 6 20"], Int[Tensor, "{B} 6"]]:
    """B rings: rows of three one-hot parts, and the number that each person has to say."""
    names, order = (torch.rand(B, T, generator=generator).argsort(-1) for _ in range(2))
    asked = torch.empty_like(order).scatter_(1, order, order.roll(-1, 1))  # whose turn is next
    return people(names, asked, torch.randint(V, (B, T), generator=generator))


def steps_along(steps: int) -> Callable[..., tuple[Float[Tensor, "B 6 20"], Int[Tensor, "B 6"]]]:
    """The task `ring`, but with the number of the person so many steps along the ring.

    In a ring of 6 no one is further away than 3 steps, forwards or backwards.
    """
    if not 1 <= steps <= T // 2:
        raise ValueError(f"in a ring of {T} the steps are 1 to {T // 2}; got {steps}")

    def task(generator: torch.Generator, B: int = 64) -> tuple[Tensor, Tensor]:
        names, order = (torch.rand(B, T, generator=generator).argsort(-1) for _ in range(2))
        asked = torch.empty_like(order).scatter_(1, order, order.roll(-1, 1))
        numbers = torch.randint(V, (B, T), generator=generator)
        to = torch.empty_like(order).scatter_(1, order, order.roll(-steps, 1))
        return people(names, asked, numbers)[0], numbers.gather(1, to)

    return task


def pairs(
    generator: torch.Generator, B: int = 64
) -> tuple[Float[Tensor, "{B} 6 20"], Int[Tensor, "{B} 6"]]:
    """The same people in three pairs: everybody asks their partner, so asking is mutual."""
    names, order = (torch.rand(B, T, generator=generator).argsort(-1) for _ in range(2))
    partner = order.unflatten(1, (T // 2, 2)).flip(-1).flatten(1)
    asked = torch.empty_like(order).scatter_(1, order, partner)
    return people(names, asked, torch.randint(V, (B, T), generator=generator))


def people(
    names: Int[Tensor, "B 6"], asked: Int[Tensor, "B 6"], numbers: Int[Tensor, "B 6"]
) -> tuple[Float[Tensor, "B 6 20"], Int[Tensor, "B 6"]]:
    """The rows that say these names, whom each person asks (by place) and these numbers."""
    parts = one_hot(names, T), one_hot(names.gather(1, asked), T), one_hot(numbers, V)
    return torch.cat(parts, -1).float(), numbers.gather(1, asked)


def most_frequent(x: Float[Tensor, "B 6 20"]) -> Int[Tensor, "B 6"]:
    """What one can say without knowing who asks whom: the number that occurs most often."""
    return x[..., 2 * T :].sum(1).argmax(-1, keepdim=True).expand(-1, T)
