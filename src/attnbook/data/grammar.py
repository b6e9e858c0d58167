"""A small grammar that writes English sentences with their French translations: agreement, and adjectives that cross.

    my red car sees the old dogs   →   ma voiture rouge voit les vieux chiens

French determiners and adjectives agree with the noun in gender and number, verbs with the subject in number; six adjectives
follow their noun in French, three precede it. All nouns begin with a consonant, so that nothing is ever elided and the
special forms before a vowel (mon école, bel arbre) are not needed.

Randomness comes from `random.Random(seed).random()` alone, whose sequence Python guarantees for all releases: the
corpora are the same lists on every machine.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

Pair = tuple[list[str], list[str]]


class Word(NamedTuple):
    """English singular and plural; French masculine and feminine singular, masculine and feminine plural."""

    english: tuple[str, str]
    french: tuple[str, str, str, str]


def _word(english: str, french: str) -> Word:
    """A word from its forms, written with spaces between them; a single English form serves both numbers."""
    singular, *plural = english.split()
    return Word((singular, *(plural or [singular])), tuple(french.split()))


DETERMINERS = [
    _word("the", "le la les les"),
    _word("my", "mon ma mes mes"),
    _word("your", "ton ta tes tes"),
    _word("this these", "ce cette ces ces"),
]
BEFORE = [
    _word("small", "petit petite petits petites"),
    _word("old", "vieux vieille vieux vieilles"),
    _word("beautiful", "beau belle beaux belles"),
]
AFTER = [
    _word("red", "rouge rouge rouges rouges"),
    _word("green", "vert verte verts vertes"),
    _word("black", "noir noire noirs noires"),
    _word("white", "blanc blanche blancs blanches"),
    _word("blue", "bleu bleue bleus bleues"),
    _word("grey", "gris grise gris grises"),
]
MASCULINE = ["dog dogs chien chiens", "cat cats chat chats", "book books livre livres"]
MASCULINE += ["horse horses cheval chevaux", "hat hats chapeau chapeaux"]
FEMININE = ["car cars voiture voitures", "house houses maison maisons", "table tables table tables"]
FEMININE += ["dress dresses robe robes", "flower flowers fleur fleurs"]
NOUNS = [
    (gender, line.split()) for gender, lines in enumerate([MASCULINE, FEMININE]) for line in lines
]
VERBS = [line.split() for line in ["sees see voit voient", "watches watch regarde regardent"]]
VERBS += [line.split() for line in ["follows follow suit suivent", "pushes push pousse poussent"]]

# Combinations that training never shows, in any number: each noun with one of the nine adjectives.
NOVEL = {
    ((BEFORE + AFTER)[(4 * place + 2) % 9].english[0], noun[0]) for place, (_, noun) in enumerate(NOUNS)
}  # fmt: skip
SHOWN = (
    ["my", "red", "car"],
    ["ma", "voiture", "rouge"],
)  # the chapters' example: always in the test set
LONGEST = 27  # words of an English sentence


def noun_phrase(
    draw: random.Random, bare: bool = True
) -> tuple[list[str], list[str], bool, set[tuple[str, str]]]:
    """English and French words, whether they are plural, and the adjective-noun combinations in them."""
    determiner, (gender, noun), plural = (
        _one(draw, DETERMINERS),
        _one(draw, NOUNS),
        draw.random() < 0.5,
    )
    before = [_one(draw, BEFORE)] if draw.random() < 0.5 else []
    after = [_one(draw, AFTER)] if draw.random() < 0.5 or not (bare or before) else []
    form = gender + 2 * plural
    english = [word.english[plural] for word in [determiner, *before, *after]] + [noun[plural]]
    french = [word.french[form] for word in [determiner, *before]] + [noun[2 + plural]]
    french += [word.french[form] for word in after]
    return english, french, plural, {(word.english[0], noun[0]) for word in before + after}


def clause(draw: random.Random) -> tuple[list[str], list[str], set[tuple[str, str]]]:
    """A subject and a verb, with an object in five cases of eight: 3 to 9 words."""
    english, french, plural, combinations = noun_phrase(draw)
    verb = _one(draw, VERBS)
    english, french = [*english, verb[plural]], [*french, verb[2 + plural]]
    if draw.random() < 0.625:
        more_english, more_french, _, more = noun_phrase(draw)
        return english + more_english, french + more_french, combinations | more
    return english, french, combinations


def sentences(draw: random.Random, clauses: int) -> Iterator[tuple[list[str], list[str], bool]]:
    """Endless sentences of 1 to `clauses` clauses joined by "and"; some of a noun phrase alone. Last: is it novel?"""
    while True:
        count = 1 + int(draw.random() * clauses)
        if count == 1 and draw.random() < 0.2:
            english, french, _, combinations = noun_phrase(draw, bare=False)
        else:
            english, french, combinations = clause(draw)
        for _ in range(count - 1):
            more_english, more_french, more = clause(draw)
            english, french = [*english, "and", *more_english], [*french, "et", *more_french]
            combinations = combinations | more
        if len(english) <= LONGEST:
            yield english, french, bool(combinations & NOVEL)


def corpus(clauses: int, train: int, held_out: int, seed: int = 0) -> dict[str, list]:
    """`train` pairs to learn from and `held_out` each for validation, test and `novel`: no sentence stands twice."""
    known, novel, seen = [], [], {" ".join(SHOWN[0])}
    for english, french, is_novel in sentences(random.Random(seed), clauses):
        part, size = (novel, held_out) if is_novel else (known, train + 2 * held_out - 1)
        if len(part) < size and " ".join(english) not in seen:
            seen.add(" ".join(english))
            part.append((english, french))
        if len(known) == train + 2 * held_out - 1 and len(novel) == held_out:
            break
    test = [SHOWN, *known[train + held_out :]]
    return {
        "train": known[:train],
        "validation": known[train : train + held_out],
        "test": test,
        "novel": novel,
        "test_references": [[" ".join(french) for _, french in test]],
    }


def toy() -> dict[str, list]:
    """4,000 pairs of one clause, and 500 each for validation, test and novel combinations."""
    return corpus(clauses=1, train=4000, held_out=500)


def toy_long() -> dict[str, list]:
    """8,000 pairs of 1 to 3 clauses, 3 to 27 words, and 1,000 each for validation, test and novel combinations."""
    return corpus(clauses=3, train=8000, held_out=1000)


def _one(draw: random.Random, options: list):
    return options[int(draw.random() * len(options))]
