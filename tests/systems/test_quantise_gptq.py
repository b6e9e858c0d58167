"""Calibrated rounding: GPTQ is Optimal Brain Surgeon column by column, and errors go where they
are least seen."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnbook.masks import causal
from attnbook.models.llama import llama
from attnbook.quantise.gptq import (
    Inputs,
    awq,
    best_clip,
    by_awq,
    by_gptq,
    by_nearest,
    calibrated,
    gptq,
    inverse_root,
    largest,
    levels_of,
    nearest,
    output_error,
)
from attnbook.quantise.rounding import dequantise, quantise


def correlated(C=6, rows=300, seed=0):
    """Inputs whose channels move together."""
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(rows, C, generator=dice) @ torch.randn(C, C, generator=dice)


def weights(R=3, C=6, seed=1):
    return torch.randn(R, C, generator=torch.Generator().manual_seed(seed))


def by_least_squares(W, x, scales, top):
    """Round a column, fit all later ones to what the outputs were: nothing but least squares."""
    W, levels = W.double().clone(), torch.zeros_like(W)
    wanted, x = x.double() @ W.double().T, x.double()
    for j in range(W.shape[1]):
        levels[:, j] = levels_of(W[:, j], scales, top)
        W[:, j] = levels[:, j].double() * scales
        if j + 1 < W.shape[1]:
            left = wanted - x[:, : j + 1] @ W[:, : j + 1].T
            W[:, j + 1 :] = torch.linalg.lstsq(x[:, j + 1 :], left).solution.T
    return levels.to(torch.int8)


def by_surgeon(W, second, scales, top):
    """Optimal Brain Surgeon: the inverse of what is left is computed anew for each column."""
    W, levels, C = W.double().clone(), torch.zeros_like(W), W.shape[1]
    for j in range(C):
        inverse = torch.linalg.inv(second[j:, j:].double())
        levels[:, j] = levels_of(W[:, j], scales, top)
        error = W[:, j] - levels[:, j] * scales
        W[:, j:] -= error[:, None] * inverse[0] / inverse[0, 0]
    return levels.to(torch.int8)


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("brute", ["least squares", "surgeon"])
def test_gptq_is_brute_force_without_inverting_each_time(bits, brute):
    for seed in range(5):
        x, W = correlated(seed=seed), weights(seed=seed + 9)
        second, top = Inputs.of(x).second, 2 ** (bits - 1) - 1
        levels, scales = gptq(W, second, bits, 6, damp=0.0)
        if brute == "surgeon":
            assert torch.equal(levels, by_surgeon(W, second, scales[:, 0], top))
        else:
            assert torch.equal(levels, by_least_squares(W, x, scales[:, 0], top))


def test_of_all_choices_the_best_is_rarely_far_below_gptq():
    """Three levels, six weights: all 729 choices tried."""
    choices = torch.tensor(list(itertools.product((-1.0, 0.0, 1.0), repeat=6)))
    best, ours, plain = [], [], []
    for seed in range(20):
        W, second = weights(1, seed=seed), Inputs.of(correlated(seed=seed + 50)).second
        scale = largest(W, 1)
        best.append(min(output_error(c[None] * scale - W, second) for c in choices))
        for found, way in ((ours, gptq(W, second, 2, 6)), (plain, nearest(W, 2, 6))):
            found.append(output_error(dequantise(*way, 6) - W, second))
    assert all(b <= o * 1.0001 for b, o in zip(best, ours, strict=True))
    assert sum(best) < sum(ours) < 0.5 * sum(plain)


def test_without_correlations_gptq_is_the_nearest_level():
    W = weights(5, 8)
    for (a, s), (b, t) in zip(
        [gptq(W, torch.eye(8), 3, 4), gptq(W, torch.eye(8), 3, 4, best_clip)],
        [quantise(W, 3, 4), nearest(W, 3, 4, best_clip)],
        strict=True,
    ):
        assert torch.equal(a, b) and torch.allclose(s, t)


def test_nearest_is_quantise():
    assert all(
        torch.equal(a, b)
        for a, b in zip(nearest(weights(), 4, 3), quantise(weights(), 4, 3), strict=True)
    )


def test_clipping_never_makes_the_weights_worse():
    W = weights(40, 32)
    plain, cut = (dequantise(*nearest(W, 3, 16, rule), 16) for rule in (largest, best_clip))
    assert ((cut - W).square().sum(1) <= (plain - W).square().sum(1) + 1e-5).all()
    assert (cut - W).norm() < 0.95 * (plain - W).norm()


def test_the_error_of_the_outputs_is_that_of_the_outputs():
    x, W, change = correlated(), weights(), 0.1 * weights(seed=7)
    apart = (F.linear(x, W + change) - F.linear(x, W)).square().mean()
    assert output_error(change, Inputs.of(x).second) == pytest.approx(apart.item(), rel=1e-4)


def test_awq_is_never_worse_than_plain_rounding_and_better_with_a_loud_channel():
    x, W = torch.randn(500, 8, generator=torch.Generator().manual_seed(3)), weights(16, 8)
    x[:, 2] *= 30
    read = Inputs.of(x)
    levels, scales, s = awq(W, read, 3, 8)
    ours = output_error(dequantise(levels, scales, 8) / s - W, read.second)
    plain = output_error(dequantise(*nearest(W, 3, 8), 8) - W, read.second)
    assert s.argmax() == 2 and ours < 0.5 * plain


@pytest.mark.parametrize(("by", "most"), [(by_nearest, 1.0001), (by_gptq, 0.8), (by_awq, 1.1)])
def test_a_calibrated_model_is_nearer_to_the_plain_one(by, most):
    tokens = torch.randint(11, (40, 12), generator=torch.Generator().manual_seed(5))
    apart = []
    for way in (by_nearest, by):
        torch.manual_seed(1)
        model = llama(V=11, width=16, depth=2, heads=2, hidden=24).eval()
        plain = model(tokens)
        found = calibrated(model.body.blocks, model.embed(tokens), way(3, 8))
        assert not any(isinstance(part, nn.Linear) for part in model.body.blocks.modules())
        again = model.body(model.embed(tokens), mask=causal)
        torch.testing.assert_close(model.body.norm(found), again)
        apart.append((model(tokens) - plain).square().mean().item())
    assert apart[1] <= most * apart[0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="groups of 4"):
        gptq(weights(), torch.eye(6), 4, 4)
    with pytest.raises(ValueError, match="raise damp"):
        gptq(weights(), torch.zeros(6, 6), 4, 3)


def one_at_a_time(W, second, bits, group):
    """Every later column is moved after each that is rounded."""
    W, U, top, scales = W.clone(), inverse_root(second, 0.01).to(W.dtype), 2 ** (bits - 1) - 1, []
    levels = torch.zeros_like(W)
    for j in range(W.shape[1]):
        if j % group == 0:
            scales.append(largest(W[:, j : j + group], top))
        levels[:, j] = levels_of(W[:, j], scales[-1], top)
        error = (W[:, j] - levels[:, j] * scales[-1]) / U[j, j]
        W[:, j + 1 :] -= error[:, None] * U[j, j + 1 :]
    return levels.to(torch.int8), torch.stack(scales, 1)


@pytest.mark.parametrize(("C", "group"), [(320, 32), (300, 20), (300, 150), (400, 400)])
def test_blocks_of_columns_change_the_speed_and_no_level(C, group):
    dice = torch.Generator().manual_seed(C)
    x = torch.randn(2 * C, C, generator=dice, dtype=torch.float64)
    x = x @ torch.randn(C, C, generator=dice, dtype=torch.float64)
    W, second = torch.randn(4, C, generator=dice, dtype=torch.float64), Inputs.of(x).second
    levels, scales = gptq(W, second, 3, group)
    expected = one_at_a_time(W, second, 3, group)
    assert torch.equal(levels, expected[0]) and torch.allclose(scales, expected[1])
