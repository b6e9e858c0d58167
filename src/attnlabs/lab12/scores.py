"""How good a forecast is: a proper score of its middle and its interval, and points for it."""

COVERS = 0.8  # of an interval
BEST, WORST = 0.12, 0.50  # nats: scores with all points and with none


def interval_score(low: float, high: float, seen: float, covers: float = COVERS) -> float:
    """The interval's length, and 2/α times the distance to what was seen if it lies outside.

    Lowest on average for the true quantiles α/2 and 1 − α/2, where α = 1 − `covers` (Gneiting and
    Raftery 2007, eq. 43).
    """
    outside = max(low - seen, seen - high, 0.0)
    return (high - low) + 2 / (1 - covers) * outside


def score(mean: float, low: float, high: float, seen: float) -> float:
    """The interval score and the error of the forecast, in nats; lower is better."""
    return interval_score(low, high, seen) + abs(mean - seen)


def share(found: float, best: float = BEST, worst: float = WORST) -> float:
    """A score as a share of the points: 1 up to `best`, 0 from `worst` on, in a line between."""
    return min(1.0, max(0.0, (worst - found) / (worst - best)))
