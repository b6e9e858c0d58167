"""Sums made beforehand give what the table of weights gives; random features come close."""

from itertools import pairwise

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook.attention import attend
from attnbook.efficient.linear import (
    RandomFeatures,
    causal_linear_attend,
    elu_plus_one,
    gaussian,
    linear_attend,
    linformer_attend,
    orthogonal,
)
from attnbook.masks import length_mask

B, H, D, Dv = 2, 3, 5, 4
FEATURES = [elu_plus_one, F.relu, RandomFeatures(gaussian(7, D).double())]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def qkv(Tq, Tk, seed=0):
    g = generator(seed)
    shapes = (B, H, Tq, D), (B, H, Tk, D), (B, H, Tk, Dv)
    return tuple(torch.randn(shape, generator=g).double().requires_grad_() for shape in shapes)


def quadratic(q, k, v, feature, mask=None):
    """The same with all weights computed."""
    weights = feature(q) @ feature(k).mT
    weights = weights if mask is None else weights.masked_fill(~mask, 0)
    return (weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)) @ v


def same(ours, theirs, inputs):
    assert_close(ours, theirs)
    probe = torch.randn_like(ours)
    grads = [torch.autograd.grad((x * probe).sum(), inputs) for x in (ours, theirs)]
    assert_close(*grads)


@pytest.mark.parametrize("feature", FEATURES)
def test_sums_made_beforehand_are_all_weights_computed(feature):
    q, k, v = qkv(3, 7)
    same(linear_attend(q, k, v, feature), quadratic(q, k, v, feature), (q, k, v))


@settings(max_examples=20)
@given(st.integers(1, 12), st.integers(1, 14), st.sampled_from(FEATURES), st.integers(0, 10**6))
def test_running_sums_are_the_causal_mask(T, block, feature, seed):
    q, k, v = qkv(T, T, seed)
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    ours = causal_linear_attend(q, k, v, feature, block)
    same(ours, quadratic(q, k, v, feature, mask), (q, k, v))


def test_the_last_of_the_causal_outputs_has_seen_everything():
    q, k, v = qkv(7, 7)
    last = linear_attend(q[..., -1:, :], k, v)
    assert_close(causal_linear_attend(q, k, v)[..., -1:, :], last)


def test_linear_attention_by_hand():
    """Features 1, 2 of two keys with values 0 and 3: weights 1/3 and 2/3 for every query."""
    k, v = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [3.0]])
    q = torch.tensor([[1.0], [5.0]])
    assert_close(linear_attend(q, k, v, F.relu), torch.tensor([[2.0], [2.0]]))
    assert_close(causal_linear_attend(q, k, v, F.relu), torch.tensor([[0.0], [2.0]]))


def test_padding_is_not_heard():
    q, k, v = qkv(3, 7)
    mask = length_mask(torch.tensor([7, 4]))
    ours = linear_attend(q, k, v, mask=mask[:, None])
    assert_close(ours, quadratic(q, k, v, elu_plus_one, mask[:, None, None]))
    assert_close(ours[1], linear_attend(q, k[..., :4, :], v[..., :4, :])[1])


def test_who_sees_nothing_gets_zeros():
    q, k, v = qkv(3, 7)
    assert (linear_attend(q, k, v, mask=torch.zeros(B, H, 7).bool()) == 0).all()
    assert (linear_attend(q, k, v, lambda x: F.relu(x) * 0) == 0).all()


@pytest.mark.parametrize("block", [1, 4])
def test_the_future_cannot_leak(block):
    q, k, v = (x.detach()[0, 0].requires_grad_() for x in qkv(6, 6))
    causal_linear_attend(q, k, v, block=block)[2].sum().backward()
    for x in (k, v):
        assert (x.grad[3:] == 0).all() and (x.grad[:3] != 0).any(-1).all()


# -- Performer ----------------------------------------------------------------------------------


def kernels(draw, count, draws, width=4):
    """Many estimates of exp(q · k / √width) for one pair, and its true value."""
    q, k = torch.linspace(-1, 1, width), torch.linspace(0.5, -1.2, width).cos()
    g = generator(1)
    features = [RandomFeatures(draw(count, width, g)) for _ in range(draws)]
    estimates = torch.stack([phi(q) @ phi(k) for phi in features])
    return estimates, torch.exp(q @ k / width**0.5)


