"""Only fitting text is written, by any model, and among what fits its preferences are kept."""

import re

import pytest
import torch

from attnbook.generate.automata import Regex
from attnbook.generate.constrained import Constrained
from attnbook.generate.sampling import generate, greedy, sample
from attnbook.models.llama import llama

SYMBOLS = [
    "<end>",
    "",
    *'{}[]":,.-0123456789 ',
    "true",
    "false",
    "null",
    "ab",
    '"a',
    '":',
    "12",
    "e",
]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def written(choose, steps=30, rows=4):
    torch.manual_seed(0)
    model = llama(V=len(SYMBOLS), width=12, depth=1, heads=3, hidden=20)
    tokens = generate(model, torch.zeros(rows, 1, dtype=torch.long), steps, choose)[:, 1:]
    for row in tokens.tolist():
        over = row.index(0) if 0 in row else None
        yield "".join(SYMBOLS[token] for token in row[:over]), over, row


@pytest.mark.parametrize("pattern", [r"\d{3}-\d{2}", r"\[(ab|12)(,(ab|12)){0,3}\]", r'"a*e?"'])
def test_a_random_model_writes_what_the_expression_says(pattern):
    for seed in range(2):
        choose = Constrained(Regex(pattern), SYMBOLS, 0, sample(generator=rng(seed)))
        for text, over, row in written(choose):
            if over is None:
                continue
            assert re.fullmatch(pattern, text) and not any(row[over:])


class Brackets:
    """Balanced brackets: no regular expression describes them, a state that counts does."""

    start = 0

    def step(self, depth, character):
        after = depth + {"[": 1, "]": -1}.get(character, -99)
        return after if after >= 0 else None

    def accepts(self, depth):
        return depth == 0


def test_an_automaton_of_ones_own_is_obeyed():
    finished = 0
    for seed in range(3):
        choose = Constrained(Brackets(), SYMBOLS, 0, sample(generator=rng(seed)))
        for text, over, _ in written(choose):
            if over:
                assert set(text) == {"[", "]"} and text.count("[") == text.count("]")
                assert all(text[:n].count("[") >= text[:n].count("]") for n in range(len(text)))
                finished += 1
    assert finished > 0


def test_it_ends_only_where_it_may_and_then_stays():
    choose = Constrained(Regex("12"), SYMBOLS, 0)
    wish = torch.zeros(1, len(SYMBOLS))
    wish[:, 0] = 9.0  # to end at once
    tokens = [int(choose(wish)[0]) for _ in range(5)]
    text = "".join(SYMBOLS[token] for token in tokens if token)
    assert text == "12" and tokens[-2:] == [0, 0]


def test_tokens_of_several_characters_count_as_their_characters():
    choose = Constrained(Regex('"ab?'), SYMBOLS, 0)
    first = choose.allowed(choose.automaton.start)
    assert {SYMBOLS[i] for i in first.nonzero()[:, 0]} == {'"', '"a'}


def test_among_what_fits_chances_keep_their_proportions():
    logits, N = torch.randn(1, len(SYMBOLS), generator=rng(1)), 3000
    choose = Constrained(Regex("[012]"), SYMBOLS, 0, sample(generator=rng(2)))
    counts = choose(logits.expand(N, -1)).bincount(minlength=len(SYMBOLS))
    fits = [SYMBOLS.index(digit) for digit in "012"]
    assert counts[fits].sum() == N
    assert torch.allclose(counts[fits] / N, logits[0, fits].softmax(0), atol=0.04)


def test_rows_go_their_own_ways():
    choose = Constrained(Regex("(12|ab)+"), SYMBOLS, 0, greedy)
    wish = torch.zeros(2, len(SYMBOLS))
    wish[0, SYMBOLS.index("1")] = wish[1, SYMBOLS.index("ab")] = 5.0
    first, second = choose(wish).tolist(), choose(wish).tolist()
    assert [SYMBOLS[token] for token in first] == ["1", "ab"]
    assert [SYMBOLS[token] for token in second] == ["2", "ab"]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="no token goes on"):
        Constrained(Regex("z"), SYMBOLS, 0)(torch.zeros(1, len(SYMBOLS)))
    with pytest.raises(ValueError, match="eos, 99, is no token"):
        Constrained(Regex("a"), SYMBOLS, 99)
    with pytest.raises(ValueError, match=r"logits \(1, 3\) for 1 rows"):
        Constrained(Regex("a"), SYMBOLS, 0)(torch.zeros(1, 3))
