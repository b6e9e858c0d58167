"""Caches: what is stored comes back, in pieces as at once; cut, selected, bounded, fixed."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.attention import Attention, MultiHeadAttention, Projection
from attnbook.block import Block, CrossBlock, PreNorm
from attnbook.cache import (
    CrossCache,
    KVCache,
    MemoryCache,
    StaticCache,
    WindowCache,
    cache_of,
)
from attnbook.masks import causal, chunked, local, padding
from attnbook.positions import Rotary

B, H, D = 2, 3, 5


def keys_and_values(T):
    return torch.randn(2, B, H, T, D).unbind(0)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_what_was_appended_in_pieces_is_all_there_in_order(sizes):
    k, v = keys_and_values(sum(sizes))
    cache, length = KVCache(), 0
    for pieces in zip(k.split(sizes, 2), v.split(sizes, 2), strict=True):
        length += pieces[0].shape[2]
        stored = cache.append(*pieces)
        assert cache.length == length
        assert_close(stored, (k[:, :, :length], v[:, :, :length]), rtol=0, atol=0)


def test_earlier_answers_do_not_change_when_room_is_added():
    cache = KVCache()
    k, v = keys_and_values(1)
    first = cache.append(k, v)
    for _ in range(10):
        cache.append(*keys_and_values(1))
    assert_close(first, (k, v), rtol=0, atol=0)


def test_room_doubles_so_few_tokens_are_copied():
    cache, rooms = KVCache(), []
    for _ in range(1000):
        cache.append(*keys_and_values(1))
        rooms.append(cache.keys.shape[2])
    assert len(set(rooms)) <= 10  # 2, 6, 14, …: copied so often, not a thousand times
    assert all(length <= room <= 2 * length + 2 for length, room in enumerate(rooms, 1))


def test_a_cache_stores_what_it_is_given():
    cache, (k, v) = KVCache(), keys_and_values(2)
    cache.append(k, v)
    k.zero_()
    assert (cache.append(*keys_and_values(1))[0][:, :, :2] != 0).all()
    half = KVCache().append(k.bfloat16(), v.bfloat16())
    assert half[0].dtype == half[1].dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(1, H, 1, D), (B, 1, 1, D), (B, H, 1, 4)])
def test_keys_of_another_batch_or_layer_are_refused_and_leave_it_alone(shape, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    cache, other = KVCache(), torch.zeros(shape)
    cache.append(*keys_and_values(2))
    before = cache.keys.clone()
    with pytest.raises(ValueError) as error:
        cache.append(other, other)
    assert "(2, 3, 4, 5)" in str(error.value) and str(shape) in str(error.value)
    assert cache.length == 2 and cache.keys.equal(before)


# -- taken back, reordered, used in other modes ------------------------------------------------


def test_what_was_cut_is_as_if_it_had_never_been():
    cache, other = KVCache(), KVCache()
    k, v = keys_and_values(7)
    cache.append(k[:, :, :5], v[:, :, :5])
    cache.cut(3)
    other.append(k[:, :, :3], v[:, :, :3])
    for each in (cache, other):
        assert_close(each.append(k[:, :, 5:], v[:, :, 5:])[0], k[:, :, [0, 1, 2, 5, 6]])
    with pytest.raises(ValueError, match="of 5 positions cannot be cut to 6"):
        cache.cut(6)


@pytest.mark.parametrize("make", [KVCache, lambda: WindowCache(9), lambda: StaticCache(4)])
def test_selected_rows_go_on_alone(make):
    cache = make()
    k, v = keys_and_values(4)
    cache.select(torch.tensor([1]))  # nothing yet to select from
    cache.append(k[:, :, :3], v[:, :, :3])
    rows = torch.tensor([1, 1, 0])
    cache.select(rows)
    stored = cache.append(k[rows, :, 3:], v[rows, :, 3:])
    assert_close(stored, (k[rows], v[rows]))


@pytest.mark.parametrize("make", [KVCache, lambda: WindowCache(3), lambda: StaticCache(6)])
def test_a_cache_begun_for_inference_is_used_without_gradients(make):
    cache = make()
    with torch.inference_mode():
        cache.append(*keys_and_values(2))
    with torch.no_grad():
        k, _ = cache.append(*keys_and_values(1))
    with torch.inference_mode():
        cache.append(*keys_and_values(1))
    assert k.shape[2] >= 3 and int(cache.length) == 4


# -- a window ----------------------------------------------------------------------------------


def attention(pattern):
    torch.manual_seed(0)
    project = Projection(10, 2, D=4)
    return Attention(project, nn.Linear(8, 10), Rotary(4), pattern=pattern).double()


windows = pytest.mark.parametrize("kind", [local, chunked])


@windows
@settings(max_examples=40)
@given(st.integers(1, 5), st.lists(st.integers(1, 6), min_size=1, max_size=7))
def test_a_windowed_layer_needs_no_more_than_its_window(kind, window, sizes):
    layer = attention(kind(window))
    x = torch.randn(2, sum(sizes), 10, dtype=torch.float64)
    there = torch.ones(2, sum(sizes), dtype=torch.bool)
    there[0, 0] = len(sizes) < 3  # padding on the left, in some examples
    cache, full, outputs, length = layer.cache(), KVCache(), [], 0
    assert isinstance(cache, WindowCache)
    with torch.no_grad():
        for piece in x.split(sizes, 1):
            length += piece.shape[1]
            mask = causal & padding(there[:, :length])
            outputs.append(layer(piece, mask=mask, cache=cache))
            assert_close(outputs[-1], layer(piece, mask=mask, cache=full))
            assert cache.length == length and cache.keys.shape[2] <= window - 1
        assert_close(torch.cat(outputs, 1), layer(x, mask=causal & padding(there)))


def test_a_window_with_some_to_spare_takes_them_back():
    layer, x = attention(local(3)), torch.randn(1, 12, 10, dtype=torch.float64)
    expected = layer(x, mask=causal)
    cache = WindowCache(3, spare=4)
    with torch.no_grad():
        layer(x[:, :6], mask=causal, cache=cache)
        layer(torch.randn(1, 4, 10, dtype=torch.float64), mask=causal, cache=cache)  # a wrong guess
        cache.cut(6)
        outputs = [layer(x[:, t : t + 1], mask=causal, cache=cache) for t in range(6, 12)]
    assert_close(torch.cat(outputs, 1), expected[:, 6:])
    with pytest.raises(ValueError, match="of 12 positions cannot be cut to 6: it has 4 to spare"):
        cache.cut(6)
    young = WindowCache(9)
    young.append(*keys_and_values(5))
    young.cut(2)  # nothing was forgotten yet
    assert young.length == 2


def test_a_long_prompt_is_let_go():
    cache = WindowCache(3)
    cache.append(*keys_and_values(500))
    assert cache.keys.untyped_storage().nbytes() == B * H * 2 * D * 4


@windows
@settings(max_examples=40)
@given(st.integers(1, 4), st.data())
def test_a_window_counts_tokens_wherever_padding_stands(kind, window, data):
    """What a row's tokens give is what they give alone, and the cache forgets padding in time."""
    layer, T = attention(kind(window)), 12
    rows = st.lists(st.booleans(), min_size=T - 5, max_size=T - 5)
    there = torch.tensor([data.draw(rows) + [True] * 5 for _ in range(2)])
    x, cache, outputs = torch.randn(2, T, 10, dtype=torch.float64), layer.cache(), []
    where = (there.long().cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        for start, end in ((0, 4), (4, 7), (7, 8), (8, 12)):
            named = {"mask": causal & padding(there[:, :end]), "positions": where[:, start:end]}
            outputs.append(layer(x[:, start:end], cache=cache, **named))
        for row in range(2):
            alone = layer(x[row, there[row]][None], mask=causal)[0]
            assert_close(torch.cat(outputs, 1)[row, there[row]], alone)
    assert cache.length == T and cache.keys.shape[2] <= window - 1


# -- fixed room --------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.sampled_from([None, local(3), chunked(3)]),
)
def test_fixed_room_changes_nothing(sizes, pattern):
    layer = attention(pattern)
    x = torch.randn(2, sum(sizes), 10, dtype=torch.float64)
    cache, outputs = layer.cache(max_len=sum(sizes) + 2), []
    with torch.no_grad():
        for piece in x.split(sizes, 1):
            outputs.append(layer(piece, mask=causal, cache=cache))
            assert cache.keys.shape == (2, 2, sum(sizes) + 2, 4)
        assert_close(torch.cat(outputs, 1), layer(x, mask=causal))


