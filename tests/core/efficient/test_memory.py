"""The ledger counts bytes by hand-computed examples, and sees nothing that is not new."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attnbook.attention import attend
from attnbook.efficient.flash import flash_attend
from attnbook.efficient.memory import Ledger


def test_by_hand():
    with Ledger() as ledger:
        x = torch.zeros(10)  # 40 bytes
        y = x + 1  # 80
        del x  # 40
        z = y.double()  # 120
    assert (ledger.held, ledger.most) == (120, 120)
    del y
    assert (ledger.held, ledger.most) == (80, 120)
    del z
    assert (ledger.held, ledger.most) == (0, 120)


def test_views_and_changes_in_place_cost_nothing():
    before = torch.zeros(3, 4)
    with Ledger() as ledger:
        views = before.T, before[1], before.view(12), before.expand(5, 3, 4)
        before.add_(1)
    assert ledger.most == 0 and len(views) == 4


def test_a_view_keeps_its_whole_tensor_alive():
    with Ledger() as ledger:
        row = torch.zeros(5, 4)[0]
    assert ledger.held == 5 * 4 * 4 and row.shape == (4,)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_what_was_held_at_once_is_the_most(sizes):
    with Ledger() as ledger:
        for size in sizes:
            x = torch.zeros(size)
            del x
    assert (ledger.held, ledger.most) == (0, 4 * max(sizes))


def test_autograd_keeps_what_the_backward_pass_needs():
    x = torch.zeros(7, requires_grad=True)
    with Ledger() as ledger:
        y = x.exp()  # saves its result
        z = y.sum()
        del y
        assert ledger.held == 28 + 4
        z.backward()
        del z
    assert ledger.held == 28 == 4 * x.grad.numel()


def test_plain_attention_holds_two_tables_at_once_and_flash_none():
    H, T, D = 2, 64, 4
    q, k, v = torch.randn(3, H, T, D)
    with Ledger() as plain:
        attend(q, k, v)
    with Ledger() as fused:
        F.scaled_dot_product_attention(q[None], k[None], v[None])
    assert plain.most == 2 * H * T * T * 4
    assert fused.most < H * T * T * 4
    most = []
    for T in (128, 256):
        q, k, v = torch.randn(3, H, T, D)
        with Ledger() as tiled:
            flash_attend(q, k, v, block=16)
        most.append(tiled.most)
    assert most[1] < 2.1 * most[0]  # plain: 4 times


@pytest.mark.parametrize("part", [nn.Linear(5, 3), nn.ReLU()])
def test_parameters_and_inputs_are_not_counted(part):
    x = torch.zeros(2, 5)
    with Ledger() as ledger, torch.no_grad():
        y = part(x)
    assert ledger.held == 4 * y.numel()
