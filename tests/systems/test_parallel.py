"""Every way to share a model is the model: loss and gradients of one process; bytes as counted.

Threads that send to each other make it quick to try 2 and 4; the last test is two real processes.
"""

import copy
import subprocess

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attnbook.losses import token_loss
from attnbook.parallel import claims, count, example
from attnbook.parallel.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from attnbook.parallel.context import in_order, ring_attend, zig_zag
from attnbook.parallel.data import share
from attnbook.parallel.launch import script, torchrun
from attnbook.parallel.pipeline import Job, gpipe, one_forward_one_backward
from attnbook.parallel.sharded import Sharded, ShardedAdam
from attnbook.parallel.tensor import split_attention, split_network
from attnbook.parallel.timeline import idle, timeline, under_way
from attnbook.parallel.wire import Threads, crew

sizes = pytest.mark.parametrize("P", [1, 2, 4])


def numbers(rank, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank))


@sizes
@pytest.mark.parametrize("n", [8, 13])
def test_a_sum_around_the_ring_is_the_sum_and_costs_what_is_said(P, n):
    found = crew(P, lambda wire: (all_reduce(wire, numbers(wire.rank, n)), wire.sent))
    expected = sum(numbers(rank, n) for rank in range(P))
    padded = n + -n % P
    for total, sent in found:
        assert_close(total, expected)
        assert sent == 2 * (P - 1) * padded // P * 4
    assert all(torch.equal(found[0][0], total) for total, _ in found)  # the same bits on all


@sizes
def test_scattering_and_gathering_are_its_halves(P):
    def work(wire):
        mine = reduce_scatter(wire, numbers(wire.rank, P, 3).unbind())
        scattered = wire.sent
        return mine, torch.stack(all_gather(wire, mine)), scattered, wire.sent - scattered

    total = sum(numbers(rank, P, 3) for rank in range(P))
    for rank, (mine, gathered, *sent) in enumerate(crew(P, work)):
        assert_close(mine, total[rank])
        assert_close(gathered, total)
        assert sent == [(P - 1) * 12, (P - 1) * 12]


def test_all_to_all_is_a_transpose():
    def work(wire):
        parts = [torch.full((1 + i,), 10 * wire.rank + i) for i in range(3)]
        likes = [torch.empty(1 + wire.rank, dtype=torch.long)] * 3
        return all_to_all(wire, parts, likes)

    for rank, found in enumerate(crew(3, work)):
        assert [part.tolist() for part in found] == [[10 * i + rank] * (1 + rank) for i in range(3)]


@pytest.mark.parametrize("P", [2, 4])
@pytest.mark.parametrize("name", claims.CLAIMS)
def test_it_is_the_model_and_sends_what_the_formula_says(name, P):
    for found in crew(P, claims.CLAIMS[name]):
        assert found["apart"] < 1e-6, found
        assert found["sent"] == found["formula"], found


def test_two_processes_under_torchrun_are_one():
    """One start of two processes of gloo, all claims."""
    for found in torchrun(claims.everything):
        assert set(found) == set(claims.CLAIMS)
        for name, claim in found.items():
            assert claim["apart"] < 1e-6, (name, claim)
            assert claim["sent"] == claim["formula"] > 0, (name, claim)


def test_a_part_that_fails_is_told_with_its_reason(monkeypatch):
    def failed(*given, **named):
        return subprocess.CompletedProcess(given, 1, stderr="ValueError: no such thing")

    monkeypatch.setattr(subprocess, "run", failed)
    with pytest.raises(RuntimeError, match="no such thing"):
        torchrun(claims.data)


def test_sharded_adam_is_adam():
    tokens, targets = example.batch()
    whole = example.decoder()
    adam = torch.optim.Adam(whole.parameters(), 0.01)
    for _ in range(3):
        adam.zero_grad()
        token_loss(whole(tokens), targets).backward()
        adam.step()
    start = example.decoder()

    def work(wire):
        model = copy.deepcopy(start)
        sharded = ShardedAdam(wire, model, 0.01)
        for _ in range(3):
            model.zero_grad()
            token_loss(model(share(wire, tokens)), share(wire, targets)).backward()
            sharded.step()
        kept = sum(x.numel() for state in sharded.adam.state.values() for x in state.values())
        return list(model.parameters()), kept - 1  # and the number of steps

    for weights, kept in crew(4, work):
        for mine, theirs in zip(weights, whole.parameters(), strict=True):
            assert (mine - theirs).abs().median() < 1e-5  # Adam divides small sums by small roots
        n = sum(weight.numel() for weight in weights)
        assert kept == 2 * n // 4


def test_whole_weights_are_there_only_while_they_are_used():
    layer = torch.nn.Linear(8, 8)

    def work(wire):
        sharded = Sharded(wire, copy.deepcopy(layer))
        sharded(torch.ones(2, 8)).sum().backward()
        return sum(weight.numel() for weight in sharded.parameters()), wire.sent

    assert crew(4, work) == [(18, 3 * 3 * 18 * 4)] * 4  # 72 numbers: gathered twice, scattered once