def test_fixed_room_is_cut_too_and_refuses_what_does_not_fit():
    layer, x = attention(None), torch.randn(1, 6, 10, dtype=torch.float64)
    cache = StaticCache(8)
    with torch.no_grad():
        layer(x[:, :5].flip(1), mask=causal, cache=cache)
        cache.cut(0)
        layer(x[:, :3], mask=causal, cache=cache)
        assert_close(layer(x[:, 3:], mask=causal, cache=cache), layer(x, mask=causal)[:, 3:])
    with pytest.raises(ValueError, match="9 positions do not fit into a cache of max_len 8"):
        StaticCache(8).append(*keys_and_values(9))


# -- which kind -------------------------------------------------------------------------------


def test_a_block_says_which_cache_it_needs():
    plain, windowed = MultiHeadAttention(10, 2), attention(local(5))
    norm = nn.LayerNorm(10)
    kinds = [
        (Block(PreNorm(plain, norm), nn.Identity()), KVCache),
        (Block(PreNorm(windowed, norm), nn.Identity()), WindowCache),
        (CrossBlock(*(PreNorm(part, norm) for part in (plain, plain, nn.Identity()))), CrossCache),
        (nn.Linear(2, 2), KVCache),
    ]
    for block, kind in kinds:
        assert type(cache_of(block)) is kind
        assert isinstance(cache_of(block, 7), StaticCache | CrossCache)


