"""A small grammar that writes English sentences together with their French translations.

    my red car sees the old dogs   →   ma voiture rouge voit les vieux chiens

In French, determiners and adjectives agree with the noun in gender and number, verbs with the
subject in number; six of the nine adjectives follow their noun. All nouns and all adjectives that
precede one begin with a consonant, so nothing is elided, and the forms that French has before a
vowel (l'arbre, mon école, un bel oiseau) are not needed.

All chance comes from `random.Random(seed).random()`, whose sequence Python guarantees for all its
releases: the corpora are the same lists on every machine.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from attnbook.data.vocabulary import Pair


def _table(text: str) -> list[tuple[list[str], list[str]]]:
    """English forms (singular, plural) and French forms of each line."""
    halves = (line.split("|") for line in text.strip().split("\n"))
    return [(english.split(), french.split()) for english, french in halves]


# French forms: masculine and feminine singular, masculine and feminine plural.
DETERMINERS = _table("""
    the the   | le la les les
    my my     | mon ma mes mes
    your your | ton ta tes tes
    this these | ce cette ces ces
""")
BEFORE = _table("""
    small small | petit petite petits petites
    old old     | vieux vieille vieux vieilles
    beautiful beautiful | beau belle beaux belles
""")
AFTER = _table("""
    red red     | rouge rouge rouges rouges
    green green | vert verte verts vertes
    black black | noir noire noirs noires
    white white | blanc blanche blancs blanches
    blue blue   | bleu bleue bleus bleues
    grey grey   | gris grise gris grises
""")
# French forms: singular, plural.
MASCULINE = _table("""
    dog dogs     | chien chiens
    cat cats     | chat chats
    book books   | livre livres
    horse horses | cheval chevaux
    hat hats     | chapeau chapeaux
""")
FEMININE = _table("""
    car cars       | voiture voitures
    house houses   | maison maisons
    table tables   | table tables
    dress dresses  | robe robes
    flower flowers | fleur fleurs
""")
VERBS = _table("""
    sees see       | voit voient
    watches watch  | regarde regardent
    follows follow | suit suivent
    pushes push    | pousse poussent
""")
NOUNS = MASCULINE + FEMININE
# Each noun with one adjective, singular and plural, that training never shows together.
NOVEL = {
    ((BEFORE + AFTER)[(4 * place + 2) % 9][0][0], english[0])
    for place, (english, _) in enumerate(NOUNS)
}
SHOWN = (["my", "red", "car"], ["ma", "voiture", "rouge"])  # the book's example, never trained on
LONGEST = 27  # words of an English sentence


class Phrase(NamedTuple):
    """Words of the same meaning; `met` are the (adjective, noun) combinations among them."""

    english: list[str]
    french: list[str]
    met: set[tuple[str, str]]
    plural: bool = False

    def then(self, other: "Phrase") -> "Phrase":
        """This phrase and the other one after it."""
        english, french = self.english + other.english, self.french + other.french
        return Phrase(english, french, self.met | other.met, self.plural)


def noun_phrase(draw: random.Random, adjective: bool = False) -> Phrase:
    """A determiner, a noun and 0 to 2 adjectives (at least one if `adjective`)."""
    determiner, noun = _one(draw, DETERMINERS), _one(draw, NOUNS)
    plural = draw.random() < 0.5
    before = [_one(draw, BEFORE)] if draw.random() < 0.5 else []
    after = [_one(draw, AFTER)] if draw.random() < 0.5 or (adjective and not before) else []
    form = 2 * plural + (noun in FEMININE)
    return Phrase(
        english=[english[plural] for english, _ in (determiner, *before, *after, noun)],
        french=[
            *(french[form] for _, french in (determiner, *before)),
            noun[1][plural],
            *(french[form] for _, french in after),
        ],
        met={(english[0], noun[0][0]) for english, _ in before + after},
        plural=plural,
    )


def clause(draw: random.Random) -> Phrase:
    """A subject, a verb, and an object in five cases of eight: 3 to 9 words."""
    subject, (english, french) = noun_phrase(draw), _one(draw, VERBS)
    said = subject.then(Phrase([english[subject.plural]], [french[subject.plural]], set()))
    return said.then(noun_phrase(draw)) if draw.random() < 0.625 else said


def sentences(draw: random.Random, clauses: int) -> Iterator[Phrase]:
    """Endless sentences of 1 to `clauses` clauses; of single ones, a fifth is a noun phrase."""
    while True:
        count = 1 + int(draw.random() * clauses)
        alone = count == 1 and draw.random() < 0.2
        sentence = noun_phrase(draw, adjective=True) if alone else clause(draw)
        for _ in range(count - 1):
            sentence = sentence.then(Phrase(["and"], ["et"], set())).then(clause(draw))
        if len(sentence.english) <= LONGEST:
            yield sentence


def corpus(clauses: int, train: int, held_out: int, seed: int = 0) -> dict[str, list]:
    """`train` pairs, and `held_out` each for validation, test and `novel`; none stands twice."""
    known: list[Pair] = []
    novel: list[Pair] = []
    seen = {" ".join(SHOWN[0])}
    wanted = train + 2 * held_out - 1
    for english, french, met, _ in sentences(random.Random(seed), clauses):
        part, size = (novel, held_out) if met & NOVEL else (known, wanted)
        if len(part) < size and " ".join(english) not in seen:
            seen.add(" ".join(english))
            part.append((english, french))
        if len(known) == wanted and len(novel) == held_out:
            break
    return {
        "train": known[:train],
        "validation": known[train : train + held_out],
        "test": [SHOWN, *known[train + held_out :]],
        "novel": novel,
    }


def toy() -> dict[str, list]:
    """4,000 pairs of one clause, and 500 each for validation, test and novel combinations."""
    return corpus(clauses=1, train=4000, held_out=500)


def toy_long() -> dict[str, list]:
    """8,000 pairs of 1 to 3 clauses, 3 to 27 words; 1,000 each for validation, test, novel."""
    return corpus(clauses=3, train=8000, held_out=1000)


def _one(draw: random.Random, options: Sequence[Any]) -> Any:
    return options[int(draw.random() * len(options))]
