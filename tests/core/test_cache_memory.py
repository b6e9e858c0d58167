"""A memory that is looked at again and again: its keys are made once."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.attention import MultiHeadAttention
from attnbook.block import CrossBlock, PreNorm
from attnbook.cache import (
    Cache,
    CrossCache,
    DecodingState,
    KVCache,
    MemoryCache,
    StaticCache,
    WindowCache,
)


def test_the_keys_of_a_memory_are_made_once():
    layer = MultiHeadAttention(10, 2)
    x, memory = torch.randn(2, 3, 10), torch.randn(2, 5, 10)
    mask = torch.rand(2, 1, 5) < 0.7
    cache, calls = MemoryCache(), []
    make = layer.project.keys
    layer.project.keys = lambda memory: calls.append(1) or make(memory)
    expected = layer(x, memory, mask)
    calls.clear()
    outputs = [layer(piece, memory, mask, cache) for piece in x.split(1, 1)]
    assert_close(torch.cat(outputs, 1), expected)
    assert len(calls) == 1
    cache.select(torch.tensor([1, 1]))
    again = layer(x[[1, 1]], memory[[1, 1]], mask[[1, 1]], cache)
    assert_close(again, expected[[1, 1]])
    with pytest.raises(ValueError, match="a memory is kept in a MemoryCache"):
        layer(x, memory, cache=KVCache())


def cross_block():
    parts = [MultiHeadAttention(10, 2), MultiHeadAttention(10, 2), nn.Linear(10, 10)]
    return CrossBlock(*(PreNorm(part, nn.LayerNorm(10)) for part in parts))


def test_a_decoders_block_keeps_its_own_past_and_the_memory():
    block, memory = cross_block(), torch.randn(2, 5, 10)
    x, rows = torch.randn(2, 4, 10), torch.tensor([1, 0, 1])
    cache = block.cache()
    with torch.no_grad():
        mask = torch.ones(4, 4, dtype=torch.bool).tril()
        expected = block(x, memory, mask)
        outputs = [block(x[:, :2], memory, mask[:2, :2], cache=cache)]
        block(x[:, :1], memory, mask[2:3, :3], cache=cache)  # a wrong guess
        cache.cut(2)
        outputs.append(block(x[:, 2:3], memory, mask[2:3, :3], cache=cache))
        assert_close(torch.cat(outputs, 1), expected[:, :3])
        cache.select(rows)
        last = block(x[rows, 3:], memory[rows], mask[3:], cache=cache)
    assert cache.length == 4
    assert_close(last, expected[rows, 3:])


def test_every_cache_is_one():
    for cache in (KVCache(), WindowCache(3), StaticCache(3)):
        assert isinstance(cache, Cache)
    assert all(isinstance(c, DecodingState) for c in (MemoryCache(), CrossCache(KVCache())))
