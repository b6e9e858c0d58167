"""The generated French is right: derived a second time, by rules written here, from the English.

The grammar looks its forms up in tables; here they follow from a word's gender, its number and the
rules of French spelling, with the exceptions that a school grammar lists.
"""

import hashlib
import random
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbook.data import grammar

MASCULINE = {"dog": "chien", "cat": "chat", "book": "livre", "horse": "cheval", "hat": "chapeau"}
FEMININE = {"car": "voiture", "house": "maison", "dress": "robe", "flower": "fleur"}
FEMININE["table"] = "table"
FOLLOWING = {"red": "rouge", "green": "vert", "black": "noir", "white": "blanc", "blue": "bleu"}
FOLLOWING["grey"] = "gris"
PRECEDING = {"small": "petit", "old": "vieux", "beautiful": "beau"}
INFINITIVES = {"see": "voir", "watch": "regarder", "follow": "suivre", "push": "pousser"}
ARTICLES = {"the": "le la les", "this": "ce cette ces", "these": "ce cette ces"}
ARTICLES |= {"my": "mon ma mes", "your": "ton ta tes"}


def feminine(adjective):
    irregular = {"vieux": "vieille", "beau": "belle", "blanc": "blanche"}
    return irregular.get(adjective, adjective if adjective.endswith("e") else adjective + "e")


def plural(word):
    """-s and -x stay, -eau takes -x, -al becomes -aux, all others take -s (bleus, not bleux)."""
    if word[-1] in "sx":
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("x" if word.endswith("eau") else "s")


def present(infinitive, many):
    if infinitive.endswith("er"):
        return infinitive[:-2] + ("ent" if many else "e")
    return {"voir": ("voit", "voient"), "suivre": ("suit", "suivent")}[infinitive][many]


def phrase(english):
    """The French of a noun phrase at the beginning, its number, and the English that remains."""
    article, *rest = english
    end = next(place for place, word in enumerate(rest) if singular(word) in MASCULINE | FEMININE)
    adjectives, noun = rest[:end], singular(rest[end])
    many, female = noun != rest[end], noun in FEMININE
    assert article not in ("this", "these") or (article == "these") == many

    def agree(word):
        word = feminine(word) if female else word
        return plural(word) if many else word

    french = [ARTICLES[article].split()[2 if many else female]]
    french += [agree(PRECEDING[word]) for word in adjectives if word in PRECEDING]
    french.append(plural((MASCULINE | FEMININE)[noun]) if many else (MASCULINE | FEMININE)[noun])
    french += [agree(FOLLOWING[word]) for word in adjectives if word in FOLLOWING]
    return french, many, rest[end + 1 :]


def singular(word):
    if word in MASCULINE | FEMININE or word in FOLLOWING | PRECEDING:
        return word
    return word.removesuffix("es") if word.endswith("sses") else word.removesuffix("s")


def translate(english):
    """The French of a whole sentence, by the rules above."""
    if "and" in english:
        cut = english.index("and")
        return [*translate(english[:cut]), "et", *translate(english[cut + 1 :])]
    french, many, rest = phrase(english)
    if not rest:
        return french
    verb, *rest = rest
    stem = verb if many else verb.removesuffix("es" if verb.endswith("hes") else "s")
    assert many or verb != stem  # an English verb takes its -s in the singular
    return [*french, present(INFINITIVES[stem], many), *(phrase(rest)[0] if rest else [])]


def met(english):
    """The (adjective, noun) combinations of an English sentence."""
    pairs, adjectives = set(), []
    for word in english:
        if word in FOLLOWING | PRECEDING:
            adjectives.append(word)
        elif singular(word) in MASCULINE | FEMININE:
            pairs |= {(adjective, singular(word)) for adjective in adjectives}
            adjectives = []
    return pairs


PARTS = ("train", "validation", "test", "novel")


@cache
def made(name):
    """The generated corpus, made once."""
    return getattr(grammar, name)()


@pytest.fixture(params=["toy", "toy_long"])
def corpus(request):
    return made(request.param)


@pytest.mark.slow
def test_every_sentence_is_good_french(corpus):
    for part in PARTS:
        for english, french in corpus[part]:
            assert french == translate(english)


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_whatever_is_drawn_agrees(seed, clauses):
    sentence = next(grammar.sentences(random.Random(seed), clauses))
    assert sentence.french == translate(sentence.english)
    assert sentence.met == met(sentence.english)


def test_words_that_agree_by_hand():
    assert " ".join(translate(["my", "red", "car"])) == "ma voiture rouge"
    assert (
        " ".join(translate(["these", "beautiful", "white", "horses", "see", "the", "old", "house"]))
        == "ces beaux chevaux blancs voient la vieille maison"
    )


def test_nothing_would_have_to_be_elided(corpus):
    for part in PARTS:
        for _, french in corpus[part]:
            for word, following in pairwise(french):
                assert "et" in (word, following) or following[0] not in "aeiouyhàâéèêîôû"


def test_no_sentence_stands_in_two_parts_or_twice(corpus):
    english = [" ".join(source) for part in PARTS for source, _ in corpus[part]]
    assert len(english) == len(set(english))


def test_novel_combinations_are_never_seen_in_training(corpus):
    known = set().union(*(met(english) for english, _ in corpus["train"]))
    assert len(known) == 9 * 10 - 10  # every other combination is seen
    assert not known & grammar.NOVEL and {noun for _, noun in grammar.NOVEL} == {
        *MASCULINE,
        *FEMININE,
    }
    for part in ("validation", "test"):
        assert all(met(english) <= known for english, _ in corpus[part])
    assert all(met(english) - known for english, _ in corpus["novel"])


def test_every_word_of_the_held_out_parts_is_trained(corpus):
    for side in (0, 1):
        words = {word for pair in corpus["train"] for word in pair[side]}
        assert all(words.issuperset(pair[side]) for part in PARTS for pair in corpus[part])


def test_the_book_s_example_is_held_out_for_the_test(corpus):
    assert corpus["test"][0] == (["my", "red", "car"], ["ma", "voiture", "rouge"])


@pytest.mark.parametrize(("make", "lengths"), [("toy", (3, 9)), ("toy_long", (3, 27))])
def test_lengths_are_as_announced(make, lengths):
    found = {len(english) for english, _ in made(make)["train"]}
    assert found == set(range(lengths[0], lengths[1] + 1))


@pytest.mark.parametrize(
    ("make", "digest"),
    [
        ("toy", "b3f12b0be20ebb0b63336e5c532fc1d7ae397a56e86aa801dfe81f7f1b846d9d"),
        ("toy_long", "36e3d4751da6b25d71f6c9e447f2c936564a06f4f37a4985c4e7b5f2bb83136e"),
    ],
)
def test_the_lists_are_the_same_on_every_machine_and_python(make, digest):
    corpus = made(make)
    text = repr([(part, corpus[part]) for part in PARTS])
    assert hashlib.sha256(text.encode()).hexdigest() == digest
