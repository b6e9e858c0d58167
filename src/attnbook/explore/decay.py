"""Explorable: the gradient through a linear recurrence, against spectral radius and skewness."""

import torch
from torch import Tensor

from attnbook.explore.element import Explorable

STEPS = 50


class Decay(Explorable):
    """‖Wᵏ‖ for W = [[r, s], [0, r/2]]: its eigenvalues are r and r/2, whatever s is.

    `radius` r (0.5 to 1.5) and `skew` s (0 to 3) are where the sliders start.
    """

    tag = "decay"

    def __init__(self, radius: float = 0.9, skew: float = 0.0):
        if not 0.5 <= radius <= 1.5 or not 0 <= skew <= 3:
            raise ValueError(f"radius is 0.5 to 1.5, skew 0 to 3; got {radius} and {skew}")
        self.radius, self.skew = radius, skew

    @staticmethod
    def norms(radius: float, skew: float) -> Tensor:
        """The spectral norm of W⁰ … W⁵⁰ (51,), in float64, as the browser must compute it."""
        W = torch.tensor([[radius, skew], [0, radius / 2]], dtype=torch.float64)
        powers = [torch.linalg.matrix_power(W, k) for k in range(STEPS + 1)]
        return torch.linalg.matrix_norm(torch.stack(powers), ord=2)

    def numbers(self) -> dict:
        return {"radius": self.radius, "skew": self.skew}

    def still(self) -> str:
        """The curve at the start, on a logarithmic axis from 10⁻¹⁶ to 10¹⁰."""
        powers = self.norms(self.radius, self.skew).log10().clamp(-16, 10)
        points = " ".join(f"{7 * k:.0f},{8 * (10 - p):.0f}" for k, p in enumerate(powers.tolist()))
        label = f"gradient after {STEPS} steps: 10 to the power {powers[-1]:.0f}"
        line = f'<polyline points="{points}" fill="none" stroke="#D55E00" stroke-width="3"/>'
        return (
            f'<svg viewBox="0 0 360 220" width="360" role="img" aria-label="{label}">{line}</svg>'
        )
