"""The arguments that a lab's functions are tried on, drawn from a generator of random numbers."""

import torch
from torch import Tensor


def normal(numbers: torch.Generator, *shape: int) -> Tensor:
    """Normal numbers with two decimals, so that they are stored in few letters and exactly."""
    return torch.randn(*shape, generator=numbers).mul(100).round().div(100)


def distinct(numbers: torch.Generator, rows: int, length: int) -> Tensor:
    """Rows of numbers like `normal`, of which no two in a row are equal: what is largest is so
    by more than any way of rounding."""
    steps = torch.rand(rows, length, generator=numbers).argsort(-1) * 3 / length
    return steps.mul(100).round().div(100) + normal(numbers, rows, 1) - 1.5


def small(numbers: torch.Generator, *shape: int) -> Tensor:
    """Weights of a usual size: a layer's outputs stay of order 1."""
    return normal(numbers, *shape).mul(50).round().div(100)


def whole(numbers: torch.Generator, low: int, high: int, *shape: int) -> Tensor:
    """Whole numbers from `low` to below `high`, such as tokens."""
    return torch.randint(low, high, shape, generator=numbers)


def look(numbers: torch.Generator, *shape: int) -> Tensor:
    """A random mask in which each row has something to see and something hidden."""
    mask = torch.rand(*shape, generator=numbers) < 0.6
    for row in range(shape[-2]):
        mask[..., row, row % shape[-1]], mask[..., row, (row + 2) % shape[-1]] = True, False
    return mask
