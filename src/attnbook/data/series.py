"""Two time series whose making is known, and with it the least error a forecast can have.

Each value is what the past says plus noise of variance 1 that nothing says. So the mean squared
error of the best forecast one step ahead is 1, and no model can do better for long.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

PERIOD = 12  # a year of months
BURN = 240  # steps before the first one that is shown: how it began is forgotten by then

Sampler = Callable[[torch.Generator], Float[Tensor, "B T"]]
Expected = Callable[[Float[Tensor, "*batch T"]], Float[Tensor, "*batch"]]


def seasonal_next(past: Float[Tensor, "*batch T"]) -> Float[Tensor, "*batch"]:
    """What `seasonal` expects next: 0.9 of a year ago, and half of the surprise of last month.

    A seasonal autoregression, linear in 13 past values. Box and Jenkins 1970, chapter 9.
    """
    check_past(past, PERIOD + 1)
    a_year_ago = 0.9 * past[..., -PERIOD]
    surprise = past[..., -1] - 0.9 * past[..., -PERIOD - 1]
    return a_year_ago + 0.5 * surprise


def switching_next(past: Float[Tensor, "*batch T"]) -> Float[Tensor, "*batch"]:
    """What `switching` expects next: 0.9 of the last value, its sign turned in one of two regimes.

    The regime is that of a year ago: was it above or below 0? Linear in each, not in both. A
    threshold autoregression, Tong and Lim 1980.
    """
    check_past(past, PERIOD)
    return 0.9 * past[..., -1] * past[..., -PERIOD].sign()


def seasonal(B: int, T: int) -> Sampler:
    """A sampler of `B` series of `T` months that `seasonal_next` and noise have made."""
    return _sampler(seasonal_next, B, T)


def switching(B: int, T: int) -> Sampler:
    """A sampler of `B` series of `T` months that `switching_next` and noise have made."""
    return _sampler(switching_next, B, T)


def _sampler(expected: Expected, B: int, T: int) -> Sampler:
    if B < 1 or T < 1:
        raise ValueError(f"at least 1 series of 1 month; not {B} of {T}")

    def sample(generator: torch.Generator) -> Float[Tensor, "B T"]:
        series = torch.randn(B, BURN + T, generator=generator)  # the noise: the rest is added
        for t in range(PERIOD + 1, BURN + T):
            series[:, t] += expected(series[:, :t])
        return series[:, BURN:]

    return sample


def check_past(past: Tensor, least: int) -> None:
    """Raise a ValueError unless the past is long enough."""
    if past.shape[-1] < least:
        raise ValueError(f"the forecast needs {least} values, not {past.shape[-1]}")
