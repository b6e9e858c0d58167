"""A paged cache gives the logits of the plain one, whatever lies where."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.serving.paged import PagedCache
from attnbook.serving.pages import Pages

DICE = torch.Generator().manual_seed(0)


def a_model(make=llama):
    torch.manual_seed(0)
    if make is gpt2:
        return gpt2(V=11, T=64, width=16, depth=2, heads=4).eval()
    return llama(V=11, width=16, depth=2, heads=4, kv_heads=2, hidden=32).eval()


def some(count):
    return torch.randint(0, 11, (count,), generator=DICE).tolist()


def read(cache, model, table, tokens):
    logits = cache.read(model, [table], torch.tensor([tokens[table.length :]]))
    cache.pages.wrote(table, tokens)
    return logits


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("size", [1, 3, 16])
def test_rows_of_different_lengths_get_the_logits_that_each_gets_alone(make, size):
    model, cache = a_model(make), PagedCache(Pages(60, size), 2)
    texts = [some(5), some(9), some(1)]
    tables = [cache.pages.begin(text) for text in texts]
    for table, text in zip(tables, texts, strict=True):
        with torch.no_grad():
            assert_close(read(cache, model, table, text), model(torch.tensor([text]))[:, -1])
    for _ in range(4):
        for text in texts:
            text.append(some(1)[0])
        together = cache.read(model, tables, torch.tensor([[text[-1]] for text in texts]))
        for row, (table, text) in enumerate(zip(tables, texts, strict=True)):
            cache.pages.wrote(table, text)
            with torch.no_grad():
                assert_close(together[row], model(torch.tensor([text]))[0, -1])


def test_a_shared_beginning_is_not_read_again_and_changes_nothing():
    model, cache = a_model(), PagedCache(Pages(20, 4), 2)
    begin = some(9)
    read(cache, model, cache.pages.begin(begin), begin)
    text = begin + some(5)
    table = cache.pages.begin(text)
    assert table.length == 8
    with torch.no_grad():
        assert_close(read(cache, model, table, text), model(torch.tensor([text]))[:, -1])


def test_two_that_fork_do_not_write_into_each_other():
    model, cache = a_model(), PagedCache(Pages(20, 4), 2)
    text = some(6)
    table = cache.pages.begin(text)
    read(cache, model, table, text)
    other = cache.pages.fork(table)
    for _ in range(3):
        for each in (table, other):
            tokens = text + [5 if each is table else 9] * (each.length - 5)
            found = read(cache, model, each, tokens)
            with torch.no_grad():
                assert_close(found, model(torch.tensor([tokens]))[:, -1])


def test_several_tokens_of_rows_that_differ_are_refused():
    model, cache = a_model(), PagedCache(Pages(20, 4), 2)
    tables = [cache.pages.begin([1]), cache.pages.begin([2])]
    read(cache, model, tables[0], [1])
    with pytest.raises(ValueError, match="one token at a time; got 2"):
        cache.read(model, tables, torch.zeros(2, 2, dtype=torch.long))
