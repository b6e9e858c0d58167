"""Words to numbers and back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data.vocabulary import BEGIN, END, PAD, SPECIALS, UNKNOWN, Vocabulary

WORDS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1)


def test_special_tokens_have_the_agreed_numbers():
    assert (PAD, BEGIN, END, UNKNOWN) == (0, 1, 2, 3)
    assert Vocabulary([["a"]]).words == ("<pad>", "<s>", "</s>", "<unk>", "a")


@given(WORDS)
def test_decoding_undoes_encoding(sentence):
    vocabulary = Vocabulary([sentence])
    ids = vocabulary.encode(sentence)
    assert min(ids) >= len(SPECIALS) and max(ids) < len(vocabulary)
    assert vocabulary.decode(ids) == vocabulary.decode(torch.tensor(ids)) == sentence


@given(WORDS, st.randoms())
def test_numbers_depend_on_counts_and_spelling_not_on_order(sentence, draw):
    shuffled = draw.sample(sentence, len(sentence))
    assert Vocabulary([sentence]).words == Vocabulary([[word] for word in shuffled]).words


def test_frequent_words_come_first_and_ties_by_spelling():
    assert Vocabulary([["b", "c", "a"], ["c", "d"]]).words[4:] == ("c", "a", "b", "d")


def test_rare_words_and_words_beyond_the_size_are_unknown():
    sentences = [["a", "a", "a", "b", "b", "c"]]
    assert Vocabulary(sentences, min_count=2).encode(["a", "b", "c"]) == [4, 5, UNKNOWN]
    small = Vocabulary(sentences, max_size=5)
    assert small.encode(["a", "b", "c"]) == [4, UNKNOWN, UNKNOWN] and len(small) == 5
    assert "a" in small and "b" not in small


def test_decoding_stops_at_the_end_and_shows_what_is_unknown():
    vocabulary = Vocabulary([["a", "b", "b"]])
    assert vocabulary.decode([BEGIN, 5, UNKNOWN, PAD, 4, END, 5, 5]) == ["a", "<unk>", "b"]


def test_a_word_that_looks_special_is_not_confused_with_one():
    vocabulary = Vocabulary([["<pad>", "a"]])
    assert len(vocabulary) == 5


def test_bad_requests_name_their_numbers():
    with pytest.raises(ValueError, match=r"vocabulary of 4 .* 4 are special"):
        Vocabulary([["a"]], max_size=4)
    with pytest.raises(ValueError, match="none of 2 different words occurs 3 times"):
        Vocabulary([["a", "b", "a"]], min_count=3)
    with pytest.raises(ValueError, match="not the string 'a b'"):
        Vocabulary([["a"]]).encode("a b")
    with pytest.raises(ValueError, match=r"word 5 is not in 0\.\.4"):
        Vocabulary([["a"]]).decode([4, 5])


def test_special_tokens_cannot_be_typed():
    vocabulary = Vocabulary([["a", "b"]])
    assert vocabulary.encode(["<pad>", "</s>", "<s>", "a"]) == [UNKNOWN, UNKNOWN, UNKNOWN, 4]
    assert "<pad>" not in vocabulary
