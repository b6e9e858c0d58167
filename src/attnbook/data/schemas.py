"""Sentences with a pronoun that only verb and adjective together resolve; what is big, what small.

"the trophy cannot go-into the suitcase because it is too big": what is? After the schemas of
Winograd 1972 and Levesque et al. 2012, with so few words that a small model can learn them.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, permutations

import torch
from jaxtyping import Int
from torch import Tensor

THINGS = ["trophy", "vase", "book", "lamp", "ball", "statue", "clock", "radio"]
NOUNS = [*THINGS, "suitcase", "box", "bag", "drawer", "crate", "case", "chest", "basket"]
FIT, HOLD = ["fit-into", "go-into", "slip-into"], ["hold", "contain", "take-in"]
BIG = ["big", "large", "huge", "bulky", "wide", "tall"]
SMALL = ["small", "little", "tiny", "slim", "narrow", "short"]
GREAT, LITTLE = ["elephant", "tower", "house", "whale"], ["mouse", "pebble", "ant", "pea"]
FRAME = ["the", "cannot", "because", "it", "is", "too", "what?"]
WORDS = [*FRAME, *NOUNS, *FIT, *HOLD, *BIG, *SMALL, *GREAT, *LITTLE]
TOKEN = {word: number for number, word in enumerate(WORDS)}
V = len(WORDS)

# Every fifth pair of nouns is kept for tests, in both orders.
NEW = [order for pair in list(combinations(NOUNS, 2))[::5] for order in permutations(pair)]
OLD = [pair for pair in permutations(NOUNS, 2) if pair not in NEW]

Sampler = Callable[[torch.Generator], Int[Tensor, "B T"]]


def tokens(words: Sequence[str]) -> Int[Tensor, " T"]:
    """The numbers of these words; a ValueError names the first that is none of `WORDS`."""
    unknown = [word for word in words if word not in TOKEN]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not one of the {V} words")
    return torch.tensor([TOKEN[word] for word in words])


def referent(verb: str, adjective: str) -> int:
    """0 if "it" is the first noun, 1 if the second: what is too big to go in, too small to hold."""
    return int((verb in FIT) != (adjective in BIG))


def schema(nouns: Sequence[str], verb: str, adjective: str) -> list[str]:
    """One sentence, the question, and last its answer: 13 words."""
    first, second = nouns
    asked = f"the {first} cannot {verb} the {second} because it is too {adjective} what?".split()
    return [*asked, nouns[referent(verb, adjective)]]


def draw(options: Sequence[str], B: int, generator: torch.Generator) -> Int[Tensor, " B"]:
    """`B` of these words, each equally likely."""
    return tokens(options)[torch.randint(len(options), (B,), generator=generator)]


def schemas(B: int, adjectives: Sequence[str], pairs: Sequence = OLD, fit: float = 0.75) -> Sampler:
    """A sampler of `B` schemas with these adjectives and pairs of nouns.

    A share `fit` has a verb of fitting. With a half neither verb nor adjective alone tells anything
    about the referent, and gradient descent finds no way to begin.
    """
    check_schema(B, adjectives)
    if not 0 <= fit <= 1:
        raise ValueError(f"a share lies between 0 and 1, not at {fit}")
    frame = tokens(schema(NOUNS[:2], FIT[0], BIG[0]))
    nouns, big = torch.stack([tokens(pair) for pair in pairs]), tokens(BIG)

    def sample(generator: torch.Generator) -> Tensor:
        pair = nouns[torch.randint(len(nouns), (B,), generator=generator)]
        fits = torch.rand(B, generator=generator) < fit
        verb = torch.where(fits, draw(FIT, B, generator), draw(HOLD, B, generator))
        adjective = draw(adjectives, B, generator)
        second = (fits != torch.isin(adjective, big)).long()
        answer = pair.gather(1, second[:, None])[:, 0]
        sentences = frame.repeat(B, 1)
        sentences[:, [1, 5, 3, 10, 12]] = torch.stack([*pair.T, verb, adjective, answer], 1)
        return sentences

    return sample


def descriptions(B: int, adjectives: Sequence[str] = (*BIG, *SMALL)) -> Sampler:
    """A sampler of `B` times three words such as "the tall tower": what is big, what is small."""
    check_schema(B, adjectives)

    def sample(generator: torch.Generator) -> Tensor:
        adjective = draw(adjectives, B, generator)
        great, little = draw(GREAT, B, generator), draw(LITTLE, B, generator)
        noun = torch.where(torch.isin(adjective, tokens(BIG)), great, little)
        return torch.stack([tokens(["the"]).expand(B), adjective, noun], 1)

    return sample


def check_schema(B: int, adjectives: Sequence[str]) -> None:
    """Raise a ValueError unless there is something to draw."""
    if B < 1:
        raise ValueError(f"a batch holds at least 1 sentence, not {B}")
    wrong = [word for word in adjectives if word not in (*BIG, *SMALL)]
    if wrong or not adjectives:
        raise ValueError(f"adjectives are {', '.join((*BIG, *SMALL))}; got {list(adjectives)}")
