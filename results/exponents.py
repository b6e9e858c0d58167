"""How sure are the exponents of chapter 12, and what do they hang on?

    python results/exponents.py        # minutes on one core; reads scaling.json

Question. How does the best size grow with the work, N ∝ F^x, by each way to read it off the same 52
runs; and does Kaplan's form forecast better than Hoffmann's, if runs of few steps are left out?
Budget. No training: the stored runs of `scaling.py`, one seed each, 125 to 4,000 steps.
Grid. None. What is varied is the recipe of the analysis: parabola, lowest run, the two laws; which
budgets of work; the least number of steps.
Reporting seed 0, of the bootstrap. Intervals of 95 %: runs drawn with replacement (for parabolas
and laws), and noise as large as between two seeds added to every loss (for all).
Baselines. The published exponents 0.5 and 0.73; for the forecast, that each new run is as good as
the best of the runs seen.
No gain. The runs do not decide between 0.5 and 0.73 if an interval contains both, or if recipes
disagree by more than the distance between them. A forecast is not better if the interval of the
difference of the two typical misses contains 0.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnbook import device
from attnbook.provenance import provenance, write
from attnbook.train.scaling_law import Law, joint_law, kaplan_law
from bookkit.explore.scaling import UNIT, grid
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import bootstrap
from bookkit.results.stored_run import stored_run

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "exponents.json"
STUDY = Study(
    name="exponents",
    question="How sure are the exponents, and what do they hang on?",
    budget="no training; 52 stored runs of 125 to 4,000 steps",
    reporting_seeds=(0,),
    baselines=("0.5 of Hoffmann et al.", "0.73 of Kaplan et al.", "the best run seen"),
    no_gain="an interval contains both, or the recipes disagree by more than their distance",
)
Numbers = NDArray[np.float64]
LAWS: dict[str, Callable[..., Law]] = {"Hoffmann": joint_law, "Kaplan": kaplan_law}
BUDGETS = {"0 to 4": range(5), "0 to 3": range(4), "1 to 4": range(1, 5), "1 to 3": range(1, 4)}
BUDGETS["all seven"] = range(7)
LEAST = (125, 250, 500, 1000)
EARLY = 2e11  # FLOPs: what is fitted before the forecast
LAW_DRAWS, DRAWS = 200, 1000


def seed_noise() -> float:
    """The standard deviation of a loss between seeds, from sizes trained with two."""
    found: dict[tuple, list[float]] = {}
    for run in stored_run("scaling")["runs"]:
        if run["cell"] == "attention" and run["rate"] == 1.0:
            found.setdefault((run["width"], run["steps"]), []).append(run["loss"])
    pairs = [losses for losses in found.values() if len(losses) == 2]
    return float(np.sqrt(np.mean([(a - b) ** 2 / 2 for a, b in pairs])))


def on_line(runs: Numbers, k: int) -> Numbers:
    """The runs of the budget number k, by size."""
    N, D, _ = runs.T
    here = runs[np.round(np.log2(6 * N * D / UNIT)) == k]
    return here[np.argsort(here[:, 0])]


def slope(work: list[float], best: list[float]) -> float:
    """The exponent of a straight line through the best sizes."""
    return float(np.polyfit(np.log(work), np.log(best), 1)[0]) if len(work) > 1 else float("nan")


def by_parabola(ks: range, runs: Numbers) -> float:
    """A parabola in log N through each line, and a line through the lowest points."""
    work, best = [], []
    for k in ks:
        line = on_line(runs, k)
        if len(np.unique(line[:, 0])) < 3:
            return float("nan")
        bend, tilt, _ = np.polyfit(np.log(line[:, 0]), line[:, 2], 2)
        if bend <= 0:  # no lowest point
            return float("nan")
        work.append(UNIT * 2.0**k)
        best.append(float(np.exp(-tilt / (2 * bend))))
    return slope(work, best)


def by_lowest(ks: range, runs: Numbers, inside: bool = False) -> float:
    """The lowest run of each line; with `inside` only where it is not the first or the last."""
    work, best = [], []
    for k in ks:
        line = on_line(runs, k)
        if not len(line):
            continue
        low = int(line[:, 2].argmin())
        if not inside or 0 < low < len(line) - 1:
            work.append(UNIT * 2.0**k)
            best.append(float(line[low, 0]))
    return slope(work, best)


def by_law(name: str, runs: Numbers) -> float:
    """What the fitted law says: β / (α + β) for Hoffmann's, 1 / (1 + α) for Kaplan's."""
    try:
        law = LAWS[name](*runs.T)
    except ValueError:
        return float("nan")
    return law.beta / (law.alpha + law.beta) if name == "Hoffmann" else 1 / (1 + law.alpha)


def with_noise(statistic: Callable[[Numbers], float], runs: Numbers, draws: int) -> list[float]:
    """The middle 95 % of what the statistic says of losses with the noise of seeds added."""
    draw, noise = np.random.default_rng(0), seed_noise()
    found = []
    for _ in range(draws):
        again = runs.copy()
        again[:, 2] += draw.normal(0, noise, len(runs))
        found.append(statistic(again))
    usable = [x for x in found if np.isfinite(x)]
    if len(usable) < 0.9 * draws:
        return []
    return [round(float(x), 3) for x in np.quantile(usable, (0.025, 0.975))]


def again(statistic: Callable[[Numbers], float], runs: Numbers, draws: int) -> list[float]:
    """The interval over runs drawn with replacement; [] where too many draws give nothing."""
    try:
        ends = bootstrap(list(runs), lambda kept: statistic(np.array(kept)), draws)
    except ValueError:
        return []
    return [round(ends.low, 3), round(ends.high, 3)]


def exponent(
    statistic: Callable[[Numbers], float], runs: Numbers, draws: int, resample: bool = True
) -> dict[str, Any]:
    """An exponent and its two intervals; the lowest run means nothing in a resample."""
    found: dict[str, Any] = {"exponent": round(statistic(runs), 3)}
    found["noise"] = with_noise(statistic, runs, draws)
    if resample:
        found["runs again"] = again(statistic, runs, draws)
    return found


def typical(law: Law, runs: Numbers) -> float:
    """Root mean squared miss, in nats."""
    return float(np.sqrt(np.mean((runs[:, 2] - law(runs[:, 0], runs[:, 1])) ** 2)))


def misses(runs: Numbers) -> dict[str, float]:
    """Typical miss of each law's forecast, fitted to the early runs, and that of the best seen."""
    early = 6 * runs[:, 0] * runs[:, 1] <= EARLY
    found = {name: typical(fit(*runs[early].T), runs[~early]) for name, fit in LAWS.items()}
    found["best seen"] = float(np.sqrt(np.mean((runs[~early, 2] - runs[early, 2].min()) ** 2)))
    return found


