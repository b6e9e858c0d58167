"""Sums of digits: three ways to write an answer, of which the verifier reads the end."""

import pytest
import torch

from attnbook.data.running_sums import SYMBOLS, V, answer, correct, digits, question


def text(row):
    return "".join(SYMBOLS[token] for token in row.tolist())


def test_the_rows_of_the_docstring():
    given = torch.tensor([[7, 2, 9, 5]])
    assert text(question(given)[0]) == "7295="
    shown = [text(answer(given, way)[0]) for way in ("direct", "dots", "steps")]
    assert shown == ["3", "...3", "7983"]


def test_all_ways_end_on_the_right_answer_and_steps_are_built_one_on_the_other():
    given = digits(torch.Generator().manual_seed(0), 50, 6)
    assert given.shape == (50, 6) and V == 12
    for way in ("direct", "dots", "steps"):
        assert correct(given, answer(given, way)).all()
        assert not correct(given, (answer(given, way) + 1) % 10).any()
    steps = answer(given, "steps")
    assert ((steps[:, :-1] + given[:, 1:]) % 10 == steps[:, 1:]).all()


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 1 digit; got 0"):
        digits(torch.Generator(), 3, 0)
    with pytest.raises(ValueError, match="direct, dots, steps; not 'aloud'"):
        answer(torch.ones(1, 2, dtype=torch.long), "aloud")
