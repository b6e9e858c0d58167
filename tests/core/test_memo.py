"""Once per forward pass: remembered by the blocks of a stack, forgotten after it."""

import pytest
import torch
from torch import nn

from attnbook.block import Stack
from attnbook.memo import memoise


class Asks(nn.Module):
    """Asks for each name; what it is told is `found`."""

    def __init__(self, *names, then=None):
        super().__init__()
        self.names, self.then, self.found = names, then, []

    def forward(self, x, cache=None):
        self.found = [float(memoise(name, lambda: torch.randn(()))) for name in self.names]
        return x if self.then is None else self.then(x)


class Inner(nn.Module):
    """A stack as a block of another."""

    def __init__(self, *blocks):
        super().__init__()
        self.stack = Stack(blocks)

    def forward(self, x, cache=None):
        return self.stack(x)


def test_within_a_pass_a_thing_is_made_once_and_outside_each_time():
    first, second, third = Asks("a", "a"), Asks("a", "b"), Asks("a")
    stack = Stack([first, Inner(second), third])
    stack(torch.zeros(1, 2, 3))
    a, b = second.found
    assert first.found == [a, a] and third.found == [a] and b != a
    stack(torch.zeros(1, 2, 3))
    assert second.found[0] != a
    first(None)
    assert first.found[0] != first.found[1]


def test_nothing_is_left_of_a_pass_that_failed():
    def fail(x):
        raise KeyError

    block = Asks("a", then=fail)
    stack = Stack([block])
    with pytest.raises(KeyError):
        stack(torch.zeros(1, 2, 3))
    before, block.then = block.found, None
    stack(torch.zeros(1, 2, 3))
    assert block.found != before
