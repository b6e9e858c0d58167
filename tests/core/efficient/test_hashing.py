"""LSH attention is attention to whatever some round of hashing found."""

import math

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook.attention import attend
from attnbook.efficient.hashing import buckets_of, lsh_attend, rotations
from attnbook.masks import causal, pattern_mask

B, H, D, Dv = 2, 3, 5, 4


def xv(T, seed=0):
    g = torch.Generator().manual_seed(seed)
    x, v = torch.randn(B, H, T, D, generator=g), torch.randn(B, H, T, Dv, generator=g)
    return x.double().requires_grad_(), v.double().requires_grad_()


def turns(rounds, buckets, seed=0):
    return rotations(rounds, D, buckets, torch.Generator().manual_seed(seed)).double()


def visible(bucket, chunk):
    """Who sees whom in one round, by the words of the paper: sort, cut, look."""
    T = len(bucket)
    order = sorted(range(T), key=lambda t: (bucket[t], t))
    mask = torch.zeros(T, T, dtype=torch.bool)
    for a, i in enumerate(order):
        for b, j in enumerate(order):
            near = a // chunk - b // chunk in (0, 1)
            mask[i, j] = near and bucket[i] == bucket[j]
    return mask


@settings(max_examples=40)
@given(
    st.integers(1, 4),
    st.sampled_from([1, 2, 3]),
    st.integers(1, 3),
    st.sampled_from([2, 4, 6]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_lsh_attention_is_attention_to_what_any_round_found(
    chunks, chunk, rounds, buckets, forward_only, seed
):
    T = chunks * chunk
    (x, v), hashes = xv(T, seed), turns(rounds, buckets, seed)
    found = [
        [[visible(b.tolist(), chunk) for b in head] for head in heads]
        for heads in buckets_of(x, hashes)
    ]
    mask = torch.stack([torch.stack([torch.stack(r).any(0) for r in heads]) for heads in found])
    if forward_only:
        mask &= pattern_mask(causal, T)
    ours = lsh_attend(x, v, hashes, chunk, causal if forward_only else None)
    theirs, _ = attend(x, F.normalize(x, dim=-1), v, mask)
    assert_close(ours, theirs)
    probe = torch.randn_like(ours)
    grads = [torch.autograd.grad((y * probe).sum(), (x, v)) for y in (ours, theirs)]
    assert_close(*grads)


@pytest.mark.parametrize("rounds", [1, 3])
def test_one_bucket_in_one_chunk_is_attention_to_all(rounds):
    x, v = xv(6)
    one = torch.zeros(rounds, D, 2).double()  # the first of equals is the greatest: bucket 0
    assert (buckets_of(x, one) == 0).all()
    full, _ = attend(x, F.normalize(x, dim=-1), v)
    assert_close(lsh_attend(x, v, one, 6), full)
    assert_close(lsh_attend(x, v, one, 3)[..., 3:, :], full[..., 3:, :])  # one chunk back


def test_without_a_batch_it_is_the_same():
    (x, v), hashes = xv(6), turns(2, 4)
    alone = lsh_attend(x[1, 2], v[1, 2], hashes, 2)
    assert_close(alone, lsh_attend(x, v, hashes, 2)[1, 2])


@given(st.integers(0, 10**6), st.floats(0.01, 100))
def test_the_bucket_is_a_matter_of_direction(seed, factor):
    x, _ = xv(4, seed)
    hashes = turns(3, 6, seed)
    assert torch.equal(buckets_of(factor * x, hashes), buckets_of(x, hashes))
    assert torch.equal(buckets_of(-x, hashes), (buckets_of(x, hashes) + 3) % 6)


def test_buckets_by_hand():
    """Directions (1, 0) and (0, 1): east and north are buckets 0 and 1, west and south 2 and 3."""
    x = torch.tensor([[3.0, 1], [0, 2], [-1, 0.5], [1, -4]])
    assert buckets_of(x, torch.eye(2)[None]).tolist() == [[0, 1, 2, 3]]


def test_two_buckets_part_two_vectors_as_often_as_their_angle_says():
    """A random plane separates them with probability angle / π."""
    hashes = rotations(4000, 2, 2, torch.Generator().manual_seed(0))
    for angle in (0.3, 1.2, 2.5):
        x = torch.tensor([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
        bucket = buckets_of(x, hashes)
        parted = (bucket[:, 0] != bucket[:, 1]).double().mean().item()
        assert parted == pytest.approx(angle / math.pi, abs=0.03)


def test_more_rounds_find_more_of_what_attention_looks_at():
    torch.manual_seed(0)
    x, v = torch.randn(64, 8), torch.randn(64, 8)
    exact, _ = attend(4 * x, F.normalize(x, dim=-1), v)
    errors = []
    for rounds in (1, 4, 16):
        hashes = rotations(rounds, 8, 8, torch.Generator().manual_seed(1))
        errors.append((lsh_attend(4 * x, v, hashes, 16) - exact).abs().mean().item())
    assert errors == sorted(errors, reverse=True) and errors[-1] < errors[0] / 2


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    x, v = xv(6)
    for call, message in [
        (lambda: lsh_attend(x, v, turns(1, 2), 4), "6 positions do not divide into chunks of 4"),
        (lambda: lsh_attend(x, v, turns(1, 2), 0), "6 positions do not divide into chunks of 0"),
        (lambda: lsh_attend(x, v[..., :5, :], turns(1, 2), 2), "6 keys but 5 values"),
        (lambda: lsh_attend(x, v, torch.ones(1, 4, 2), 2), "width 5, random directions of 4"),
        (lambda: rotations(1, 4, 3), "two buckets: 3 is not even"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
