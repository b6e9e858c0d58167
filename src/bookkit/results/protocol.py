"""A study that is declared before it is run, and refuses what would make its result a mistake.

    STUDY = Study(
        name="latch", question="…", budget="250 steps", grid={"learning rate": (0.003, 0.01, 0.03)},
        choosing_seeds=range(100, 103), reporting_seeds=range(5), baselines=("chance",),
        no_gain="the interval of the difference contains 0",
    )

Settings are chosen on the choosing seeds and reported on the others. A best setting at the end of
its grid is no best setting: the grid grows until the best lies inside.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

Setting = float
Score = Callable[[Setting, int], float]


class EndOfGrid(ValueError):
    """The best setting is the first or the last that was tried."""


@dataclass(frozen=True)
class Study:
    """What is asked, with how much, and what would count as no gain: said before the first run.

    `grid` names each setting that is chosen, with its values; it may be empty, and then no seeds
    choose. `baselines` are the cheapest things that could do as well.
    """

    name: str
    question: str
    budget: str
    reporting_seeds: Iterable[int]
    baselines: tuple[str, ...]
    no_gain: str
    grid: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    choosing_seeds: Iterable[int] = ()

    def __post_init__(self) -> None:
        for part in ("name", "question", "budget", "no_gain", "baselines"):
            if not getattr(self, part):
                raise ValueError(f"the study {self.name!r} does not say its {part}")
        object.__setattr__(self, "reporting_seeds", tuple(self.reporting_seeds))
        object.__setattr__(self, "choosing_seeds", tuple(self.choosing_seeds))
        if not self.reporting_seeds:
            raise ValueError(f"the study {self.name!r} has no seeds to report")
        both = sorted(set(self.choosing_seeds) & set(self.reporting_seeds))
        if both:
            raise ValueError(f"seeds {both} would choose and be reported")
        if bool(self.grid) != bool(self.choosing_seeds):
            raise ValueError("a grid needs seeds that choose from it, and these need a grid")
        for what, values in self.grid.items():
            if len(values) < 3 or list(values) != sorted(set(values)):
                raise ValueError(f"the grid of {what} needs three values or more, in order")

    def choose(
        self,
        what: str,
        score: Score,
        higher: bool = False,
        grow: int = 4,
        baseline: float | None = None,
    ) -> tuple[Setting, dict[Setting, float]]:
        """The value of the setting `what` with the best mean score over the choosing seeds.

        `score(value, seed)` is lower for better unless `higher`; NaN or infinity is the worst. If
        the best stands at an end, a value beyond it is tried, as far away as its neighbour on a
        logarithmic scale, at most `grow` times; then EndOfGrid is raised. Where nothing that was
        tried is better than the `baseline`'s score there is nothing to choose, and the best of the
        values inside the declared grid is taken. Returns the value and the mean score of all that
        were tried.
        """
        sign = -1.0 if higher else 1.0
        tried: dict[Setting, float] = {}

        def mean(value: Setting) -> float:
            if value not in tried:
                tried[value] = fmean(score(value, seed) for seed in self.choosing_seeds)
            found = sign * tried[value]
            return found if found == found else float("inf")

        values = list(self.grid[what])
        for more in range(grow + 1):
            best = min(values, key=mean)
            if best not in (values[0], values[-1]):
                return best, {value: tried[value] for value in values}
            if more < grow:
                low = best == values[0]
                beyond = best * best / values[1 if low else -2]
                values.insert(0 if low else len(values), float(f"{beyond:.3g}"))
        if baseline is not None and min(map(mean, tried)) >= sign * baseline:
            return min(self.grid[what][1:-1], key=mean), tried
        raise EndOfGrid(
            f"{self.name}: the best {what}, {best:g}, is an end of {values}; the grid has to grow"
        )

    def report(self, measure: Callable[[int], Any], seeds: Iterable[int] | None = None) -> list:
        """`measure` of each reporting seed; ValueError for a seed that is not one of them."""
        asked = tuple(self.reporting_seeds if seeds is None else seeds)
        chosen = [seed for seed in asked if seed in self.choosing_seeds]
        if chosen:
            raise ValueError(f"seeds {chosen} chose the setting, they cannot be reported")
        unknown = [seed for seed in asked if seed not in self.reporting_seeds]
        if unknown:
            raise ValueError(f"seeds {unknown} were not declared as reporting seeds")
        return [measure(seed) for seed in asked]

    def declared(self) -> dict[str, Any]:
        """The declaration as it is stored beside the result."""
        return {
            "question": self.question,
            "budget": self.budget,
            "grid": {what: list(values) for what, values in self.grid.items()},
            "choosing_seeds": list(self.choosing_seeds),
            "reporting_seeds": list(self.reporting_seeds),
            "baselines": list(self.baselines),
            "no_gain": self.no_gain,
        }


class Runs:
    """What was measured so far, in a file; a run that is there is not measured again."""

    def __init__(self, draft: Path, write: Callable[[Path, dict[str, Any]], None]) -> None:
        self.draft, self.write = draft, write
        self.found: dict[str, Any] = json.loads(draft.read_text("utf-8")) if draft.exists() else {}

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The stored run of this key, or what `compute` finds, stored."""
        if key not in self.found:
            self.found[key] = compute()
            self.write(self.draft, self.found)
            print(key, str(self.found[key])[:100], flush=True)
        return self.found[key]


def committed(script: Path | None = None) -> str:
    """Git's name of the script's content, as committed; RuntimeError if it is not, or was changed.

    Called before the first run, so that what would count as no gain is on record before a result.
    Unlike a commit's, this name stays when history is rewritten: `git log --find-object=<name>`
    tells when the declaration came in. (Runs stored before have the commit's name of that day.)
    """
    path = Path(script or sys.argv[0]).resolve()

    def git(*words: str) -> str:
        found = subprocess.run(["git", *words], cwd=path.parent, capture_output=True, text=True)
        return found.stdout.strip()

    content = git("rev-parse", "--verify", "--quiet", f"HEAD:./{path.name}")
    if not content or git("status", "--porcelain", "--", path.name):
        raise RuntimeError(f"commit {path.name} first: a study is declared before it is run")
    return content
