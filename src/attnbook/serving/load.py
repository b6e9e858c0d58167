"""An engine under load: how long until a request's first token, and how long between tokens.

Requests arrive at random, as those of people who do not know of each other (a Poisson process), and
do not wait for one another: an open loop.
"""

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from attnbook.serving.engine import Engine, Request


@dataclass
class Timing:
    """When a request arrived and when each of its tokens was there, in seconds."""

    arrived: float
    tokens: list[float] = field(default_factory=list)

    @property
    def to_first(self) -> float:
        """Time to first token (TTFT)."""
        return self.tokens[0] - self.arrived

    @property
    def between(self) -> float:
        """Mean time between tokens (inter-token latency), of two or more."""
        return (self.tokens[-1] - self.tokens[0]) / max(1, len(self.tokens) - 1)


def arrivals(rate: int | float, count: int, seed: int = 0) -> list[float]:
    """When `count` requests arrive, in seconds, at `rate` a second on average."""
    if not rate > 0 or count < 1:
        raise ValueError(f"at least 1 request at a rate above 0; got {count} at {rate}")
    generator, now, times = random.Random(seed), 0.0, []
    for _ in range(count):
        times.append(now)
        now += generator.expovariate(rate)
    return times


def under_load(
    engine: Engine,
    requests: list[Request],
    times: list[float],
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Add each request to the engine at its time, in order, and step until all have ended.

    Only the engine's steps take time, by `clock`; where it has nothing to do, the next request
    arrives at once. So nothing is waited for, and with `time.process_time` a machine that has other
    work measures the same.
    """
    if len(requests) != len(times) or times != sorted(times):
        raise ValueError(f"each request has its time, in order; got {len(requests)}, {len(times)}")
    timings = {request: Timing(at) for request, at in zip(requests, times, strict=True)}
    coming, now = deque(timings.items()), 0.0
    while coming or engine.waiting or engine.running:
        if not engine.waiting and not engine.running:
            now = max(now, coming[0][1].arrived)
        while coming and coming[0][1].arrived <= now:
            engine.add(coming.popleft()[0])
        before = clock()
        written = engine.step()
        now += clock() - before
        for request in written:
            timings[request].tokens.append(now)
    return list(timings.values())
