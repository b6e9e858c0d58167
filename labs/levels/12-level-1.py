"""Lab 12, first level: a line through two points, drawn by eye in logarithms.

Below the lab's notebook: what is defined once more replaces what stands there. One learning rate,
one seed, no irreducible term, and an interval by feeling.
"""

import math

LEDGER = [row for row in LEDGER if row[4] == 0 and row[2] == 0.032]


def forecast(runs, target):
    """On from the best run of at most 3 gigaflops and the best of all."""
    rows = sorted(runs.tolist(), key=lambda row: row[7])
    large, small = rows[0], next(row for row in rows if row[5] < 3)
    slope = math.log(large[7] / small[7]) / math.log(large[5] / small[5])
    mean = large[7] * (float(target[4]) / large[5]) ** slope
    return mean, mean - 0.1, mean + 0.1
