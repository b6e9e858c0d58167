"""What a student's check says, and that it says something whatever it is given."""

import time

import pytest
import torch
from corpora import CORPORA

from attnbook.labs.check import check, sentence
from attnbook.labs.prints import alike
from attnbook.labs.probes import draw, packed, sheets
from attnbook.labs.question import sheet


def said(capsys, name, function):
    started = time.perf_counter()
    check(name, function)
    assert time.perf_counter() - started < 1.5  # a second, and what a busy machine may add
    return capsys.readouterr().out.strip()


def endless(*_):
    while True:
        pass


def leaves(*_):
    raise SystemExit


def changes(x):
    return x.sub_(x.amax(-1, keepdim=True)).exp_()


def stub(x):
    """To be written."""
    ...


def passes(x):
    pass


class Odd:
    def __call__(self, *arguments):
        raise KeyboardInterrupt

    def __repr__(self):
        raise RuntimeError


STRANGE = {
    "not yet implemented": [stub, passes, None, ...],
    "too long": [endless],
    "SystemExit": [leaves],
    "in place": [changes],
    "a function is needed": [5, "softmax"],
    "KeyboardInterrupt": [Odd()],
    "return": [lambda x: print(end=""), lambda x: {}],
    "shape is (1,)": [lambda x: [1]],
    "TypeError": [lambda: 1, lambda x, y: x],
}
GIVEN = [(words, thing) for words, things in STRANGE.items() for thing in things]


@pytest.mark.parametrize("words,thing", GIVEN)
def test_it_never_raises_and_says_why(words, thing, capsys):
    assert words in said(capsys, "softmax", thing)


def test_an_unknown_name_lists_the_known_ones(capsys):
    assert "masked_softmax" in said(capsys, "sofmax", stub)
    said(capsys, None, stub)
    said(capsys, [], stub)


def test_the_scale_that_was_used_is_measured():
    text = sentence("scores", lambda q, k: q @ k.mT)
    assert "not divided by √D (the scale measured is 1, expected 0.354)" in text
    unknown = sentence("scores", lambda q, k: q @ k.mT / 5)
    assert "the scale measured is 0.2, expected 0.354" in unknown


def test_hidden_places_and_rows_of_nan_are_pointed_out():
    hidden = sentence("masked_softmax", lambda x, mask: (3 * x).softmax(-1))
    assert "mask hides has weight" in hidden

    def bad(x, mask):
        weights = x.masked_fill(~mask, -torch.inf).softmax(-1)
        return weights.masked_fill(~mask & ~weights.isnan(), 0) + 0.0

    assert "a row that sees nothing becomes NaN" in sentence("masked_softmax", bad)


LABS = pytest.mark.parametrize("number", CORPORA)


@LABS
def test_stored_probes_are_those_of_the_lab(number, of):
    """After a change in a lab's file: attnbook labs probes 3"""
    lab = of(number).lab
    for name, question in lab.compared.items():
        stored, fresh = sheets()[name], sheet(question, sheets()[name].cases)
        assert stored.mistakes == fresh.mistakes and stored.shapes == fresh.shapes
        assert [case.name for case in stored.cases] == [case.name for case in draw(question).cases]
        assert all(map(alike, stored.right, fresh.right))
        assert [names for names, _ in stored.known] == [list(names) for names, _ in fresh.known]
        for (_, one), (_, other) in zip(stored.known, fresh.known, strict=True):
            assert all(map(alike, one, other))


@LABS
def test_fingerprints_hold_fewer_numbers_than_an_answer(number, of):
    lab = of(number).lab
    for name, question in lab.compared.items():
        known = sheets()[name]
        assert "answers" not in packed(draw(question)) and known.answers == []
        for shapes, print_ in zip(known.shapes, known.right, strict=True):
            assert len(print_) - 1 < sum(torch.Size(shape).numel() for shape in shapes) / 2
