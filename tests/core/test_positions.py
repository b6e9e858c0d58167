import math

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers import LlamaConfig, T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from attnbook.attention import attend
from attnbook.positions import (
    Alibi,
    Learned,
    RelativeBias,
    Rotary,
    Sinusoidal,
    distances,
    frequencies,
    published_slopes,
    resized,
    sinusoidal,
    sinusoidal_2d,
)

B, H, T, D = 2, 3, 7, 10


# Added to the tokens


def test_sinusoidal_is_the_papers_formula():
    table = sinusoidal(torch.arange(T), D)
    for pos in range(T):
        for i in range(D // 2):
            angle = pos / 10_000 ** (2 * i / D)
            assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_frequencies_fall_from_one_to_nearly_one_over_the_base():
    assert_close(frequencies(4, 100.0), torch.tensor([1.0, 0.1]))
    assert frequencies(512)[-1] == pytest.approx(1e-4, rel=0.04)


@settings(max_examples=50)
@given(st.integers(0, 60), st.integers(-20, 60), st.integers(1, 6))
def test_a_shift_by_k_is_one_rotation_wherever_it_starts(start, k, half):
    angles = k * frequencies(2 * half)
    turn = torch.zeros(2 * half, 2 * half)
    for i, angle in enumerate(angles.tolist()):  # sin(a + b), cos(a + b)
        c, s = math.cos(angle), math.sin(angle)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]])
    here, there = sinusoidal(torch.tensor([start, start + k]), 2 * half)
    assert_close(turn @ here, there, atol=2e-5, rtol=0)


def test_two_sinusoids_multiply_to_a_function_of_their_distance():
    table = sinusoidal(torch.arange(40), D)
    products = table @ table.T
    for distance in (0, 3, 20):
        along = products.diagonal(distance)
        assert_close(along, along[:1].expand_as(along), atol=1e-5, rtol=0)
    assert_close(products.diagonal(), torch.full((40,), D / 2))


def test_positions_go_on_where_the_cache_ends():
    for part in (Sinusoidal(D), Learned(9, D)):
        assert_close(torch.cat((part(2), part(T - 2, 2))), part(T))


def test_sinusoidal_has_no_longest_sequence_and_nothing_to_learn():
    part = Sinusoidal(D)
    assert part(3, 10_000).shape == (3, D)
    assert not list(part.parameters()) and not part.state_dict()


def test_learned_vectors_differ_and_receive_gradients_only_where_used():
    part = Learned(9, D)
    part(T).sum().backward()
    assert (part.table.grad[:T] == 1).all() and (part.table.grad[T:] == 0).all()
    assert (torch.cdist(part.table, part.table) + torch.eye(9) > 0.01).all()


def test_a_place_in_a_picture_is_its_row_and_its_column():
    rows, columns = 3, 5
    table = sinusoidal_2d(rows, columns, 8).view(rows, columns, 8)
    for row in range(rows):
        for column in range(columns):
            expected = [*sinusoidal(torch.tensor([row]), 4)[0]]
            expected += [*sinusoidal(torch.tensor([column]), 4)[0]]
            assert_close(table[row, column], torch.stack(expected))


def test_resizing_to_the_same_grid_changes_nothing():
    table = torch.randn(3 * 5, 7)
    assert_close(resized(table, (3, 5), (3, 5)), table)


def test_resizing_keeps_a_slope_and_which_axis_is_which():
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(12.0), indexing="ij")
    table = torch.stack((rows.flatten(), columns.flatten()), 1)
    finer = resized(table, (8, 12), (16, 36)).view(16, 36, 2)
    inner = finer[4:-4, 6:-6]
    assert_close(inner.diff(dim=0)[..., 0], torch.full_like(inner[1:, :, 0], 1 / 2))
    assert_close(inner.diff(dim=1)[..., 1], torch.full_like(inner[:, 1:, 1], 1 / 3))
    assert inner.diff(dim=0)[..., 1].abs().max() < 1e-5


# Turning queries and keys


