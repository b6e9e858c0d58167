"""The delta rule: a gradient step that overwrites; the loop and the chunks are the same numbers."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnbook.recurrence.delta import delta_chunks, delta_loop, delta_step
from attnbook.recurrence.gated import gated_loop

KINDS = ["none", "head", "channel"]


def inputs(T, kind="head", seed=0, batch=(2, 3), D=5, Dv=7):
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(*batch, T, n, generator=g).double() for n in (D, D, Dv))
    beta = 2 * torch.rand(*batch, T, generator=g).double()
    shape = {"none": None, "head": (*batch, T), "channel": (*batch, T, D)}[kind]
    decay = None if shape is None else -torch.rand(shape, generator=g).double()
    state = torch.randn(*batch, D, Dv, generator=g).double()
    return [F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, beta, decay], state


def test_a_step_is_a_step_of_gradient_descent():
    (q, k, v, beta, _), state = inputs(1)
    q, k, v, beta = q[:, :, 0], k[:, :, 0], v[:, :, 0], beta[:, :, 0]
    state.requires_grad_()
    wrong = torch.einsum("bhd,bhdv->bhv", k, state) - v
    (slope,) = torch.autograd.grad((wrong.square() / 2).sum(), state)
    y, S = delta_step(state, q, k, v, beta, torch.zeros_like(beta)[..., None])
    assert torch.allclose(S, state - beta[..., None, None] * slope)
    assert torch.allclose(y, (q[..., None, :] @ S)[..., 0, :])


def test_a_name_that_returns_is_overwritten():
    k = F.one_hot(torch.tensor([0, 1, 0, 0]), 2).float()
    v = torch.tensor([[3.0], [5.0], [4.0], [9.0]])
    y, _ = delta_loop(k, k, v, torch.ones(4))
    assert y.flatten().tolist() == [3, 5, 4, 9]
    added, _ = gated_loop(k, k, v)
    assert added.flatten().tolist() == [3, 5, 7, 16]


def test_a_strength_of_2_mirrors():
    k, zero = torch.tensor([[1.0, 0.0]]), torch.zeros(1, 1)
    S = torch.tensor([[3.0], [5.0]])
    _, after = delta_loop(k, k, zero, torch.tensor([2.0]), state=S)
    assert after.flatten().tolist() == [-3, 5]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 13), st.integers(1, 15), st.sampled_from(KINDS), st.booleans())
def test_chunks_are_the_loop(T, chunk, kind, with_state):
    given, state = inputs(T, kind)
    state = state if with_state else None
    for one, two in zip(delta_loop(*given, state), delta_chunks(*given, state, chunk), strict=True):
        assert torch.allclose(one, two)


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_have_the_gradients_of_the_loop(kind):
    given, state = inputs(7, kind)
    leaves = [x.requires_grad_() for x in (*given, state) if x is not None]
    slopes = []
    for form in (delta_loop, delta_chunks):
        y, S = form(*given, state)
        slopes.append(torch.autograd.grad(y.square().sum() + S.sum(), leaves))
    assert all(torch.allclose(a, b) for a, b in zip(*slopes, strict=True))


@pytest.mark.parametrize("form", [delta_loop, delta_chunks])
@pytest.mark.parametrize(
    "theirs", ["torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule"]
)
def test_it_is_the_gated_delta_rule_of_transformers(form, theirs):
    name = "transformers.models.qwen3_next.modeling_qwen3_next"
    theirs = getattr(pytest.importorskip(name), theirs)
    (q, k, v, beta, decay), state = inputs(11)
    leaves = [x.float().requires_grad_() for x in (q, k, v, beta, decay, state)]
    q, k, v, beta, decay, state = leaves
    turned = [x.transpose(1, 2) for x in (q, k, v, decay, beta)]
    expected, end = theirs(*turned, initial_state=state, output_final_state=True)
    y, S = form(q / 5**0.5, k, v, beta, decay, state)
    assert torch.allclose(y.transpose(1, 2), expected, atol=1e-5)
    assert torch.allclose(S, end, atol=1e-5)
    one, two = (torch.autograd.grad(out.square().sum(), leaves) for out in (y, expected))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("theirs", ["recurrent_kimi_delta_attention", "chunk_kimi_delta_attention"])
def test_with_a_decay_per_channel_it_is_kimis(theirs):
    name = "transformers.models.kimi_linear.modeling_kimi_linear"
    theirs = getattr(pytest.importorskip(name), theirs)
    given, state = inputs(11, "channel")
    q, k, v, beta, decay, state = (x.float() for x in (*given, state))
    turned = [x.transpose(1, 2) for x in (q, k, v, decay, beta)]
    expected, end = theirs(*turned, initial_state=state, output_final_state=True)
    y, S = delta_chunks(q / 5**0.5, k, v, beta, decay, state)
    assert torch.allclose(y.transpose(1, 2), expected, atol=1e-5)
    assert torch.allclose(S, end, atol=1e-5)


def test_a_state_goes_on_where_it_stood():
    given, _ = inputs(9)
    whole, end = delta_chunks(*given)
    first, state = delta_chunks(*(x[:, :, :4] for x in given))
    second, last = delta_chunks(*(x[:, :, 4:] for x in given), state)
    assert torch.allclose(torch.cat((first, second), 2), whole) and torch.allclose(last, end)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    (q, k, v, beta, decay), _ = inputs(6)
    with pytest.raises(ValueError, match="do not fit"):
        delta_loop(q, k, v[:, :, :5], beta)
    with pytest.raises(ValueError, match="a decay is"):
        delta_chunks(q, k, v, beta, decay[:, :1])
    with pytest.raises(ValueError, match=r"strengths \(2, 3, 5\) for keys \(2, 3, 6\)"):
        delta_chunks(q, k, v, beta[:, :, :5])
