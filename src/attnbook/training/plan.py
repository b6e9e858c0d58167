"""What training is asked to do and with what: refused before the first step, in plain words."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from torch import nn
from torch.optim import Optimizer

Schedule: TypeAlias = Callable[[int], float]  # step to the factor of the learning rate
Evaluate: TypeAlias = Callable[[Any], Any]  # model to a number or a dictionary of numbers
if TYPE_CHECKING:
    Whole: TypeAlias = SupportsIndex  # int, or NumPy's
    Limit: TypeAlias = float | None
else:
    Whole = Limit = Any  # `Plan` checks these itself, and says in a sentence what it needs


@dataclass(frozen=True)
class Plan:
    """One training run as it is asked for; `train` says what each part means.

    The numbers become Python's own; a ValueError names one that makes no sense.
    """

    steps: Whole
    schedule: Schedule
    seed: Whole = 0
    clip: Limit = 1.0
    every: Whole = 100
    seconds: Limit = None
    evaluate: Evaluate | None = None
    checkpoint: str | Path | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "every": 1, "seed": 0}.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least))
        for name in ("clip", "seconds"):
            object.__setattr__(self, name, above_zero(name, getattr(self, name)))

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint must agree with: of the schedule its start, middle and end."""
        last = operator.index(self.steps) - 1
        probe = [float(self.schedule(step)) for step in (0, (last + 1) // 2, last)]
        return {"steps": self.steps, "seed": self.seed, "clip": self.clip, "schedule": probe}


def whole(name: str, value: Any, least: int) -> int:
    """The value as a whole number, or a ValueError."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"{name} is {value!r}; a whole number, {least} or more, is needed")
    return number


def above_zero(name: str, value: Any) -> float | None:
    """The value as a number above 0, or None for none; otherwise a ValueError."""
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, (str, bool)) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not number > 0:
        raise ValueError(f"{name} is {value!r}; a number above 0, or None for no limit")
    return number


def check_parts(model: nn.Module, optimizer: Optimizer) -> None:
    """A ValueError unless the model can be trained, on one device, by this optimizer."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ValueError("the model has no parameter that can be trained")
    devices = sorted({str(weight.device) for weight in model.parameters()})
    if len(devices) > 1:
        raise ValueError(f"the model lies on {len(devices)} devices: {', '.join(devices)}")
    mine = {id(weight) for weight in model.parameters()}
    theirs = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    strangers = len([weight for weight in theirs if weight not in mine])
    if strangers:
        raise ValueError(
            f"{strangers} of the optimizer's {len(theirs)} tensors are not the model's"
        )