def test_rotary_is_llamas():
    config = LlamaConfig(
        hidden_size=H * D,
        num_attention_heads=H,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    q, k = torch.randn(2, B, H, T, D).unbind(0)
    cos, sin = LlamaRotaryEmbedding(config)(q, torch.arange(4, 4 + T)[None])
    rotate = Rotary(D, base=500.0)
    expected_q, expected_k = apply_rotary_pos_emb(q, k, cos, sin)
    assert_close(rotate(q, 4), expected_q)
    assert_close(rotate(k, 4), expected_k)


def test_two_coordinates_turn_by_hand():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    c1, s1, c2, s2 = math.cos(1), math.sin(1), math.cos(2), math.sin(2)
    assert_close(Rotary(2)(x), torch.tensor([[1, 0], [c1, s1], [-2 * s2, 2 * c2]]))


@settings(max_examples=50)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(0, 10**6))
def test_turned_products_depend_on_the_distance_only(i, j, shift, seed):
    torch.manual_seed(seed)
    rotate = Rotary(D)
    q, k = torch.randn(2, 1, D, dtype=torch.float64).unbind(0)
    before = rotate(q, i) @ rotate(k, j).mT
    assert_close(before, rotate(q, i + shift) @ rotate(k, j + shift).mT, atol=1e-3, rtol=0)
    if i != j:
        assert (before - q @ k.mT).abs() > 1e-6


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 10**6))
def test_a_rotation_keeps_norms_and_gradients_are_turned_back(start, seed):
    torch.manual_seed(seed)
    x = torch.randn(B, H, T, D, dtype=torch.float64, requires_grad=True)
    turned = Rotary(D)(x, start)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-5, rtol=0)
    turned.backward(turned.detach())  # R is orthogonal: Rᵀ R x = x
    assert_close(x.grad, x.detach(), atol=1e-5, rtol=0)
    assert torch.autograd.gradcheck(
        lambda x: Rotary(D)(x, start), x[:1, :1, :2].detach().requires_grad_()
    )


def test_a_model_in_bfloat16_still_knows_its_positions():
    """Rounded frequencies would be wrong by whole turns far from the start."""
    exact = Sinusoidal(D)(T, 5000)
    half = Sinusoidal(D).bfloat16()(T, 5000)
    assert half.dtype == torch.bfloat16
    assert_close(half.float(), exact, atol=0.01, rtol=0)
    turned = Rotary(D)(torch.ones(T, D), 5000)
    half = Rotary(D).bfloat16()(torch.ones(T, D, dtype=torch.bfloat16), 5000)
    assert half.dtype == torch.bfloat16
    assert_close(half.float(), turned, atol=0.02, rtol=0)


# Added to the scores


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "limit"), [(32, 128), (8, 20), (12, 50)])
def test_relative_bias_is_t5s(both_ways, buckets, limit):
    config = T5Config(
        d_model=H * D,
        d_kv=D,
        num_heads=H,
        is_decoder=not both_ways,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=limit,
    )
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = RelativeBias(H, buckets, limit, both_ways)
    theirs.relative_attention_bias.weight.data.normal_()
    ours.table.data = theirs.relative_attention_bias.weight.data.clone()
    far = torch.arange(-3 * limit, 3 * limit + 1)[None]
    assert (
        ours.bucket(far) == theirs._relative_position_bucket(far, both_ways, buckets, limit)
    ).all()
    assert_close(ours(T, T), theirs.compute_bias(T, T)[0])
    assert_close(ours(2, 2 * limit), theirs.compute_bias(2, 2 * limit, None, 2 * limit - 2)[0])


def test_every_bucket_is_used_near_ones_for_one_distance_each():
    bias = RelativeBias(H, buckets=16, limit=20)
    far = torch.arange(-30, 31)[None]
    buckets = bias.bucket(far)[0]
    assert set(buckets.tolist()) == set(range(16)) - {8}  # 0 is not later: 8 stays empty
    counts = buckets.bincount()
    assert (counts[[0, 1, 2, 3, 9, 10, 11]] == 1).all()
    assert (bias.bucket(torch.tensor([[20, 25, 10**6]])) == 15).all()


