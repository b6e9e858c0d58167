"""Drafts propose what they have seen: counted, copied, or written by a smaller model."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.generate.sampling import generate
from attnbook.generate.speculative import Copy, ModelDraft, NGrams, Reader
from attnbook.models.llama import llama


def test_counts_by_hand():
    table = NGrams(torch.tensor([0, 1, 0, 2, 0, 1]), V=3, n=2, kappa=2.0)
    one = torch.tensor([3 + 2 / 3, 2 + 2 / 3, 1 + 2 / 3]) / 8  # 3, 2, 1 of 6, and 2 spread evenly
    after_0 = (torch.tensor([0.0, 2.0, 1.0]) + 2 * one) / 5
    assert torch.allclose(table.chances(torch.tensor([1, 0])), after_0)
    assert torch.allclose(table.chances(torch.tensor([], dtype=torch.long)), one)


TOKENS = st.lists(st.integers(0, 3), max_size=30)


@given(TOKENS.filter(len), TOKENS)
def test_counts_are_those_of_chapter_7(seen, context):
    """The chapter's formula, spelled out for one token at a time."""
    n, kappa, V = 3, 8.0, 4

    def count(size, text):
        return Counter(tuple(text[i : i + size]) for i in range(len(text) - size + 1))

    expected = []
    for token in range(V):
        p = 1 / V
        for size in range(1, n + 1):
            if len(context) >= size - 1:
                gram = (*context[len(context) - size + 1 :], token)
                longer, shorter = count(size, seen), count(size - 1, seen[:-1])
                before = len(seen) if size == 1 else shorter[gram[:-1]]
                p = (longer[gram] + kappa * p) / (before + kappa)
        expected.append(p)
    found = NGrams(torch.tensor(seen), V, n, kappa).chances(torch.tensor(context, dtype=torch.long))
    assert torch.allclose(found, torch.tensor(expected), atol=1e-6)


def test_a_table_proposes_with_the_chances_it_draws_from():
    table = NGrams(torch.tensor([0, 1, 2] * 9), V=3, n=3, kappa=1e-4)
    drafted, q = table(torch.tensor([0, 1]), 4, torch.Generator().manual_seed(0))
    assert drafted.tolist() == [2, 0, 1, 2] and q.shape == (4, 3)
    assert torch.allclose(q[0], table.chances(torch.tensor([0, 1])))


@pytest.mark.parametrize(
    ("tokens", "K", "copied"),
    [
        ([7, 1, 2, 3, 4, 1, 2], 2, [3, 4]),
        ([1, 2, 5, 1, 2, 6, 1, 2], 1, [6]),  # the latest place counts
        ([1, 2, 3, 1, 2], 9, [3, 1, 2]),  # as far as there is text
        ([1, 2, 3], 4, []),
        ([1, 2], 4, []),
    ],
)
def test_what_repeats_is_copied(tokens, K, copied):
    drafted, q = Copy(9, 2)(torch.tensor(tokens), K)
    assert drafted.tolist() == copied and q.shape == (len(copied), 9)
    assert q.argmax(-1).tolist() == copied


def test_a_small_model_writes_ahead_as_it_would_alone():
    torch.manual_seed(0)
    small = llama(V=11, width=12, depth=1, heads=2, hidden=20)
    draft, start = ModelDraft(Reader(small), 11), torch.tensor([3, 1, 4])
    expected = generate(small, start[None], 5)[0, 3:]
    assert torch.equal(draft(start, 5)[0], expected)
    longer = torch.tensor([3, 1, 4, 9])  # another token than it had written
    assert torch.equal(draft(longer, 5)[0], generate(small, longer[None], 5)[0, 4:])
    assert not len(draft(start, 0)[0])


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="n is at least 1 and kappa above 0; got 0"):
        NGrams(torch.tensor([1]), 3, 0)
    with pytest.raises(ValueError, match="got n = 0"):
        Copy(3, 0)
