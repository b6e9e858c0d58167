"""A matrix that fades: the loop is the definition, and chunks of any size give the same."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.recurrence.gated import decayed_products, gated_chunks, gated_loop

KINDS = ["none", "head", "channel"]


def inputs(T, kind, seed=0, batch=(2, 3), D=5, Dv=7):
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(*batch, T, n, generator=g).double() for n in (D, D, Dv))
    shape = {"none": None, "head": (*batch, T), "channel": (*batch, T, D)}[kind]
    decay = None if shape is None else -torch.rand(shape, generator=g).double()
    state = torch.randn(*batch, D, Dv, generator=g).double()
    return [q, k, v, decay], state


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_is_a_fading_sum_over_the_past(kind):
    (q, k, v, decay), state = inputs(6, kind)
    y, S = gated_loop(q, k, v, decay, state)
    decay = torch.zeros(2, 3, 6).double() if decay is None else decay
    decay = decay if decay.dim() == 4 else decay[..., None].expand_as(k)
    for t in range(6):
        expected = torch.zeros(2, 3, 7).double()
        memory = decay[:, :, : t + 1].sum(2).exp()[..., None] * state
        for j in range(t + 1):
            left = decay[:, :, j + 1 : t + 1].sum(2).exp()
            memory = memory + (left * k[:, :, j])[..., None] * v[:, :, j, None, :]
        expected = (q[:, :, t, :, None] * memory).sum(-2)
        assert torch.allclose(y[:, :, t], expected)
    assert torch.allclose(S, memory)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 13), st.integers(1, 15), st.sampled_from(KINDS), st.booleans())
def test_chunks_are_the_loop(T, chunk, kind, with_state):
    given, state = inputs(T, kind)
    state = state if with_state else None
    for one, two in zip(gated_loop(*given, state), gated_chunks(*given, state, chunk), strict=True):
        assert torch.allclose(one, two)


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_have_the_gradients_of_the_loop(kind):
    given, state = inputs(7, kind)
    leaves = [x.requires_grad_() for x in (*given, state) if x is not None]
    slopes = []
    for form in (gated_loop, gated_chunks):
        y, S = form(*given, state)
        slopes.append(torch.autograd.grad(y.square().sum() + S.sum(), leaves))
    assert all(torch.allclose(a, b) for a, b in zip(*slopes, strict=True))


def test_a_state_goes_on_where_it_stood():
    given, _ = inputs(9, "head")
    whole, end = gated_chunks(*given)
    first, state = gated_chunks(*(x[:, :, :4] for x in given))
    second, last = gated_chunks(*(x[:, :, 4:] for x in given), state)
    assert torch.allclose(torch.cat((first, second), 2), whole) and torch.allclose(last, end)


def test_without_decay_it_is_attention_without_a_softmax():
    (q, k, v, _), _ = inputs(6, "none")
    assert torch.allclose(gated_chunks(q, k, v)[0], (q @ k.mT).tril() @ v)


def test_strong_decay_neither_overflows_nor_gives_nan():
    given, _ = inputs(40, "channel")
    given = [x.float() for x in given]
    given[3] = given[3] * 300
    y, S = gated_chunks(*given, chunk=40)
    assert y.isfinite().all() and S.isfinite().all()
    assert torch.allclose(y, gated_loop(*given)[0], atol=5e-3)  # logs of -6000 are subtracted


def test_it_is_the_mamba2_scan_of_transformers():
    theirs = pytest.importorskip("transformers.models.mamba2.modeling_mamba2").mamba2_chunk_scan
    g = torch.Generator().manual_seed(1)
    B, T, H, P, N, groups = 2, 11, 6, 5, 7, 3
    x, steps = torch.randn(B, T, H, P, generator=g), torch.rand(B, T, H, generator=g)
    A = -torch.rand(H, generator=g)
    b, c = (torch.randn(B, T, groups, N, generator=g) for _ in range(2))
    expected, end = theirs(x, steps, A, b, c, chunk_size=4, return_final_states=True)
    q, k = (part.repeat_interleave(H // groups, 2).transpose(1, 2) for part in (c, b))
    v, decay = (x * steps[..., None]).transpose(1, 2), (A * steps).transpose(1, 2)
    y, S = gated_chunks(q, k, v, decay, chunk=3)
    assert torch.allclose(y.transpose(1, 2), expected, atol=1e-5)
    assert torch.allclose(S.mT, end, atol=1e-5)


def test_products_fade_with_distance():
    ones, since = torch.ones(3, 1), torch.tensor([[-1.0], [-2.0], [-3.0]])
    e = torch.e
    expected = torch.tensor([[1, 0, 0], [1 / e, 1, 0], [1 / e**2, 1 / e, 1]])
    assert torch.allclose(decayed_products(ones, ones, since), expected)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    (q, k, v, decay), state = inputs(6, "head")
    with pytest.raises(ValueError, match="do not fit"):
        gated_loop(q, k[:, :, :5], v)
    with pytest.raises(ValueError, match=r"a decay is \(2, 3, 6\) or"):
        gated_chunks(q, k, v, decay[:, :, :5])
    with pytest.raises(ValueError, match=r"need \(2, 3, 5, 7\)"):
        gated_chunks(q, k, v, decay, state.mT)
    with pytest.raises(ValueError, match="at least 1 position; got 0"):
        gated_chunks(q, k, v, chunk=0)
