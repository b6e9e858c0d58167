"""A history is read as numbers, as curves, and aloud."""

import pytest
import torch

from attnbook.train.run import History, as_numbers

SOME = History([3.0, 2.0, 1.5], [0.5, 0.4, 0.3], [(2, {"loss": 2.1, "exact": 0.25})], seconds=1.25)


def test_an_evaluated_number_is_a_curve():
    assert SOME.evaluated("exact") == ([2], [0.25])
    with pytest.raises(
        ValueError, match="nothing called 'bleu' was evaluated; there is loss, exact"
    ):
        SOME.evaluated("bleu")
    assert History().evaluated() == ([], [])


def test_what_was_evaluated_becomes_python_numbers_or_is_refused():
    assert as_numbers(torch.tensor(0.5)) == {"value": 0.5}
    found = as_numbers({"exact": torch.tensor([0.25]), "count": 3})
    assert found == {"exact": 0.25, "count": 3.0}
    assert {type(number) for number in found.values()} == {float}
    for value in (None, [1.0, 2.0], torch.zeros(2), {"exact": None}):
        with pytest.raises(ValueError, match=r"evaluate returned .*; a number or a dictionary"):
            as_numbers(value)


def test_its_words_do_not_depend_on_the_machine():
    assert repr(SOME) == "History: 3 steps"
