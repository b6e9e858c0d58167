"""Characters, corpora, windows."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import text


@given(st.text(min_size=1), st.data())
def test_decoding_undoes_encoding(alphabet, data):
    characters = text.Characters(alphabet)
    message = data.draw(st.text(st.sampled_from(characters.symbols)))
    tokens = characters.encode(message)
    assert tokens.dtype == torch.long and tokens.shape == (len(message),)
    assert characters.decode(tokens) == characters.decode(tokens.tolist()) == message


def test_numbers_are_places_in_sorted_order():
    characters = text.Characters("banana")
    assert (characters.symbols, len(characters)) == ("abn", 3)
    assert characters.encode("nab").tolist() == [2, 0, 1]


def test_an_unknown_character_is_named_with_its_position():
    with pytest.raises(ValueError, match=r"'Z' at position 3 .* 3 known symbols 'abn'"):
        text.Characters("banana").encode("banZana")


@pytest.mark.parametrize("number", [3, -1])
def test_a_number_outside_the_alphabet_is_named_with_its_position(number):
    with pytest.raises(ValueError, match=rf"{number} at position 1 .*0\.\.2"):
        text.Characters("banana").decode([0, number])


def test_the_default_text_needs_no_network(monkeypatch):
    monkeypatch.setattr(text.registry, "fetch", None)
    corpus = text.load()
    assert corpus.name == "python-docs"
    for part in (corpus.train, corpus.validation):
        assert corpus.characters.decode(corpus.characters.encode(part)) == part
    assert f"{len(corpus.train):,}" in repr(corpus)


def test_held_out_texts_are_embedded(monkeypatch):
    monkeypatch.setattr(text.registry, "fetch", None)
    assert text.held_out() == text.load().validation
    assert len(text.held_out("shakespeare")) == 111_540
    assert text.held_out("shakespeare").startswith("?\n\nGREMIO:")


def test_shakespeare_is_divided_as_usual(real_data):
    corpus = text.load("shakespeare")
    assert corpus.validation == text.held_out("shakespeare")
    assert (len(corpus.train), len(corpus.validation)) == (1_003_854, 111_540)
    assert len(corpus.characters) == 65
    assert corpus.train.startswith("First Citizen:\nBefore we proceed")


def test_an_unknown_text_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'milton'.*'python-docs', 'shakespeare'"):
        text.load("milton")


@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 6), st.integers(0, 99))
def test_targets_are_the_next_characters(T, B, more, seed):
    tokens = torch.arange(T + 1 + more) * 3  # each place has its own number
    inputs, targets = text.windows(tokens, T, B)(torch.Generator().manual_seed(seed))
    assert inputs.shape == targets.shape == (B, T)
    assert torch.equal(targets, inputs + 3)
    assert torch.equal(inputs.diff(dim=1), torch.full((B, T - 1), 3))


def test_windows_reach_both_ends_of_the_text():
    inputs, targets = text.windows(torch.arange(11), 4, 300)(torch.Generator().manual_seed(0))
    assert set(inputs[:, 0].tolist()) == set(range(7)) and targets.max() == 10


def test_windows_continue_from_the_generator_s_state():
    sample, generator = text.windows(torch.arange(97), 5, 3), torch.Generator().manual_seed(1)
    sample(generator)
    state = generator.get_state()
    first = [sample(generator) for _ in range(3)]
    generator.set_state(state)
    for one, other in zip(first, [sample(generator) for _ in range(3)], strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


@given(st.integers(1, 7), st.integers(1, 40))
def test_consecutive_windows_predict_each_character_once(T, more):
    tokens = torch.arange(T + more)
    inputs, targets = text.consecutive(tokens, T)
    assert torch.equal(targets.flatten(), torch.arange(1, targets.numel() + 1))
    assert torch.equal(inputs, targets - 1)
    assert len(tokens) - 1 - targets.numel() < T


@pytest.mark.parametrize("cut", [lambda x, T: text.windows(x, T, 2), text.consecutive])
def test_a_window_longer_than_the_text_is_refused_with_both_numbers(cut):
    with pytest.raises(ValueError, match=r"7 characters .* window of 7 .* at least 8"):
        cut(torch.arange(7), 7)
    with pytest.raises(ValueError, match="at least 1 character, not 0"):
        cut(torch.arange(7), 0)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="at least 1 window, not 0"):
        text.windows(torch.arange(7), 3, 0)


def test_words_are_lower_case_and_keep_inner_apostrophes():
    assert text.words("The 'x' isn't Émile's_2 y.\n") == ["the", "x", "isn't", "émile's", "y"]


def test_windows_are_drawn_on_the_tokens_device_whatever_the_default_is():
    expected = text.windows(torch.arange(97), 5, 3)(torch.Generator().manual_seed(1))
    try:
        torch.set_default_device("meta")
        tokens = torch.arange(97, device="cpu")
        found = text.windows(tokens, 5, 3)(torch.Generator("cpu").manual_seed(1))
    finally:
        torch.set_default_device(None)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))
