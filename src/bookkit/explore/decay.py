"""Explorable: the gradient through a linear recurrence, against spectral radius and skewness."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number, power

STEPS = 50


class Decay(Explorable):
    """‖Uᵏ‖ for U = [[r, s], [0, r/2]]: its eigenvalues are r and r/2, whatever s is.

    `radius` r (0.5 to 1.5) and `skew` s (0 to 3) are where the numbers start.
    """

    tag = "decay"
    needs = ("maths", "axis")
    question = "What is left of a gradient, k steps back?"

    def __init__(self, radius: float = 0.9, skew: float = 0.0):
        if not 0.5 <= radius <= 1.5 or not 0 <= skew <= 3:
            raise ValueError(f"radius is 0.5 to 1.5, skew 0 to 3; got {radius} and {skew}")
        self.radius, self.skew = radius, skew

    @staticmethod
    def norms(radius: float, skew: float) -> Tensor:
        """The spectral norm of U⁰ … U⁵⁰ (51,), in float64, as the browser must compute it."""
        U = torch.tensor([[radius, skew], [0, radius / 2]], dtype=torch.float64)
        powers = [torch.linalg.matrix_power(U, k) for k in range(STEPS + 1)]
        return torch.linalg.matrix_norm(torch.stack(powers), ord=2)

    def start(self) -> dict:
        rises = self.norms(self.radius, self.skew).argmax() > 0
        return {"radius": self.radius, "skew": self.skew, "steps": 10 if rises else STEPS}

    def result(self, state: dict) -> dict:
        """The norms of all powers, and the largest singular value of U."""
        norms = self.norms(state["radius"], state["skew"]).tolist()
        return {"norms": norms, "largest": norms[1]}

    def cases(self) -> Iterator[dict]:
        for radius, skew in itertools.product((0.5, 0.85, 1.0, 1.5), (0.0, 0.25, 1.25, 3.0)):
            yield {"radius": radius, "skew": skew}

    def picture(self) -> str:
        """The norms and the powers of r on a logarithmic axis."""
        steps = self.start()["steps"]
        norms = self.norms(self.radius, self.skew)[: steps + 1].log10().tolist()
        rates = [k * torch.tensor(self.radius).log10().item() for k in range(steps + 1)]
        low, high = min(norms + rates), max(norms + rates)
        high = max(high, low + 0.1)
        place = [(40 + 310 * k / steps, 1 / (high - low)) for k in range(steps + 1)]
        picture = Still(360, 220, f"gradient after 0 to {steps} steps, on a logarithmic axis")
        for values, role, width in ((rates, "muted", 1.5), (norms, "gradient", 3)):
            points = [
                (x, 15 + 170 * (high - y) * s) for (x, s), y in zip(place, values, strict=True)
            ]
            picture.line(points, role, width, "7 5" if role == "muted" else "")
        for y, exponent in ((20, high), (190, low)):
            picture.text(34, y, number(10**exponent), "muted", "end", 12)
        picture.text(195, 212, f"steps back, 0 to {steps}", "muted", size=12)
        return picture.svg()

    def sentence(self) -> str:
        norms = self.norms(self.radius, self.skew)
        peak, end = int(norms.argmax()), power(norms[STEPS].item())
        said = f"{STEPS} steps back, a gradient has been multiplied by up to {end}."
        if 0 < peak < STEPS:
            said += f" On the way it grows, to {power(norms[peak].item())} at step {peak}."
        return said
