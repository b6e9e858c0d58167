"""Mamba-2 is transformers' mixer, whole or piece by piece."""

import pytest
import torch

from attnbook.recurrence.gated import gated_loop
from attnbook.recurrence.mamba2 import Mamba2

WIDTH = 10


def x(T=9):
    return torch.randn(2, T, WIDTH, generator=torch.Generator().manual_seed(1))


def layer(seed=0, **sizes):
    torch.manual_seed(seed)
    return Mamba2(WIDTH, **({"heads": 4, "state": 3, "groups": 2} | sizes))


@pytest.mark.parametrize("chunk", [4, 16])
def test_it_is_transformers_mixer(chunk):
    theirs = pytest.importorskip("transformers.models.mamba2.modeling_mamba2")
    config = theirs.Mamba2Config(
        hidden_size=WIDTH, num_heads=4, head_dim=5, state_size=3, n_groups=2, expand=2,
        num_hidden_layers=1, chunk_size=chunk, use_bias=False, layer_norm_epsilon=1e-5,
    )  # fmt: skip
    torch.manual_seed(3)
    theirs, ours = theirs.Mamba2Mixer(config, 0), layer()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.3)
        pairs = [
            (ours.to_parts.weight, theirs.in_proj.weight), (ours.convolve.bias, theirs.conv1d.bias),
            (ours.convolve.weight, theirs.conv1d.weight), (ours.log_speed, theirs.A_log),
            (ours.shift, theirs.dt_bias), (ours.skip, theirs.D),
            (ours.norm.gain, theirs.norm.weight), (ours.to_out.weight, theirs.out_proj.weight),
        ]  # fmt: skip
        for mine, other in pairs:
            mine.copy_(other.reshape(mine.shape))
    one, two = x().requires_grad_(), x().requires_grad_()
    mine, other = ours(one), theirs(two)
    assert torch.allclose(mine, other, atol=1e-5)
    mine.square().sum().backward(), other.square().sum().backward()
    assert torch.allclose(one.grad, two.grad, atol=1e-4)
    for mine, other in pairs:
        assert torch.allclose(mine.grad, other.grad.reshape(mine.shape), atol=1e-3)


def test_read_piece_by_piece_it_is_the_same():
    made, given = layer(), x()
    cache = made.cache()
    pieces = [made(piece, cache=cache) for piece in given.split([4, 1, 1, 3], 1)]
    assert torch.allclose(torch.cat(pieces, 1), made(given), atol=1e-5)
    assert cache.length == 9 and cache.state.shape == (2, 4, 3, 5)


def test_the_loop_does_the_same():
    made = layer()
    expected = made(x())
    made.rule = gated_loop
    assert torch.allclose(made(x()), expected, atol=1e-5)


def test_future_cannot_leak():
    made, given = layer(), x().requires_grad_()
    (slope,) = torch.autograd.grad(made(given)[:, 4].sum(), given)
    assert slope[:, :5].abs().sum(-1).min() > 0 and not slope[:, 5:].any()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="inner width of 20 does not divide into 3 heads"):
        layer(heads=3, groups=1)
    with pytest.raises(ValueError, match="4 heads cannot share 3 groups"):
        layer(groups=3)
