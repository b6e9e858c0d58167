"""Sounds that are made, not recorded: three notes in a row over a steady hum, with noise.

Two questions: in which order did the notes come? The answer is in time, and none of it in the
spectrum of the whole. And which of two pitches has the hum? They lie so close that a long look
makes it certain, and short ones only likely.
"""

from collections.abc import Callable
from itertools import permutations
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

RATE = 4000  # samples a second
LENGTH = 1024  # samples in a melody: about a quarter of a second
ORDERS = ["".join(order) for order in permutations("lmh")]  # low, middle, high: six melodies
LOWEST, HIGHEST = 200.0, 1000.0  # where the first harmonic may lie, in hertz
HUMS = (1500.0, 1505.0)  # the two pitches of the hum, in hertz
INTERVAL = 1.12  # neighbouring notes differ by a factor of this at least, two semitones


class Melodies(NamedTuple):
    """Sounds, which of `ORDERS` each is, and which of `HUMS` it has."""

    waves: Float[Tensor, "B samples"]
    order: Int[Tensor, " B"]
    hum: Int[Tensor, " B"]


def melodies(B: int, noise: float = 0.3) -> Callable[[torch.Generator], Melodies]:
    """A sampler of `B` melodies of three notes: a low one, a middle and a high one in some order.

    Pitches, phases and the two moments at which the note changes are random. The notes have a
    standard deviation of 1, the hum of a half; `noise` is that of what is added.
    """
    if B < 1:
        raise ValueError(f"a batch holds at least 1 melody, not {B}")
    if noise < 0:
        raise ValueError(f"a standard deviation is 0 or more, not {noise}")

    def sample(generator: torch.Generator) -> Melodies:
        order = torch.randint(len(ORDERS), (B,), generator=generator)
        pitches = three_pitches(B, generator)  # low, middle, high
        rows = torch.tensor(list(permutations(range(3))))[order]
        changes = LENGTH / 3 * (torch.tensor([1, 2]) + 0.3 * uniform((B, 2), generator))
        which = (torch.arange(LENGTH) >= changes[..., None]).sum(1)  # (B samples), 0 to 2
        hertz = pitches.gather(1, rows).gather(1, which)
        waves = note(hertz, torch.rand(B, 1, generator=generator))
        hum = torch.randint(len(HUMS), (B,), generator=generator)
        steady = torch.tensor(HUMS)[hum, None].expand(B, LENGTH)
        waves += 0.5 * note(steady, torch.rand(B, 1, generator=generator))
        waves += noise * torch.randn(B, LENGTH, generator=generator)
        return Melodies(waves, order, hum)

    return sample


def three_pitches(B: int, generator: torch.Generator) -> Float[Tensor, "B 3"]:
    """Three frequencies in rising order, even on a musical scale, `INTERVAL` apart at least."""
    gap = torch.tensor(INTERVAL).log()
    free = torch.tensor(HIGHEST / LOWEST).log() - 2 * gap
    steps = (free * torch.rand(B, 3, generator=generator)).sort(1).values
    return LOWEST * (steps + gap * torch.arange(3)).exp()


def note(
    hertz: Float[Tensor, "*batch samples"], start: Float[Tensor, "*batch 1"]
) -> Float[Tensor, "*batch samples"]:
    """A sound of variance 1 whose frequency is `hertz` at each sample; `start` in turns, 0 to 1.

    The first harmonic and a weaker second: √2 times the sines of 0.9 and √(1 − 0.9²).
    """
    angle = 2 * torch.pi * (start + hertz.cumsum(-1) / RATE)
    return 2**0.5 * (0.9 * angle.sin() + (1 - 0.9**2) ** 0.5 * (2 * angle).sin())


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Random numbers from −1 to 1."""
    return 2 * torch.rand(shape, generator=generator) - 1
