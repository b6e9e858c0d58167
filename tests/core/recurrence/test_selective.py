"""Mamba's layers are their recurrences, written out."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook.recurrence.selective import Mamba, Mamba2


def drawn(layer):
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.5)
    return layer.eval()


@torch.no_grad()
def test_mamba_fades_and_writes_by_a_step_that_the_input_chooses():
    torch.manual_seed(0)
    layer, x = drawn(Mamba(6, inner=8, state=3, rank=2)), torch.randn(5, 6)
    u, gate = layer.to_inner(x).chunk(2, -1)
    u = F.silu(layer.convolve(u[None])[0])
    step, k, q = layer.to_selection(u).split([2, 3, 3], -1)
    step = F.softplus(layer.to_step(step) + layer.shift)  # (T inner)
    h, rows = torch.zeros(8, 3), []
    for t in range(5):
        fades = torch.exp(-step[t, :, None] * layer.log_speed.exp())
        h = fades * h + step[t, :, None] * u[t, :, None] * k[t]
        rows.append(h @ q[t] + layer.skip * u[t])
    expected = layer.to_out(torch.stack(rows) * F.silu(gate))
    assert_close(layer(x[None])[0], expected)


@torch.no_grad()
def test_the_heads_of_mamba_2_fade_as_one_and_share_the_keys_of_their_group():
    torch.manual_seed(0)
    layer, x = drawn(Mamba2(6, (4, 2), state=3, groups=2, limits=(0.5, 0.9))), torch.randn(5, 6)
    gate, u, step = layer.to_inner(x).split([8, 8 + 2 * 2 * 3, 4], -1)
    v, k, q = F.silu(layer.convolve(u[None])[0]).split([8, 6, 6], -1)
    step = F.softplus(step + layer.shift).clamp(0.5, 0.9)  # (T H)
    assert {0.5, 0.9} & {round(float(number), 6) for number in step.flatten()}
    heads = []
    for head in range(4):
        group, own = head // 2 * 3, slice(2 * head, 2 * head + 2)
        S, rows = torch.zeros(3, 2), []
        for t in range(5):
            key, query = k[t, group : group + 3], q[t, group : group + 3]
            fades = torch.exp(-step[t, head] * layer.log_speed[head].exp())
            S = fades * S + step[t, head] * torch.outer(key, v[t, own])
            rows.append(query @ S + layer.skip[head] * v[t, own])
        heads.append(torch.stack(rows))
    y = (torch.cat(heads, -1) * F.silu(gate)).unflatten(-1, (2, 4))
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)
    assert_close(layer(x[None])[0], layer.to_out(layer.norm.weight * y.flatten(1)))


def test_sizes_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match="3 heads do not share the keys of 2 groups"):
        Mamba2(6, (3, 2), groups=2)
    with pytest.raises(ValueError, match="a state of 0"):
        Mamba(6, state=0)
