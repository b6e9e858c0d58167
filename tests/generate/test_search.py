"""Searches tell who asks which beginnings they go on with, and refuse what makes no sense."""

import jaxtyping
import pytest
import torch

from attnbook.generate.search import beam_search, greedy_search

V, END = 5, 1


class Recorded:
    """A random language that keeps, row by row, what it was told: a cache of the plainest kind."""

    def __init__(self, seed, T=7):
        self.table = torch.randn((V,) * T, generator=torch.Generator().manual_seed(seed))
        self.table[..., END] -= 1.5  # sentences are to have some length
        self.T, self.kept = T, None

    def __call__(self, tokens):
        new = tokens[:, -1:] if self.kept is not None else tokens
        self.kept = new if self.kept is None else torch.cat((self.kept, new), 1)
        assert torch.equal(self.kept, tokens)  # the past is that of the rows that are asked about
        padded = torch.nn.functional.pad(tokens, (self.T - tokens.shape[1], 0))
        return self.table[tuple(padded[:, 1:].T)]

    def select(self, rows):
        self.kept = self.kept[rows]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_whoever_keeps_a_past_is_told_which_rows_go_on(seed, alpha):
    starts = torch.tensor([[2, 0], [3, 2], [4, 4]])
    told = Recorded(seed)

    def never_told(tokens):
        told.kept = None
        return told(tokens)

    found = beam_search(Recorded(seed), starts, END, 5, 3, alpha)
    assert torch.equal(found, beam_search(never_told, starts, END, 5, 3, alpha))
    assert len(found.unique()) > 1
    greedy = greedy_search(Recorded(seed), starts, END, 5)
    assert torch.equal(greedy, greedy_search(never_told, starts, END, 5))


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_a_wrong_input_is_one_clear_error(search, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    start, even = torch.tensor([[2], [3]]), lambda tokens: torch.zeros(len(tokens), V)
    for given, message in (
        (([[2]], END, 3), "a tensor of token numbers.*got a list"),
        ((start[0], END, 3), r"one row alone is tokens\[None\]; got \(1,\)"),
        ((start[:, :0], END, 3), "at least 1 token; got none"),
        ((start, V, 3), f"a stop token is one of the model's, 0 to {V - 1}; got {V}"),
        ((start, -1, 3), "got -1"),
        ((start, END, 0), "max_new_tokens is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            search(even, *given)
    with pytest.raises(ValueError, match=r"row 0: .*\(NaN\)"):
        search(lambda tokens: even(tokens) * torch.nan, start, END, 3)
