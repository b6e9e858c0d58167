"""The settings of a run on the ward, and how one of them is changed."""

import math
from dataclasses import dataclass, replace
from typing import Any

from attnlabs.lab09.language import LENGTH

STEPS = 145


@dataclass(frozen=True)
class Settings:
    """How a run is trained; the defaults are healthy.

    `rate` is AdamW's highest learning rate, reached after `warmup` steps, and `decay` its weight
    decay. `scale` multiplies the first weights. The causal mask is `tril(diagonal)`; the loss
    compares a position with the token `shift` places on. Gradients are set to zero before each
    step if `zeroed` is 1. `characters` is how many letters of the text are trained on.
    """

    rate: int | float = 1e-2
    warmup: int = 20
    decay: int | float = 0.1
    scale: int | float = 1.0
    diagonal: int = 0
    shift: int = 1
    zeroed: int = 1
    characters: int = LENGTH


# What each setting may be, from … to
RANGES: dict[str, tuple[float, float]] = {
    "rate": (1e-7, 10),
    "warmup": (0, STEPS - 1),
    "decay": (0, 60),
    "scale": (1e-3, 100),
    "diagonal": (0, 3),
    "shift": (0, 1),
    "zeroed": (0, 1),
    "characters": (100, LENGTH),
}
NAMES = ("nothing", *RANGES)  # a setting's number is its place in here
WHOLE = {"warmup", "diagonal", "shift", "zeroed", "characters"}


def changed(settings: Settings, name: str, value: float) -> Settings:
    """The same with one setting changed; ValueError if there is none of that name or value."""
    if name not in RANGES:
        raise ValueError(f"there is no setting {name!r}; there are {', '.join(RANGES)}")
    low, high = RANGES[name]
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name} is from {low:g} to {high:g}, not {value:g}")
    if name in WHOLE and value != round(value):
        raise ValueError(f"{name} is a whole number, not {value:g}")
    change: dict[str, Any] = {name: round(value) if name in WHOLE else float(value)}
    return replace(settings, **change)