def test_cross_attention_with_rotation_is_the_same_step_by_step():
    layer = MultiHeadAttention(8, 2, rotate=Rotary(4)).eval()
    x, memory = torch.randn(1, 4, 8), torch.randn(1, 6, 8)
    whole, cache = layer(x, memory), MemoryCache()
    steps = [layer(x[:, t : t + 1], memory, cache=cache) for t in range(4)]
    assert_close(torch.cat(steps, 1), whole)
    cache.cut(2)  # what was guessed is taken back: the next query stands at position 2 again
    assert_close(layer(x[:, 2:3], memory, cache=cache), whole[:, 2:3])


def test_positions_of_queries_are_not_those_of_a_memory():
    layer = MultiHeadAttention(8, 2, rotate=Rotary(4)).eval()
    x, memory = torch.randn(1, 2, 8), torch.randn(1, 5, 8)
    longer = torch.cat((torch.randn(1, 3, 8), x), 1)
    assert_close(layer(x, memory, positions=torch.arange(3, 5)), layer(longer, memory)[:, 3:])


def test_a_static_cache_refuses_what_does_not_fit_step_by_step():
    cache = StaticCache(4)
    cache.append(*keys_and_values(3))
    before = cache.keys.clone()
    with pytest.raises(ValueError, match="max_len 4 holds 3 positions already: 2 more"):
        cache.append(*keys_and_values(2))
    assert torch.equal(cache.keys[:, :, :3], before[:, :, :3]) and int(cache.length) == 3
    cache.append(*keys_and_values(1))


def test_a_static_cache_counts_along_and_starts_no_kernel_past_its_end(monkeypatch):
    cache = StaticCache(4)  # a GPU's kernel would end the process, not raise an IndexError
    cache.append(*keys_and_values(3))
    monkeypatch.setattr(torch.Tensor, "index_copy_", lambda *given: pytest.fail("was started"))
    with pytest.raises(ValueError, match="max_len 4 holds 3 positions already: 2 more"):
        cache.append(*keys_and_values(2))
    cache.cut(torch.tensor(2))
    assert cache.held is None
    cache.cut(1)
    assert cache.held == 1
