"""Sentences about what is too big, and too small."""

import pytest
import torch

from attnbook.data import schemas
from attnbook.data.schemas import BIG, FIT, HOLD, NEW, OLD, SMALL, WORDS


def words(batch):
    return [[WORDS[n] for n in row] for row in batch.tolist()]


def test_the_lecture_s_pair_of_sentences():
    pair = ("trophy", "suitcase")
    assert schemas.schema(pair, "fit-into", "big")[-1] == "trophy"
    assert schemas.schema(pair, "fit-into", "small")[-1] == "suitcase"
    assert schemas.schema(pair[::-1], "hold", "big")[-1] == "trophy"
    assert schemas.schema(pair[::-1], "hold", "small")[-1] == "suitcase"


def test_neither_verb_nor_adjective_alone_tells_the_referent():
    for options in (FIT, HOLD):
        for verb in options:
            assert sorted(schemas.referent(verb, a) for a in BIG + SMALL) == [0] * 6 + [1] * 6
    for adjective in BIG + SMALL:
        assert sum(schemas.referent(verb, adjective) for verb in FIT + HOLD) == 3


def test_a_batch_holds_what_was_asked_for():
    batch = schemas.schemas(400, ["big", "tiny"], NEW, fit=0.75)(torch.Generator().manual_seed(0))
    assert batch.shape == (400, 13)
    for row in words(batch):
        pair = (row[1], row[5])
        assert row == schemas.schema(pair, row[3], row[10])
        assert pair in NEW and row[10] in ("big", "tiny")
    share = sum(row[3] in FIT for row in words(batch)) / 400
    assert 0.68 < share < 0.82


def test_pairs_for_tests_are_not_those_for_training():
    assert not set(NEW) & set(OLD) and len(NEW) == 48 and len(OLD) == 192
    assert not {pair[::-1] for pair in NEW} & set(OLD)  # nor are they in the other order
    assert {noun for pair in OLD for noun in pair} == set(schemas.NOUNS)


def test_descriptions_say_what_is_great_and_what_is_little():
    batch = schemas.descriptions(200)(torch.Generator().manual_seed(0))
    assert batch.shape == (200, 3)
    for the, adjective, noun in words(batch):
        assert the == "the"
        assert noun in (schemas.GREAT if adjective in BIG else schemas.LITTLE)
    assert {row[1] for row in words(batch)} == {*BIG, *SMALL}


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="at least 1 sentence, not 0"):
        schemas.schemas(0, BIG)
    with pytest.raises(ValueError, match="adjectives are big"):
        schemas.descriptions(2, ["green"])
    with pytest.raises(ValueError, match="not at 2"):
        schemas.schemas(2, BIG, fit=2.0)
    with pytest.raises(ValueError, match="'elefant' is not one of"):
        schemas.tokens(["the", "elefant"])
