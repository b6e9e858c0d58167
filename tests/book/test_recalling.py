"""The looks of the recall task are the module's rules, and none of them sees the future."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.attention import attend
from attnbook.masks import causal_mask
from attnbook.recurrence.delta import delta_loop
from attnbook.recurrence.gated import gated_loop
from attnbook.recurrence.layer import unit
from bookkit.experiments import recalling

T = 64


def given():
    g = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, T, 8, generator=g) for _ in "qk")
    v = torch.randn(2, T, 5, generator=g)
    beta = torch.rand(2, T, generator=g)
    return q, k, v, beta, -torch.rand(2, T, generator=g)


def expected(name, q, k, v, beta, log_decay):
    keys = unit(q), unit(k), v
    return {
        "softmax": lambda: attend(q, k, v, causal_mask(T))[0],
        "linear, unit keys": lambda: (unit(q) @ unit(k).mT).tril() @ v,
        "gated": lambda: gated_loop(*keys, log_decay)[0],
        "delta": lambda: delta_loop(*keys, beta)[0],
        "gated delta": lambda: delta_loop(*keys, beta, log_decay)[0],
    }[name]()


@pytest.mark.parametrize("name", ["softmax", "linear, unit keys", "gated", "delta", "gated delta"])
def test_a_look_is_the_rule_of_its_name(name):
    parts = given()
    assert_close(recalling.LOOKS[name](*parts), expected(name, *parts), rtol=1e-4, atol=1e-5)


def test_a_slope_prefers_the_newer_of_two_equal_keys():
    q = k = torch.ones(1, 2, 4)
    v = torch.eye(2)[None]
    beta, log_decay = torch.ones(1, 2), torch.full((1, 2), -20.0)
    newest = recalling.LOOKS["softmax + slope"](q, k, v, beta, log_decay)[0, -1]
    assert_close(newest, torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("name", recalling.LOOKS)
def test_future_cannot_leak(name):
    model = recalling.Recall(recalling.LOOKS[name])
    x, _ = recalling.unseen(B=2)
    changed = x.clone()
    changed[:, 40:] = changed[:, 40:].flip(1)
    assert_close(model(x)[:, :40], model(changed)[:, :40])
    assert not torch.equal(model(x)[:, 40:], model(changed)[:, 40:])


def test_a_trained_memory_answers_and_an_unknown_look_is_refused():
    model = recalling.fit("delta", returning=True, steps=60)
    found = recalling.right(model, recalling.unseen(True, B=50))
    assert len(found) == 16 and found[0] > 0.5
    with pytest.raises(ValueError, match="got 'none'"):
        recalling.fit("none")
