"""A batch that changes while it runs: each request gets the tokens that it gets alone."""

import random

import pytest
import torch

from attnbook.generate.sampling import generate, sample, temperature
from attnbook.models.llama import llama
from attnbook.serving.engine import Engine, Request
from attnbook.serving.pages import Pages

torch.manual_seed(0)
MODEL = llama(V=13, width=16, depth=2, heads=4, kv_heads=2, hidden=32).eval()


def prompts(count, seed=0):
    dice = random.Random(seed)
    return [[dice.randrange(13) for _ in range(dice.randrange(1, 14))] for _ in range(count)]


def alone(request):
    tokens = torch.tensor([request.prompt])
    return generate(MODEL, tokens, len(request.written))[0].tolist()


@pytest.mark.parametrize(
    ("pages", "size", "most", "budget"), [(200, 4, 3, 5), (200, 1, 8, 99), (16, 2, 5, 7)]
)
def test_requests_that_come_and_go_get_the_tokens_that_they_get_alone(pages, size, most, budget):
    """In small steps, in large ones, and with too few pages, so that some are put back."""
    engine = Engine(MODEL, Pages(pages, size), most, budget)
    requests = [Request(p, 3 + i) for i, p in enumerate(prompts(9))]
    for request in requests:
        engine.add(request)
        engine.step()
        assert len(engine.running) <= most
    for _ in engine.run():
        pass
    for request in requests:
        assert request.reason == "length" and len(request.written) == request.max_new_tokens
        assert request.tokens == alone(request)
    assert engine.pages.used == 0


def test_each_draws_with_its_own_dice_whoever_else_runs():
    def requests():
        return [
            Request(p, 8, sample(temperature(1.0), generator=torch.Generator().manual_seed(i)))
            for i, p in enumerate(prompts(4))
        ]

    together = Engine(MODEL, Pages(100, 4))
    batch = requests()
    for request in batch:
        together.add(request)
    for _ in together.run():
        pass
    for one, other in zip(batch, requests(), strict=True):
        single = Engine(MODEL, Pages(100, 4))
        single.add(other)
        for _ in single.run():
            pass
        assert one.tokens == other.tokens


def test_a_stop_token_ends_a_request_and_its_slot_is_taken_in_the_next_step():
    engine = Engine(MODEL, Pages(50, 4), most=1)
    first, second = Request([1, 2], 40), Request([3], 2)
    end = alone(Request([1, 2], 40, written=[0] * 40))[4]
    first.eos = frozenset({end})
    engine.add(first)
    engine.add(second)
    while first.reason is None:
        engine.step()
        assert not second.written
    assert first.reason == "stop" and first.written[-1] == end
    assert engine.step() == [second]


def test_a_long_prompt_is_read_in_pieces_while_the_others_write():
    engine = Engine(MODEL, Pages(50, 4), budget=4)
    short, long = Request([1], 30), Request([2] * 20, 1)
    engine.add(short)
    engine.step()
    engine.add(long)
    got = [engine.step() for _ in range(5)]
    assert all(short in step for step in got)
    assert [long in step for step in got] == [False] * 4 + [True]


def test_a_shared_beginning_is_read_once():
    engine, begin = Engine(MODEL, Pages(50, 4)), [1, 2, 3, 4, 5, 6, 7, 8]
    for last in (9, 10, 11):
        engine.add(Request([*begin, last], 2))
        engine.step()
    assert engine.shared == 16


def test_whoever_leaves_gives_back_its_pages():
    engine = Engine(MODEL, Pages(50, 4))
    request = Request([1, 2, 3], 30)
    engine.add(request)
    engine.step()
    assert engine.pages.used == 1
    for _ in range(2):
        engine.leave(request)
    assert engine.pages.used == 0 and not engine.running


def test_what_cannot_be_done_is_refused():
    with pytest.raises(ValueError, match="got 0 and 3"):
        Request([], 3)
    with pytest.raises(ValueError, match="12 tokens do not fit into 2 pages of 4"):
        Engine(MODEL, Pages(2, 4)).add(Request([1, 2], 10))
    with pytest.raises(ValueError, match="got 0 and 256"):
        Engine(MODEL, Pages(2, 4), most=0)
