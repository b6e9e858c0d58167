"""Rotations: both pairings, a share of the coordinates, positions per row, float32, pictures."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as neox
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj

from attnbook.attention import Attention, MultiHeadAttention, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.masks import causal
from attnbook.models.deepseek import latent_attention
from attnbook.positions import (
    DynamicRotary,
    LongRotary,
    Rotary,
    Rotary2d,
    Tempered,
    frequencies,
    longrope,
    neighbours,
    yarn,
    yarn_temperature,
)
from attnbook.scores import Score

B, H, T, D = 2, 3, 5, 8


def inputs(width=D, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(B, H, T, width, dtype=dtype)


def test_neighbours_are_gpt_js():
    x = inputs()
    angles = torch.arange(T)[:, None] * frequencies(D)
    theirs = gptj(x.transpose(1, 2), angles.sin()[None], angles.cos()[None]).transpose(1, 2)
    assert_close(Rotary(D, pairs=neighbours)(x), theirs)


def test_halves_are_gpt_neoxs_and_a_share_leaves_the_rest_alone():
    x = inputs(12)
    angles = (torch.arange(T)[:, None] * frequencies(D)).repeat(1, 2)[None]
    turned, _ = neox(x[..., :D], x[..., :D], angles.cos(), angles.sin())
    mine = Rotary(12, frequencies=frequencies(D))(x)
    assert_close(mine[..., :D], turned)
    assert torch.equal(mine[..., D:], x[..., D:])


@pytest.mark.parametrize("pairs", [Rotary(D).pairs, neighbours])
def test_products_depend_on_the_distance_alone(pairs):
    rotate = Rotary(D, 100.0, pairs=pairs)
    q, k = inputs(), inputs().flip(1)
    near, far = ((rotate(q, s) @ rotate(k, s).mT) for s in (0, 1000))
    assert_close(near, far, atol=1e-3, rtol=1e-3)


def test_rows_of_their_own_are_rows_alone():
    rotate, x = Rotary(D), inputs()
    where = torch.tensor([[0, 0, 1, 2, 3], [4, 5, 6, 7, 8]])
    mine = rotate(x, where)
    assert_close(mine[1], rotate(x[1], 4))
    assert_close(mine[0, :, 1:], rotate(x[0, :, 1:], 0))
    assert_close(rotate(x, torch.arange(3, 3 + T)), rotate(x, 3))
    assert_close(rotate(x, torch.tensor(3)), rotate(x, 3))  # a cache whose length is not read


def test_the_temperature_multiplies_what_is_turned():
    speed = yarn(D, factor=4.0)
    plain_, scaled = (
        Rotary(D, frequencies=speed),
        Rotary(D, 1.0, speed, scale=yarn_temperature(4.0)),
    )
    assert_close(scaled(inputs()), yarn_temperature(4.0) * plain_(inputs()))


def test_angles_are_float32_in_a_bfloat16_world():
    x = inputs(dtype=torch.bfloat16)
    expected = Rotary(D)(x.float(), 3000)
    try:
        torch.set_default_dtype(torch.bfloat16)
        rotate = Rotary(D)
        turned = rotate.to(torch.bfloat16)(x, 3000)
        assert_close(rotate(x.float(), 3000), expected, atol=0, rtol=0)
    finally:
        torch.set_default_dtype(torch.float32)
    assert turned.dtype == torch.bfloat16
    assert_close(turned.float(), expected, atol=0.05, rtol=0)


def test_built_without_memory_it_turns_all_the_same():
    full = Rotary(D, 50.0), Rotary2d(D, (2, 3))
    with torch.device("meta"):
        bare = nn.ModuleList([Rotary(D, 50.0), Rotary2d(D, (2, 3))])
    for mine, expected in zip(bare.to_empty(device="cpu"), full, strict=True):
        for twin in (mine, copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))):
            assert_close(twin(inputs()), expected(inputs()), atol=0, rtol=0)
    assert not Rotary(D).state_dict()


LENGTHS = {
    "dynamic": lambda: DynamicRotary(D, 50.0, 3.0, trained=6),
    "longrope": lambda: LongRotary(
        D, longrope(D, [1.0, 1.5, 2.0, 3.0]), longrope(D, [2.0, 4.0, 6.0, 9.0]), trained=6
    ),
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_a_text_longer_than_the_trained_context_turns_by_other_frequencies(kind):
    rotate, x = LENGTHS[kind](), inputs()
    short = Rotary(D, frequencies=torch.tensor(rotate.frequencies))
    assert_close(rotate(x, 1), short(x, 1), atol=0, rtol=0)  # positions 1 to 5: a length of 6
    assert not torch.allclose(rotate(x, 2), short(x, 2))
    if kind == "longrope":
        long = Rotary(D, frequencies=torch.tensor(rotate.long))
        assert_close(rotate(x, 2), long(x, 2), atol=0, rtol=0)


@pytest.mark.parametrize("kind", LENGTHS)
def test_a_step_makes_no_table_out_of_numbers(kind, monkeypatch):
    """On a GPU each such tensor would be copied to it, in each step."""
    rotate = LENGTHS[kind]().to(torch.bfloat16)
    assert rotate.speed.dtype == torch.float32

    def refuse(*given, **named):
        raise AssertionError("a tensor was made of numbers")

    monkeypatch.setattr(torch, "tensor", refuse)
    rotate(inputs(), 3)


def test_tables_are_computed_once_per_step_not_per_layer(monkeypatch):
    calls, tables = [], Rotary.tables
    monkeypatch.setattr(Rotary, "tables", lambda *given: calls.append(1) or tables(*given))
    rotate = Rotary(4)
    layers = [MultiHeadAttention(8, 2, rotate=rotate) for _ in range(3)]
    stack = Stack([Block(PreNorm(layer, nn.LayerNorm(8)), nn.Identity()) for layer in layers])
    stack(torch.randn(1, T, 8))
    assert len(calls) == 1
    stack(torch.randn(1, T, 8))
    assert len(calls) == 2


def test_in_two_dimensions_rows_turn_one_half_of_the_pairs_and_columns_the_other():
    rotate, x = Rotary2d(8, (2, 3), base=100.0), torch.randn(1, 1, 6, 8)
    turned, speed = rotate(x), frequencies(4, 100.0)
    pair = torch.complex(*x.chunk(2, -1))[0, 0]
    for place in range(6):
        angles = torch.cat((place // 3 * speed, place % 3 * speed))
        by_hand = pair[place] * torch.polar(torch.ones(4), angles)
        assert_close(turned[0, 0, place], torch.cat((by_hand.real, by_hand.imag)))


def test_tokens_that_stand_nowhere_are_not_turned():
    rotate, x = Rotary2d(8, (2, 3), extra=2), torch.randn(1, 1, 8, 8)
    turned = rotate(x)
    assert torch.equal(turned[:, :, :2], x[:, :, :2])
    assert_close(turned[:, :, 2:], Rotary2d(8, (2, 3))(x[:, :, 2:]))


@pytest.mark.parametrize("rotate", [None, Rotary(D)])
def test_queries_grow_with_their_position_and_keys_do_not(rotate):
    tempered, x = Tempered(3, 0.5, rotate), inputs()
    turned = x if rotate is None else rotate(x, 4)
    assert_close(tempered(x, 4), turned)
    by_hand = torch.tensor([1 + 0.5 * math.log(1 + (i + 1) // 3) for i in range(4, 4 + T)])
    assert_close(tempered.grow(turned, 4), by_hand[:, None] * turned)
    rows = torch.tensor([[4, 5, 6, 7, 8], [0, 1, 2, 3, 4]])
    for start in (torch.tensor(4), torch.arange(4, 4 + T), rows):
        assert_close(tempered.grow(turned, start)[0], tempered.grow(turned, 4)[0])
    assert_close(tempered.grow(turned, rows)[1], tempered.grow(turned)[1])


def latent(rotate, score):
    torch.manual_seed(0)
    return latent_attention(12, 3, (None, 7), (4, 6, 5), rotate, score)


def ordinary(rotate, score):
    torch.manual_seed(0)
    return Attention(Projection(12, 2), nn.Linear(12, 12), rotate, Score(score))


@pytest.mark.parametrize(("make", "width"), [(ordinary, 6), (latent, 10)])
def test_a_query_that_grows_is_a_sharper_score(make, width):
    """Also in latent attention, of whose queries a part is rotated: all of them grow."""
    x, rotate = torch.randn(2, 9, 12), Rotary(6)
    warm = make(Tempered(2, 3.0, rotate), None)
    found = warm(x, mask=causal)
    for i in (0, 1, 4, 8):
        factor = 1 + 3.0 * math.log(1 + (i + 1) // 2)
        sharp = make(rotate, factor * width**-0.5)
        assert_close(found[:, i], sharp(x, mask=causal)[:, i])
    cache = warm.cache()
    pieces = [warm(part, mask=causal, cache=cache) for part in x.split([4, 1, 3, 1], 1)]
    assert_close(torch.cat(pieces, 1), found)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="every 1 position or more; got 0"):
        Tempered(0)
    with pytest.raises(ValueError, match="5 pairs cannot turn in heads of width 8"):
        Rotary(8, frequencies=frequencies(10))
    with pytest.raises(ValueError, match="heads have width 6, this rotation has width 8"):
        Rotary(8)(inputs(6))
    with pytest.raises(ValueError, match="width 6 is not 4 × something"):
        Rotary2d(6, (2, 3))
