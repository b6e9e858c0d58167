import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attnbook.cache import KVCache

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
