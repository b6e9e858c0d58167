"""The statistics of the book's comparisons, all from scipy: how far apart two treatments are, how
sure that is, and what difference so many seeds would have found.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

Numbers = Sequence[float | int]


@dataclass(frozen=True)
class Interval:
    """A mean with its interval; `low` and `high` are NaN where one number alone gives none."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Difference:
    """Mean of one treatment less the mean of the other, with its interval.

    `detectable` is the smallest true difference that as many seeds, as noisy as these, find with
    the stated power.
    """

    mean: float
    low: float
    high: float
    detectable: float
    paired: bool

    @property
    def decided(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0

    def as_dict(self) -> dict[str, Any]:
        """Numbers as they are stored, with four digits that count."""
        kept = asdict(self)
        return {k: float(f"{v:.4g}") if type(v) is float else v for k, v in kept.items()}

    def __str__(self) -> str:
        return f"{self.mean:+.3g} ({self.low:+.3g} to {self.high:+.3g})"


def interval(values: Numbers, confidence: float = 0.95) -> Interval:
    """The mean of some seeds and its interval by Student's t.

    Raises ValueError without numbers, or if one of them is not finite.
    """
    x = finite(values)
    if len(x) < 2:
        return Interval(float(x[0]), math.nan, math.nan)
    low, high = around(float(x.mean()), float(stats.sem(x)), float(len(x) - 1), confidence)
    return Interval(float(x.mean()), low, high)


def difference(
    one: Numbers, other: Numbers, paired: bool = False, confidence: float = 0.95, power: float = 0.8
) -> Difference:
    """How much larger `one` is than `other`, on average.

    `paired` says that the n-th numbers share a seed: data order, start, or both. Without it the
    spreads may differ (Welch). Raises ValueError for fewer than two numbers of a side, for pairs
    that do not pair, and for numbers that are not finite: a run that diverged is a failure to be
    counted, not a number to be averaged.
    """
    a, b = finite(one), finite(other)
    if min(len(a), len(b)) < 2:
        raise ValueError("a difference with an interval needs two seeds or more on each side")
    if paired and len(a) != len(b):
        raise ValueError(f"{len(a)} numbers do not pair with {len(b)}")
    if paired:
        apart = a - b
        error, freedom = float(stats.sem(apart)), float(len(a) - 1)
        smallest = detectable(float(apart.std(ddof=1)), len(a), True, 1 - confidence, power)
    else:
        parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
        error = math.sqrt(sum(parts))
        below = sum(p * p / (len(x) - 1) for p, x in zip(parts, (a, b), strict=True))
        freedom = error**4 / below if below else float(len(a) + len(b) - 2)
        pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
        smallest = detectable(pooled, min(len(a), len(b)), False, 1 - confidence, power)
    mean = float(a.mean() - b.mean())
    low, high = around(mean, error, freedom, confidence)
    return Difference(mean, low, high, smallest, paired)


def around(mean: float, error: float, freedom: float, confidence: float) -> tuple[float, float]:
    """The ends of a t interval."""
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return mean - half, mean + half


def detectable(
    deviation: float, seeds: int, paired: bool = False, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest true difference that a two-sided t test at level `alpha` finds with `power`.

    `deviation` is that of the seeds on each side, of the differences if they are `paired`; `seeds`
    the number on each side. Computed from the noncentral t distribution.
    """
    if seeds < 2 or deviation < 0 or not math.isfinite(deviation):
        raise ValueError(f"{seeds} seeds with a deviation of {deviation} say nothing of power")
    freedom = seeds - 1 if paired else 2 * seeds - 2
    scale = math.sqrt(1 / seeds if paired else 2 / seeds)
    bar = float(stats.t.ppf(1 - alpha / 2, freedom))

    def found(effect: float) -> float:
        at = effect / scale
        wrong_side = stats.nct.cdf(-bar, freedom, at)  # NaN where it is too small to compute
        return float(stats.nct.sf(bar, freedom, at) + np.nan_to_num(wrong_side)) - power

    enough = scale  # the noncentral t is not computed far beyond: step up to where it suffices
    while found(enough) < 0:
        enough *= 1.5
    return deviation * float(optimize.brentq(found, 0.0, enough))


def bootstrap(
    values: Sequence[Any],
    statistic: Callable[[list[Any]], float],
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """`statistic` of the values, and its percentile interval over resampled values.

    `values` may be anything, such as runs of a scaling study; `statistic` gets a list of as many,
    drawn with replacement, and may return NaN for a draw from which nothing can be computed: such
    draws are left out, and more than a tenth of them is an error.
    """
    kept = list(values)
    if len(kept) < 2:
        raise ValueError("a bootstrap needs two values or more")

    def of(places: Any) -> float:
        return statistic([kept[int(i)] for i in places])

    found = stats.bootstrap(
        (np.arange(len(kept)),), of, n_resamples=resamples, vectorized=False, method="percentile",
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution  # fmt: skip
    usable = found[np.isfinite(found)]
    if len(usable) < 0.9 * len(found):
        raise ValueError("from more than a tenth of the draws nothing could be computed")
    ends = np.quantile(usable, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(statistic(kept)), float(ends[0]), float(ends[1]))


def finite(values: Numbers) -> np.ndarray:
    """The numbers as an array; ValueError if there are none or one is not finite."""
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"a list of finite numbers is needed, got {values}")
    return x