def test_each_process_splits_off_its_heads_and_its_hidden_channels():
    block = example.decoder().body.blocks[0]
    attention, network = block.attention.sublayer, block.feedforward.sublayer

    def work(wire):
        return split_attention(wire, attention).slice, split_network(wire, network).slice

    for heads, narrow in crew(4, work):
        assert heads.heads == 1 and heads.project.to_qkv.weight.shape == (48, 64)
        assert narrow.up.weight.shape == (40, 64) and narrow.down.weight.shape == (64, 40)


@pytest.mark.parametrize("order", [gpipe, one_forward_one_backward])
@pytest.mark.parametrize(("P", "M"), [(1, 3), (2, 1), (2, 4), (4, 3), (4, 16)])
def test_a_schedule_does_everything_once_and_waits_as_the_formula_says(order, P, M):
    for stage in range(P):
        jobs = order(P, stage, M)
        assert sorted(jobs) == sorted(Job(k, n) for k in ("forward", "backward") for n in range(M))
    bars = timeline(order, P, M)
    assert idle(bars) == pytest.approx((P - 1) / (M + P - 1))
    kept = [under_way(stage) for stage in bars]
    assert kept == ([M] * P if order is gpipe else [min(P - stage, M) for stage in range(P)])


def test_an_order_in_which_all_wait_is_refused():
    def backwards(stages, stage, micro):
        return list(reversed(gpipe(stages, stage, micro)))

    with pytest.raises(ValueError, match="never ends"):
        timeline(backwards, 2, 2)


@pytest.mark.parametrize("cut", [in_order, zig_zag])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_attention_around_the_ring_is_attention(cut, kv_heads):
    q = numbers(0, 2, 4, 16, 8)
    k, v = numbers(1, 2, kv_heads, 16, 8), numbers(2, 2, kv_heads, 16, 8)
    many = [part.repeat_interleave(4 // kv_heads, 1) for part in (k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(q, *many, is_causal=True)
    where = cut(4, 16)

    def work(wire):
        mine = (part[:, :, where[wire.rank]] for part in (q, k, v))
        return ring_attend(wire, *mine, where), wire.sent

    for rank, (found, sent) in enumerate(crew(4, work)):
        assert_close(found, expected[:, :, where[rank]])
        assert sent == 3 * 2 * 2 * kv_heads * 4 * 8 * 4


def test_zig_zag_gives_all_the_same_work_and_order_does_not():
    for P in (2, 4, 8):
        balanced, plain = zig_zag(P, 32), in_order(P, 32)
        assert sorted(balanced.flatten().tolist()) == list(range(32))
        assert len(set((balanced + 1).sum(1).tolist())) == 1
        work = (plain + 1).sum(1)
        assert work[-1] > work[0] and work.max() > (balanced[0] + 1).sum()


def sum_of_two(wire):
    return halved(wire.rank)


def halved(x):
    return float(np.float64(x) / 2 + count.ring(0, 1))


def test_the_file_that_is_started_has_what_a_function_of_a_notebook_needs(monkeypatch):
    assert script(claims.everything) == (
        "from attnbook.parallel.claims import everything\n"
        "from attnbook.parallel.launch import report\n\n\nreport(everything)\n"
    )
    for function in (sum_of_two, halved):
        monkeypatch.setattr(function, "__module__", "__main__")
    text = script(sum_of_two)
    for line in ("import numpy as np", "import attnbook.parallel.count as count"):
        assert line in text.splitlines()
    found = {}
    exec(text.replace("report(sum_of_two)", "").replace("import report", "import script"), found)
    assert found["sum_of_two"](Threads(1, 2, {})) == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Threads(2, 2, {}), "ranks are 0 to 1; got 2"),
        (lambda: crew(0, lambda wire: None), "1 member or more"),
        (lambda: crew(2, lambda wire: wire.send(torch.ones(1), wire.rank)), "cannot send to"),
        (lambda: crew(2, lambda wire: reduce_scatter(wire, [torch.ones(1)])), "a part each; got 1"),
        (lambda: crew(2, lambda wire: share(wire, torch.ones(3))), "3 do not divide among 2"),
        (lambda: zig_zag(4, 12), "12 positions do not divide into 8 pieces"),
        (lambda: gpipe(2, 2, 4), "got 2, 4"),
        (lambda: crew(3, lambda w: split_network(
            w, example.decoder().body.blocks[0].feedforward.sublayer)), "these do not divide"),
        (lambda: torchrun(claims.everything, 0), "1 process or more; got 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_who_waits_for_a_process_that_failed_is_not_left_alone():
    def work(wire):
        if wire.rank == 0:
            raise ValueError("rank 0 is out")
        return wire.receive(torch.ones(1), 0)

    with pytest.raises(ValueError, match="rank 0 is out"):
        crew(2, work)
