"""Coloured shapes with captions, and questions about them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import captions


def dice(seed):
    return torch.Generator().manual_seed(seed)


@given(st.integers(1, 48), st.integers(0, 99))
def test_a_caption_says_what_is_in_the_picture_and_fits_no_other(B, seed):
    batch = captions.captioned(B, captions.TRAINING)(dice(seed))
    assert batch.images.shape == (B, 3, captions.SIZE, captions.SIZE)
    said = [captions.sentence(row) for row in batch.captions]
    assert len(set(said)) == B
    for words, (colour, shape, place) in zip(said, batch.kinds.tolist(), strict=True):
        colour, place = list(captions.COLOURS)[colour], list(captions.PLACES)[place]
        assert words == f"a {colour} {captions.SHAPES[shape]} at the {place}"


def test_the_picture_shows_it():
    kinds = torch.tensor(captions.KINDS)
    images = captions.draw(kinds, dice(0))
    assert images.min() >= 0 and images.max() <= 1
    painted = (images - 0.5).abs().amax(1) > 0.25  # (B, rows, columns)
    axis = torch.arange(captions.SIZE) - (captions.SIZE - 1) / 2
    for kind, image, inside in zip(kinds.tolist(), images, painted, strict=True):
        paint = torch.tensor(list(captions.COLOURS.values()))
        seen = image[:, inside].mean(1)
        assert (paint - seen).square().sum(1).argmin() == kind[0]
        down, right = inside.float().sum(1) @ axis, inside.float().sum(0) @ axis
        moved = torch.stack((down, right)) / inside.sum()
        places = torch.tensor(list(captions.PLACES.values())).float()
        assert (places @ moved).argmax() == kind[2]


def test_shapes_differ_and_are_as_wide_as_their_radius():
    axis = torch.linspace(-1.2, 1.2, 49)
    shapes = captions.outlines(axis[:, None], axis)
    assert len(shapes) == len(captions.SHAPES)
    for one in range(4):
        for other in range(one):
            both = (shapes[one] & shapes[other]).sum() / (shapes[one] | shapes[other]).sum()
            assert both < 0.7
    assert not shapes[0][24, 24] and shapes[1:, 24, 24].all()  # the ring is hollow


@given(st.integers(0, 99))
def test_the_answer_to_a_question_is_a_word_of_the_caption(seed):
    batch = captions.asked(7)(dice(seed))
    aspects = {"colour": list(captions.COLOURS), "shape": captions.SHAPES}
    aspects["place"] = list(captions.PLACES)
    for question, answer in zip(batch.questions, batch.answers, strict=True):
        which, aspect = captions.sentence(question).split()
        assert which == "which" and captions.WORDS[answer] in aspects[aspect]


def test_the_answer_to_a_question_is_true():
    batch = captions.asked(300, [(2, 0, 1)])(dice(0))
    found = {captions.sentence(row[1:]): set() for row in batch.questions}
    for row, answer in zip(batch.questions, batch.answers, strict=True):
        found[captions.sentence(row[1:])].add(captions.WORDS[answer])
    assert found == {"colour": {"blue"}, "shape": {"ring"}, "place": {"right"}}


def test_what_is_held_out_is_new_as_a_pair_and_known_in_its_parts():
    training, held_out = set(captions.TRAINING), set(captions.NEVER_TOGETHER)
    assert training | held_out == set(captions.KINDS) and not training & held_out
    assert not {kind[:2] for kind in training} & {kind[:2] for kind in held_out}
    for part in range(3):
        assert {kind[part] for kind in training} == set(range(4))


def test_the_same_state_gives_the_same_pictures():
    for sampler in (captions.captioned(5), captions.asked(5)):
        one, other = sampler(dice(4)), sampler(dice(4))
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="65 different pictures cannot"):
        captions.captioned(65)
    with pytest.raises(ValueError, match="0 different"):
        captions.captioned(0)
    with pytest.raises(ValueError, match="at least 1 question, not 0"):
        captions.asked(0)
