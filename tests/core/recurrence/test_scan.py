"""A linear recurrence in log T rounds is the loop."""

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.recurrence.scan import scan, scan_loop


def inputs(T, seed=0):
    g = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(2, T, 3, generator=g).double() for _ in range(2))
    return a.tanh(), b, torch.randn(2, 3, generator=g).double()


def test_by_hand():
    a, b = torch.tensor([[2.0], [0.5], [-1.0]]), torch.tensor([[1.0], [1.0], [1.0]])
    assert scan(a, b).flatten().tolist() == [1, 1.5, -0.5]
    assert scan(a, b, torch.tensor([4.0])).flatten().tolist() == [9, 5.5, -4.5]


@given(st.integers(1, 35), st.booleans())
def test_rounds_are_the_loop(T, with_start):
    a, b, h = inputs(T)
    h = h if with_start else None
    assert torch.allclose(scan(a, b, h), scan_loop(a, b, h))


def test_rounds_have_the_gradients_of_the_loop():
    leaves = [x.requires_grad_() for x in inputs(9)]
    one, two = (torch.autograd.grad(f(*leaves).square().sum(), leaves) for f in (scan, scan_loop))
    assert all(torch.allclose(a, b) for a, b in zip(one, two, strict=True))


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    a, b, _ = inputs(5)
    with pytest.raises(ValueError, match=r"a \(2, 4, 3\) and b \(2, 5, 3\)"):
        scan(a[:, 1:], b)
    with pytest.raises(ValueError, match="1 step or more"):
        scan(a[:, :0], b[:, :0])
