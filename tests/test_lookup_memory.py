"""A table looked up by the last tokens: the same find the same, and it learns what they lead to."""

import pytest
import torch
from torch.nn import functional as F

from attnbook import recipes
from attnbook.generate import generate
from attnbook.lookup_memory import LookupMemory, WithMemory

V = 7


def memory(rows=V**2, n=2):
    torch.manual_seed(0)
    made = LookupMemory(V, 5, rows, n)
    torch.nn.init.normal_(made.table.weight)
    return made


def test_pairs_have_rows_of_their_own_where_there_are_enough():
    pairs = torch.cartesian_prod(torch.arange(V), torch.arange(V))
    rows = memory().row_of(pairs)[:, 1]
    assert rows.tolist() == list(range(V**2))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_same_tokens_find_the_same_row_wherever_they_stand(n):
    tokens = torch.randint(V, (2, 30), generator=torch.Generator().manual_seed(1))
    found, seen = memory(rows=11, n=n)(tokens), {}
    for b in range(2):
        assert not found[b, : n - 1].any()
        for t in range(n - 1, 30):
            key = tuple(tokens[b, t - n + 1 : t + 1].tolist())
            assert torch.equal(seen.setdefault(key, found[b, t]), found[b, t])
    assert len(seen) > V - 1


def test_rows_are_shared_evenly():
    made = LookupMemory(1000, 1, rows=128, n=2)
    pairs = torch.cartesian_prod(torch.arange(100), torch.arange(100))
    counts = made.row_of(pairs)[:, 1].bincount(minlength=128)
    expected = 10_000 / 128
    assert ((counts - expected) ** 2 / expected).sum() < 200  # of χ² with 127 degrees: 1 in 30,000


def model():
    torch.manual_seed(1)
    made = recipes.llama(V=V, width=12, depth=1, heads=3, hidden=20)
    made.embed = WithMemory(made.embed, LookupMemory(V, 12, V**2))
    return made


def test_a_model_starts_as_without_and_sees_no_future():
    made, tokens = model(), torch.tensor([[1, 2, 3, 4, 5]])
    expected = made.to_vocab(made.body(made.embed.embed(tokens), mask=None))
    assert made.embed.memory.table.weight.abs().sum() == 0 and expected.isfinite().all()
    torch.nn.init.normal_(made.embed.memory.table.weight)
    other = torch.tensor([[1, 2, 3, 6, 6]])
    assert torch.equal(made(tokens)[:, :3], made(other)[:, :3])


def test_it_learns_what_follows_two_tokens():
    """After (a, b) comes (3 a + b²) mod 7: a sum of two vectors could not say it."""
    torch.manual_seed(3)
    made = LookupMemory(V, V, V**2)
    optimizer = torch.optim.Adam(made.parameters(), lr=0.3)
    pairs = torch.cartesian_prod(torch.arange(V), torch.arange(V))
    after = (3 * pairs[:, 0] + pairs[:, 1] ** 2) % V
    for _ in range(30):
        loss = F.cross_entropy(made(pairs)[:, 1], after)
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    assert (made(pairs)[:, 1].argmax(-1) == after).all()


def test_with_caches_it_says_what_to_do_instead():
    made, start = model(), torch.tensor([[1, 2, 3]])
    assert generate(made, start, 3, cached=False).shape == (1, 6)
    with pytest.raises(ValueError, match="cached=False"):
        generate(made, start, 3)
    there = torch.tensor([[False, True, True]])
    with pytest.raises(ValueError, match="one after the other, from the first: no padding"):
        made(start, mask=there)
    with pytest.raises(ValueError, match="no caches of fixed room"):
        made(start, made.caches(room=5))
    with pytest.raises(ValueError, match="at least 1; got 7, 0 and 2"):
        LookupMemory(V, 5, 0)
