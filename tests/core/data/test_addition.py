"""Sums: what is asked, what is right, and that held-out ones are held out."""

import pytest
import torch

from attnbook.data import addition
from attnbook.data.addition import BANG, answer, correct, question, readable, split


def test_every_row_is_the_sum_that_it_says():
    pairs = torch.cartesian_prod(torch.arange(100), torch.arange(100))
    rows = torch.cat([question(pairs), answer(pairs)], 1)
    for pair, row in list(zip(pairs.tolist(), rows, strict=True))[::37]:
        left, right = readable(row).rstrip(".").split("=")
        a, b = (int(number[::-1]) for number in left.split("+"))
        assert (a, b) == tuple(pair) and int(right[::-1]) == a + b


def test_known_and_held_out_pairs_are_all_pairs_and_none_twice():
    known, unseen = split()
    assert len(unseen) == 1000
    both = torch.cat([known, unseen])
    assert len({tuple(pair) for pair in both.tolist()}) == 10_000


def test_the_verifier_reads_three_digits_and_not_the_mark():
    pairs = torch.tensor([[47, 85], [1, 2], [99, 99]])
    right = answer(pairs, torch.tensor([12, BANG, 12]))
    assert correct(pairs, right).all()
    for place in range(3):
        wrong = right.clone()
        wrong[:, place] = (wrong[:, place] + 1) % 10
        assert not correct(pairs, wrong).any()


def test_what_is_no_answer_is_refused():
    pairs = torch.tensor([[1, 2]])
    with pytest.raises(ValueError, match=r"shape \(1, 4\)"):
        correct(pairs, torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="got 10000"):
        addition.split(10_000)
