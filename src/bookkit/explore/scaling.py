"""Explorable: fit a scaling law to some of the book's models, and see what it forecasts."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from attnbook.train.scaling_law import WORK, Law, Numbers, joint_law, kaplan_law, power_law
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

SIZES = range(4, 16)  # how many of the smallest models are fitted
FORMS = {"sum": joint_law, "power": kaplan_law}
UNIT = WORK * 1024 * 6.6e6  # FLOPs of the first budget


class ScalingFit(Explorable):
    """Losses of the 16 models of 2,000 steps, or of all sizes and numbers of steps.

    In the first view the law in N is fitted to the `used` smallest, with or without a floor, and
    the reader places a `guess` of the largest one's loss before the rest is shown. In the second
    a law in N and D is fitted to all runs within `budget` (each twice the one before): a sum of two
    powers and a floor, or Kaplan's power of a sum. From the stored runs of `results/scaling.py`.
    """

    tag = "scaling"
    needs = ("axis", "maths")
    question = "Where will the models lie that the fit has not seen?"

    def __init__(self, used: int = 10, view: str = "sizes"):
        if used not in SIZES or view not in ("sizes", "both"):
            raise ValueError(
                f"4 to 15 models are used, and the view is sizes or both; got {used}, {view!r}"
            )
        first = {"view": view, "used": used, "floor": "no floor", "hidden": "hidden"}
        self.begin: dict[str, Any] = {**first, "guess": 1.8, "budget": 3, "form": "sum"}

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {"sizes": sizes(), "grid": grid()}

    def result(self, state: dict) -> dict:
        """The law that is fitted, its miss where it was fitted, and how far others lie above it."""
        if state["view"] == "sizes":
            N, L = (np.array(part) for part in zip(*sizes(), strict=True))
            D, fitted = np.ones_like(N), np.arange(len(N)) < state["used"]
            law = power_law(N[fitted], L[fitted], state["floor"] == "floor")
        else:
            N, D, L = (np.array(part) for part in zip(*grid(), strict=True))
            fitted = budget(N, D) <= state["budget"]
            law = FORMS[state["form"]](N[fitted], D[fitted], L[fitted])
        miss = L - law(N, D)
        rest = miss[~fitted]
        spent = UNIT * np.exp2(np.arange(8, dtype=np.float64))
        best = law.best(spent).tolist() if law.b else []
        return {
            **law._asdict(),
            "miss": float(np.sqrt((miss[fitted] ** 2).mean())),
            "above": float(rest.mean()) if len(rest) else 0.0,
            "fitted": int(fitted.sum()),
            "best": best,
        }

    def cases(self) -> Iterator[dict]:
        for used, floor in product((4, 8, 10, 15), ("no floor", "floor")):
            yield {"used": used, "floor": floor}
        for at, form in product((3, 5, 7), FORMS):
            yield {"view": "both", "budget": at, "form": form}

    def picture(self) -> str:
        """The smallest models, the fit, its forecast for the rest."""
        now, points = self.result(self.begin), sizes()
        law = Law(*(now[name] for name in Law._fields))
        picture = Still(430, 250, self.sentence())
        x = lambda N: 50 + 365 * (np.log10(N) - 2.8) / 3.3  # noqa: E731
        y = lambda L: 205 - 185 * (L - 1.4) / 1.0  # noqa: E731
        ends = np.geomspace(points[0][0], points[-1][0], 40)
        picture.line([(x(N), y(float(law(N)))) for N in ends], "output", 2.4)
        for n, (N, L) in enumerate(points):
            if n < self.begin["used"]:
                picture.bar(x(N) - 4, y(L) - 4, 8, 8, "state")
            else:
                picture.line([(x(N), 30), (x(N), 205)], "line", 1, "3 4")
        for mark in (1.4, 1.6, 1.8, 2.0, 2.2, 2.4):
            picture.text(42, y(mark) + 4, f"{mark:.1f}", "muted", "end", 13)
        for power, name in ((3, "1,000"), (4, "10,000"), (5, "100,000"), (6, "1 million")):
            picture.text(min(395, x(10.0**power)), 224, name, "muted", size=13)
        picture.text(232, 243, "parameters N", "muted", size=13)
        picture.text(52, 14, "held-out loss, nats", "muted", "start", 13)
        return picture.svg()

    def sentence(self) -> str:
        now, N = self.result(self.begin), sizes()[-1][0]
        law = Law(*(now[name] for name in Law._fields))
        return (
            f"Fitted to {now['fitted']} models: α = {now['alpha']:.3f}, typical miss "
            f"{now['miss']:.3f} nats. For the largest the law says {float(law(N)):.2f}. "
            f"And you? Drag the mark, then show the others."
        )


def budget(N: Numbers, D: Numbers) -> Numbers:
    """The number of the budget to which a run belongs: each is twice the one before."""
    return np.asarray(np.round(np.log2(WORK * N * D / UNIT)))


def runs(**settings: object) -> list[dict]:
    """The stored transformers with these settings."""
    found = stored_run("scaling")["runs"]
    wanted = {"cell": "attention", "rate": 1.0, **settings}
    return [run for run in found if all(run[name] == wanted[name] for name in wanted)]


def sizes() -> list[list[float]]:
    """Parameters and loss of each size after 2,000 steps, mean of its seeds."""
    found: dict[float, list[float]] = {}
    for run in runs(steps=2000):
        found.setdefault(float(run["N"]), []).append(run["loss"])
    return [[N, round(sum(L) / len(L), 5)] for N, L in sorted(found.items())]


def grid() -> list[list[float]]:
    """Parameters, characters and loss of each run of the grid, one seed."""
    found = runs(seed=0)
    widths = {run["width"] for run in found if run["steps"] != 2000}
    rows = [run for run in found if run["width"] in widths]
    return [[float(run["N"]), float(run["D"]), run["loss"]] for run in rows]