def test_alibis_slopes_by_hand_and_its_penalty_grows_with_the_distance():
    assert_close(Alibi(8).slopes, torch.tensor([1 / 2**i for i in range(1, 9)]))
    assert_close(Alibi(4).slopes, torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256]))
    expected = -torch.tensor([[1.0, 0, 1], [2, 1, 0]]) / 16
    assert_close(Alibi(2)(2, 3), torch.stack((expected, expected / 16)))


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9))
def test_the_queries_are_the_last_positions(Tq, earlier):
    Tk = Tq + earlier
    bias = RelativeBias(H, buckets=8, limit=5)
    torch.nn.init.normal_(bias.table)
    for table in (bias, Alibi(H), lambda Tq, Tk: distances(Tq, Tk)[None]):
        assert_close(table(Tq, Tk), table(Tk, Tk)[:, earlier:])


def test_positions_break_the_symmetry_of_attention():
    x = torch.randn(T, D)
    order = torch.tensor([3, 0, 4, 1, 6, 2, 5])
    table = sinusoidal(torch.arange(T), D)
    assert_close(attend(x[order], x[order], x[order])[0], attend(x, x, x)[0][order])
    for add in (lambda x: x + table, Rotary(D)):
        moved, still = add(x[order]), add(x)
        difference = attend(moved, moved, x[order])[0] - attend(still, still, x)[0][order]
        assert difference.abs().max() > 0.05


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for part in (Sinusoidal, Rotary, frequencies):
        with pytest.raises(ValueError, match="even, not 7"):
            part(7)
    with pytest.raises(ValueError, match="even, not 0"):
        frequencies(0)
    with pytest.raises(ValueError, match="width 6 is not 4 × something"):
        sinusoidal_2d(2, 3, 6)
    with pytest.raises(ValueError, match="a grid of 2 × 3 has no 7 places"):
        resized(torch.zeros(7, 4), (2, 3), (4, 6))
    with pytest.raises(ValueError, match="12 tokens is longer than the table of 9"):
        Learned(9, D)(T, 5)
    with pytest.raises(ValueError, match="heads have width 4, this rotation has width 10"):
        Rotary(D)(torch.zeros(T, 4))
    with pytest.raises(ValueError, match="near and far, before and after: 6 do not"):
        RelativeBias(H, buckets=6)
    with pytest.raises(ValueError, match="8 near buckets already reach the limit of 8"):
        RelativeBias(H, buckets=32, limit=8)
    for part in (RelativeBias(H), Alibi(H)):
        with pytest.raises(ValueError, match="5 queries cannot be the last of 3 positions"):
            part(5, 3)


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12, 20])
def test_published_slopes_are_blooms(heads):
    by_key = build_alibi_tensor(torch.ones(1, 9), heads, torch.float32).view(heads, 9)
    mine = Alibi(heads, published=True)(1, 9)[:, 0]  # of the last query, who sees all keys
    assert_close(mine - mine[:, :1], by_key, atol=1e-5, rtol=1e-5)  # a softmax sees differences
    with pytest.raises(ValueError, match="heads is 0; a whole number"):
        Alibi(0)
    assert (heads & (heads - 1) > 0) or torch.equal(Alibi(heads).slopes, published_slopes(heads))


@pytest.mark.parametrize("make", [lambda: RelativeBias(H, buckets=8, limit=5), lambda: Alibi(H)])
def test_places_given_one_by_one_are_places_counted(make):
    bias = make()
    for weight in bias.parameters():
        torch.nn.init.normal_(weight)
    i, j = torch.arange(3, 7), torch.arange(7)
    assert_close(bias(i, j), bias(4, 7))
    assert_close(bias(i + 100, j + 100), bias(4, 7))
    order = torch.tensor([5, 0, 6, 2])
    assert_close(bias(i, order), bias(4, 7)[..., order])


@pytest.mark.parametrize("make", [lambda: Learned(20, D), lambda: Sinusoidal(D)])
def test_positions_of_rows_are_the_table_in_their_order(make):
    part = make()
    where = torch.tensor([[0, 0, 1, 2], [7, 6, 5, 19]])
    assert_close(part.at(where), part(20)[where])
    assert part.limit == (20 if isinstance(part, Learned) else None)


def test_a_position_that_was_not_learned_is_named():
    with pytest.raises(ValueError, match="positions 1 to 9 are not all in the table of 9"):
        Learned(9, D).at(torch.tensor([[1, 9]]))
