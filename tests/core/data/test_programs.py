"""Programs: the answer is the last value of a letter before the question, or its first."""

import pytest
import torch

from attnbook.data.programs import V, programs, spelled


def by_reading(words, first):
    """The answer to each question, from the letters alone; None where there is none."""
    value = {}
    for word in words:
        if word[1] == "=":
            value[word[0]] = value.get(word[0], word[2]) if first else word[2]
            yield None
        else:
            yield value.get(word[0])


@pytest.mark.parametrize("first", [False, True])
def test_the_answers_are_those_of_somebody_who_reads_the_program(first):
    tokens, answers, asked = programs(20, 30, first)(torch.Generator().manual_seed(0))
    assert tokens.shape == answers.shape == asked.shape == (30, 20) and tokens.max() < V
    for row in range(30):
        read = list(by_reading(spelled(tokens[row]), first))
        assert asked[row].tolist() == [said is not None for said in read]
        assert [str(a.item()) for a in answers[row][asked[row]]] == [r for r in read if r]


def test_the_two_tasks_differ_only_where_a_letter_was_assigned_again():
    last, first = (
        programs(30, 50, kind)(torch.Generator().manual_seed(1)) for kind in (False, True)
    )
    assert torch.equal(last[0], first[0]) and torch.equal(last[2], first[2])
    asked = last[2]
    assert 0.1 < (last[1] == first[1])[asked].float().mean() < 0.6


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="at least 2 tokens, a batch 1 program; got 1 and 32"):
        programs(1)
