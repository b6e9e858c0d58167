"""What a student of lab 12 works with: a budget of compute, a trainer that keeps the ledger."""

import json
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnlabs.lab12 import plan
from attnlabs.lab12.family import Run, corpus, train
from attnlabs.lab12.forecasts import HEAD, aligned, line, name
from attnlabs.lab12.plan import BUDGET, COLUMNS, LARGEST

PRACTICE = Path(__file__).parent / "stored" / "practice.json"
Table = Float[Tensor, "runs 8"]
Forecast = Callable[[Tensor, Tensor], Any]  # of runs and a target; (forecast, low, high)


class Desk:
    """The budget of the student whose `check` this is; the same for each who has none.

    `ledger` has the runs that are there already: asked for once more they cost nothing. New ones
    are also kept in the file `path`.
    """

    def __init__(
        self,
        check: object,
        ledger: Sequence[Sequence[int | float]] = (),
        path: str | Path = "lab12-ledger.json",
    ) -> None:
        words = getattr(check, "keywords", {})
        self.student = str(words.get("student", ""))
        self.world = plan.world_of(self.student)
        self._path, kept = Path(path), [tuple(row) for row in ledger]
        if self._path.exists():
            kept += [tuple(row) for row in json.loads(self._path.read_text("utf-8"))]
        self._rows = list({row[:5]: row for row in kept}.values())

    @property
    def V(self) -> int:
        """How many kinds of characters the text has."""
        return corpus(self.world)[2]

    @property
    def spent(self) -> float:
        """Gigaflops of all runs so far."""
        return round(sum((row[5] for row in self._rows), 0.0), 3)

    @property
    def runs(self) -> Table:
        """The ledger as a table, in the order of the runs; see `plan.COLUMNS`."""
        return torch.tensor(self._rows, dtype=torch.float64).reshape(-1, len(COLUMNS))

    def steps(self, width: int, layers: int, gigaflops: int | float) -> int:
        """So many steps of this model cost at most so many gigaflops."""
        return plan.steps_for(self.world, width, layers, gigaflops)

    def train(self, width: int, layers: int, rate: float, steps: int, seed: int = 0) -> float:
        """Train a run, write it into the ledger, and return its loss on held-out text.

        ValueError for settings outside of the family, a run that is too large, or one that the
        budget no longer pays for.
        """
        run = Run(width, layers, rate, steps, seed)
        if words := plan.wrong_with(run):
            raise ValueError(words)
        key = (width, layers, rate, steps, seed)
        known = next((row for row in self._rows if row[:5] == key), None)
        if known is None:
            cost = plan.gigaflops(self.world, run)
            if cost > LARGEST:
                raise ValueError(f"{cost:.1f} gigaflops are too many for a run; {LARGEST} may be")
            if self.spent + cost > BUDGET:
                left = BUDGET - self.spent
                raise ValueError(f"{cost:.1f} gigaflops are asked for, and {left:.1f} are left")
            own = Run(width, layers, rate, steps, plan.seed_of(self.student, seed))
            found = train(self.world, own)
            known = (*key, cost, round(found.first, 4), round(found.loss, 4))
            self._rows.append(known)
            self._path.write_text(json.dumps(self._rows), encoding="utf-8")
        return known[-1]

    def show(self) -> None:
        """Print the ledger as it is typed into the notebook, and what is left of the budget."""
        print("LEDGER = [")
        for row in self._rows:
            print(f"    ({', '.join(f'{value:g}' for value in row)}),")
        print(f"]  # {self.spent:.1f} of {BUDGET} gigaflops are spent")

    def menu(self) -> list[tuple[int, int, float, int, float]]:
        """The target's recipes: width, layers, rate, steps and gigaflops."""
        return [
            (run.width, run.layers, float(run.rate), run.steps, plan.gigaflops(self.world, run))
            for run in plan.menu(self.world)
        ]

    def forecasts(self, forecast: Forecast) -> None:
        """Print what a method forecasts beside what runs reached: those of the practice text, the
        best of your largest runs from the smaller ones, and the recipes of the target's menu, whose
        losses grading has."""
        lines = [HEAD]
        for runs, target, reached in self.practice:
            lines += row_of("practice", forecast, runs, target, reached)
        largest = self.runs[self.runs[:, 5] > 0.75 * LARGEST]
        if len(largest):
            best = largest[largest[:, 7].argmin()]
            smaller = self.runs[self.runs[:, 5] < best[5] / 1.5]
            lines += row_of("held back", forecast, smaller, best[[0, 1, 2, 3, 5]], best[7].item())
            for recipe in self.menu():
                target = torch.tensor(recipe, dtype=torch.float64)
                lines += row_of("target", forecast, self.runs, target, None)
        if len(lines) > 1:
            print(aligned(lines))

    @cached_property
    def practice(self) -> list[tuple[Table, Float[Tensor, " 5"], float]]:
        """Another text whose large runs are known: for each recipe the runs of a ledger, the
        target (width, layers, rate, steps, gigaflops), and the loss that it reached."""
        kept = json.loads(PRACTICE.read_text("utf-8"))
        runs = torch.tensor(kept["ledger"], dtype=torch.float64)
        rows = torch.tensor(kept["targets"], dtype=torch.float64)
        return [(runs, row[:5], row[5].item()) for row in rows]


def row_of(
    kind: str, forecast: Forecast, runs: Tensor, target: Tensor, reached: float | None
) -> list[list[str]]:
    """The row of one run; none of a method that is not written yet, dashes of one that stops."""
    width, layers, rate, _, gigaflops = target.tolist()
    run = f"{kind}: {name(width, layers, rate, gigaflops)}"
    try:
        answer = forecast(runs.clone(), target.clone())
        if answer is None or answer is ...:
            return []
        found = [float(value) for value in answer]
        if len(found) != 3 or not all(map(math.isfinite, found)):
            raise ValueError("three numbers are needed")
    except Exception:  # a method that cannot do with so few runs; the notebook goes on
        shown = "–" if reached is None else f"{reached:.3f}"
        return [[run, "–", "–", "–", shown, "–", "–"]]
    return [line(run, found, reached)]
