"""Compare how long functions take on a machine that others use too."""

import statistics
import time
from collections.abc import Callable, Mapping

from torch import Tensor

Call = Callable[[], object]


def seconds(function: Call) -> float:
    """Processor time of one call: while the machine serves others the clock stands still."""
    start = time.process_time()
    function()
    return time.process_time() - start


def clock(function: Call) -> float:
    """Seconds of one call by the clock: what two threads do at once counts once."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def both_ways(forward: Callable[[], Tensor]) -> Call:
    """Forward, then backward from the sum of what comes out."""
    return lambda: forward().sum().backward()


def compare(functions: Mapping[str, Call], budget: float, least: int = 11) -> dict:
    """Call all in turn, again and again, for `budget` seconds or at least `least` rounds.

    For each the median and the least time in ms. For each after the first the ratio of the first's
    time to its own in the same round: median, lower and upper quartile.
    """
    for function in functions.values():
        function(), function()  # not counted
    rounds: list[dict[str, float]] = []
    spent = 0.0
    while spent < budget or len(rounds) < least:
        # Every other round backwards: nobody always follows the same neighbour.
        order = list(functions) if len(rounds) % 2 else list(functions)[::-1]
        taken = {name: seconds(functions[name]) for name in order}
        rounds.append(taken)
        spent += sum(taken.values())
    first, *others = functions
    found: dict = {"rounds": len(rounds)}
    for name in functions:
        times = [1e3 * taken[name] for taken in rounds]
        found[name] = {"median": round(statistics.median(times), 3), "least": round(min(times), 3)}
    for name in others:
        ratios = [taken[first] / taken[name] for taken in rounds]
        low, middle, high = statistics.quantiles(ratios, n=4)
        found[name] |= {"ratio": round(middle, 3), "quartiles": [round(low, 3), round(high, 3)]}
    return found