@pytest.mark.parametrize("draw", [gaussian, orthogonal])
def test_random_features_are_right_on_average(draw):
    estimates, truth = kernels(draw, 4, 3000)
    standard_error = estimates.std() / 3000**0.5
    assert standard_error < 0.02 * truth
    assert (estimates.mean() - truth).abs() < 4 * standard_error


@pytest.mark.parametrize("draw", [gaussian, orthogonal])
def test_four_times_the_features_halve_the_error(draw):
    errors = []
    for count in (8, 32, 128):
        estimates, truth = kernels(draw, count, 400)
        errors.append((estimates - truth).square().mean().sqrt().item())
    for more, fewer in pairwise(errors):
        assert 1.6 < more / fewer < 2.5


def test_right_angles_make_the_error_smaller():
    independent, truth = kernels(gaussian, 8, 2000, width=8)
    square, _ = kernels(orthogonal, 8, 2000, width=8)
    assert (square - truth).square().mean() < 0.9 * (independent - truth).square().mean()


@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 10**6))
def test_orthogonal_directions_are_at_right_angles_within_a_block(width, count, seed):
    directions = orthogonal(count, width, generator(seed)).double()
    assert directions.shape == (count, width)
    for block in directions.split(width):
        products = block @ block.T
        largest = products.diagonal().max()
        assert (products - products.diagonal().diag()).abs().max() <= 1e-5 * largest


def test_lengths_of_orthogonal_directions_are_those_of_gaussian_ones():
    for draw in (gaussian, orthogonal):
        squares = draw(4000, 6, generator()).square()
        assert squares.sum(-1).mean().item() == pytest.approx(6, rel=0.05)
        assert_close(squares.mean(0), torch.ones(6), atol=0.1, rtol=0)


def test_performer_comes_close_to_attention_the_more_features_the_closer():
    q, k, v = (x.detach().float() for x in qkv(6, 6))
    exact, _ = attend(q, k, v)
    errors = []
    for count in (10, 100, 1000, 10_000):
        features = RandomFeatures(orthogonal(count, D, generator(2)))
        errors.append((linear_attend(q, k, v, features) - exact).abs().mean().item())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03 < 0.2 < errors[0]


# -- Linformer ----------------------------------------------------------------------------------


def test_linformer_that_does_not_shorten_is_attention():
    q, k, v = qkv(3, 7)
    same(linformer_attend(q, k, v, torch.eye(7).double()), attend(q, k, v)[0], (q, k, v))
    order = torch.eye(7).double()[[3, 1, 4, 0, 5, 2, 6]]
    assert_close(linformer_attend(q, k, v, order), attend(q, k, v)[0])


def test_linformer_is_exact_where_keys_repeat():
    """Two copies of each key: their mean loses nothing."""
    q, k, v = qkv(3, 4)
    twice = [x.repeat_interleave(2, -2) for x in (k, v)]
    mean = torch.eye(4).double().repeat_interleave(2, 1) / 2
    assert_close(linformer_attend(q, *twice, mean), attend(q, *twice)[0])


def test_linformer_is_attention_to_the_mixtures_each_with_its_own_matrix():
    q, k, v = qkv(3, 7)
    for_k, for_v = torch.randn(2, 2, 7, generator=generator(3)).double()
    mixed_k = torch.stack([sum(m[j] * k[..., j, :] for j in range(7)) for m in for_k], -2)
    mixed_v = torch.stack([sum(m[j] * v[..., j, :] for j in range(7)) for m in for_v], -2)
    assert_close(linformer_attend(q, k, v, for_k, for_v), attend(q, mixed_k, mixed_v)[0])


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    q, k, v = qkv(7, 7)
    for call, message in [
        (lambda: linear_attend(q, k, v[..., :3, :]), "7 keys but 3 values"),
        (lambda: causal_linear_attend(q, k, v[..., :3, :]), "7 keys but 3 values"),
        (lambda: causal_linear_attend(q, k, v, block=0), "at least 1 position; got 0"),
        (lambda: linformer_attend(q, k, v, torch.ones(2, 6)), "shorten 6 keys, not 7"),
        (lambda: linformer_attend(q, k, v[..., :3, :], torch.ones(2, 7)), "7 keys but 3 values"),
        (lambda: RandomFeatures(gaussian(3, 4))(q), "of width 5, random directions of width 4"),
        (lambda: orthogonal(0, 4), "at least 1 direction of width 1; got 0 of width 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
