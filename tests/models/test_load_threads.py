"""Models are read in several threads at once, and what other threads make is left alone."""

from contextlib import ExitStack
from threading import Event, Thread

import torch
from torch import nn

from attnbook.models.hub import without_weights


def in_a_thread(work):
    thread = Thread(target=work)
    thread.start()
    thread.join()


def test_another_thread_has_memory_for_its_modules_meanwhile():
    made = []
    with without_weights():
        in_a_thread(lambda: made.append(nn.Linear(2, 2)))
        assert nn.Linear(2, 2).weight.is_meta
    assert not made[0].weight.is_meta


def test_two_threads_that_overlap_leave_torch_as_it_was():
    """The first to come is the first to go: what the second found must not be what it leaves."""
    inside, leave = Event(), Event()
    before = torch.get_rng_state()

    def second():
        with without_weights():
            inside.set()
            torch.rand(1)
            leave.wait(5)

    with ExitStack() as first:
        first.enter_context(without_weights())
        torch.rand(1)
        thread = Thread(target=second)
        thread.start()
        inside.wait(0.2)  # it may have to wait for its turn
    leave.set()
    thread.join()
    assert inside.is_set()
    assert torch.equal(torch.get_rng_state(), before)
    assert not nn.Linear(2, 2).weight.is_meta