def apart(runs: Numbers) -> float:
    """By how much Hoffmann's forecast misses more than Kaplan's."""
    try:
        found = misses(runs)
    except ValueError:
        return float("nan")
    return found["Hoffmann"] - found["Kaplan"]


def forecast(least: int, runs: Numbers) -> dict[str, Any]:
    """The two forecasts with runs of few steps left out of fit and forecast."""
    some = runs[runs[:, 1] >= 1024 * least]
    early = 6 * some[:, 0] * some[:, 1] <= EARLY
    found: dict[str, Any] = {"fitted to": int(early.sum()), "forecast": int((~early).sum())}
    found |= {name: round(x, 4) for name, x in misses(some).items()}
    for name, fit in LAWS.items():
        law = fit(*some[early].T)
        found[f"{name}, α and β"] = [round(law.alpha, 3), round(law.beta, 3)]
    found["apart"] = round(apart(some), 4)
    return found | {"apart, runs again": again(apart, some, LAW_DRAWS)}


def main() -> None:
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "exponents.draft", write)
    grid_runs = np.array(grid())
    found: dict[str, Any] = {"parabolas": {}, "lowest runs": {}, "laws": {}, "forecast": {}}
    for name, ks in BUDGETS.items():
        found["parabolas"][name] = runs.get(
            f"parabola/{name}", partial(exponent, partial(by_parabola, ks), grid_runs, DRAWS)
        )
        for inside in (False, True):
            words = f"{name}, inside" if inside else name
            low = partial(by_lowest, ks, inside=inside)
            found["lowest runs"][words] = runs.get(
                f"lowest/{words}", partial(exponent, low, grid_runs, DRAWS, False)
            )
    for name in LAWS:
        for least in LEAST:
            some = grid_runs[grid_runs[:, 1] >= 1024 * least]
            found["laws"].setdefault(name, {})[str(least)] = runs.get(
                f"law/{name}/{least}", partial(exponent, partial(by_law, name), some, LAW_DRAWS)
            )
    for least in LEAST:
        found["forecast"][str(least)] = runs.get(
            f"forecast/{least}", partial(forecast, least, grid_runs)
        )
    found |= {"noise of a seed": round(seed_noise(), 4)}
    result = {"study": STUDY.declared() | {"declared": said}} | found
    write(STORE, result | {"provenance": provenance(here, "numpy", "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
