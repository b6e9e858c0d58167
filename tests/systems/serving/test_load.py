"""An open loop: requests come at their times, and only the engine's steps take time."""

import itertools

import pytest
import torch

from attnbook.models.llama import llama
from attnbook.serving.engine import Engine, Request
from attnbook.serving.load import arrivals, under_load
from attnbook.serving.pages import Pages

torch.manual_seed(0)
MODEL = llama(V=13, width=16, depth=1, heads=2, kv_heads=1, hidden=8).eval()


def run(most, times, steps=4):
    """A step takes a second by this clock, which is read before and after it."""
    engine = Engine(MODEL, Pages(50, 4), most)
    requests = [Request([1, 2, 3], steps) for _ in times]
    found = under_load(engine, requests, times, clock=itertools.count().__next__)
    assert all(request.reason == "length" for request in requests)
    return found


def test_a_request_alone_waits_for_nobody():
    (timing,) = run(1, [7.0])
    assert timing.tokens == [8, 9, 10, 11]
    assert timing.to_first == 1 and timing.between == 1


def test_with_one_slot_a_queue_grows_and_with_two_it_does_not():
    assert [timing.to_first for timing in run(1, [0.0, 0.5, 100.0])] == [1, 4.5, 1]
    assert [timing.to_first for timing in run(2, [0.0, 0.5, 100.0])] == [1, 1.5, 1]


def test_arrivals_come_at_the_rate_that_is_asked_for():
    times = arrivals(5.0, 2000)
    assert times[0] == 0 and times == sorted(times)
    assert 1999 / times[-1] == pytest.approx(5, rel=0.1)
    with pytest.raises(ValueError, match="got 3 at 0"):
        arrivals(0, 3)
    with pytest.raises(ValueError, match="each request has its time"):
        under_load(Engine(MODEL, Pages(50, 4)), [Request([1], 1)], [0.0, 1.0])
