"""A client that measures: how long until the first token, how long between tokens, at which load.

Requests arrive at random, as those of people who do not know of each other (a Poisson process), and
do not wait for one another: an open loop.
"""

import http.client
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Timing:
    """When a request was sent and when each piece of its answer came, in seconds."""

    sent: float
    pieces: list[float] = field(default_factory=list)
    text: str = ""
    error: str | None = None

    @property
    def to_first(self) -> float:
        """Time to first token (TTFT)."""
        return self.pieces[0] - self.sent

    @property
    def between(self) -> float:
        """Mean time between tokens (inter-token latency), of two or more."""
        return (self.pieces[-1] - self.pieces[0]) / max(1, len(self.pieces) - 1)


def ask(url: str, body: dict[str, Any]) -> Timing:
    """Send one streamed request and note when its pieces come."""
    place, timing = urlsplit(url), Timing(time.perf_counter())
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
    try:
        raw = json.dumps({**body, "stream": True})
        connection.request("POST", "/v1/completions", raw, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            timing.error = response.read().decode()
        else:
            read_events(response, timing)
    except OSError as error:
        timing.error = str(error)
    finally:
        connection.close()
    return timing


def read_events(response: http.client.HTTPResponse, timing: Timing) -> None:
    """Take the events of a stream as they come."""
    for line in response:
        data = line.decode().removeprefix("data: ").strip()
        if data == "[DONE]":
            return
        if data:
            choice = json.loads(data)["choices"][0]
            timing.text += choice["text"]
            if choice["finish_reason"] is None and choice["text"]:
                timing.pieces.append(time.perf_counter())


def arrivals(rate: int | float, count: int, seed: int = 0) -> list[float]:
    """When `count` requests arrive, in seconds, at `rate` a second on average."""
    if not rate > 0 or count < 1:
        raise ValueError(f"at least 1 request at a rate above 0; got {count} at {rate}")
    dice, now, times = random.Random(seed), 0.0, []
    for _ in range(count):
        times.append(now)
        now += dice.expovariate(rate)
    return times


def under_load(url: str, bodies: list[dict[str, Any]], times: list[float]) -> list[Timing]:
    """Send each body at its time, and wait for all answers."""
    if len(bodies) != len(times):
        raise ValueError(f"each request has its time; got {len(bodies)} and {len(times)}")
    found: list[Timing | None] = [None] * len(bodies)
    start = time.perf_counter()

    def send(i: int) -> None:
        time.sleep(max(0.0, start + times[i] - time.perf_counter()))
        found[i] = ask(url, bodies[i])

    threads = [threading.Thread(target=send, args=(i,), daemon=True) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [timing for timing in found if timing is not None]
