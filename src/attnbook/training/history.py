"""What training leaves behind besides the weights: its history, or an error that has it."""

from dataclasses import dataclass, field
from typing import Any


class NonFiniteLoss(RuntimeError):
    """The loss or its gradient is no longer a number; the weights are still those before.

    `history` is what happened until then.
    """

    history: "History"


@dataclass
class History:
    """What happened in training: `loss` and `grad_norm` (before clipping) of each step,
    `evaluations` as pairs (step, {name: number}), `seconds` spent on steps, and whether it
    was `interrupted`."""

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    evaluations: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def steps(self) -> int:
        return len(self.loss)

    def evaluated(self, name: str = "value") -> tuple[list[int], list[float]]:
        """One evaluated number as a curve: (steps, values). A bare number is called "value"."""
        if self.evaluations and name not in self.evaluations[0][1]:
            names = ", ".join(self.evaluations[0][1])
            raise ValueError(f"nothing called {name!r} was evaluated; there is {names}")
        steps = [step for step, _ in self.evaluations]
        return steps, [values[name] for _, values in self.evaluations]

    def __repr__(self) -> str:
        return f"History: {self.steps} steps" + (", interrupted" if self.interrupted else "")


def named(value: Any) -> dict[str, float]:
    """What `evaluate` returned as {name: float}; a bare number is called "value"."""
    numbers = value if isinstance(value, dict) else {"value": value}
    try:
        return {name: float(number) for name, number in numbers.items()}
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"evaluate returned {value!r}; a number or a dictionary of numbers is needed"
        ) from error
