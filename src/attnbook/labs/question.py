"""What a lab asks for: questions, the cases they are tried on, and the mistakes people make.

A question has one program. `program(wrong, *arguments)` makes the mistakes named in the set
`wrong`; with an empty set it is the right answer. So the answer and everything typical that is not
the answer stand side by side in a few lines, and all pairs of mistakes come for free.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from attnbook.labs.prints import fingerprint, outcome, same


@dataclass(frozen=True)
class Case:
    """Arguments to try a function on. A `robust` case counts once all the plain ones are right."""

    name: str
    arguments: tuple
    weight: int = 1
    robust: bool = False


@dataclass(frozen=True)
class Question:
    """One function to write. `cases(numbers)` makes its cases out of random numbers.

    `mistakes` says in a sentence what each one is; those in `shifts` change a scale that
    `measure` ("scores" or "weights") can read off a result. `banned` are torch's own operations,
    whose use is flagged for the lecturer; "without attend" flags who does not use `attend`.
    """

    program: Callable
    cases: Callable
    mistakes: dict[str, str]
    measure: str = ""
    shifts: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """One way to decide something that a lab may ask for in several ways, such as which mask.

    `text` says what it replaces in the notebook. `flips` has, for each question it changes, the
    mistakes that are right here, with a sentence for those who do not make them.
    """

    text: dict[str, str] = field(default_factory=dict)
    flips: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class Sheet:
    """Everything needed to judge one question. Only the lecturer's holds `answers`."""

    cases: list[Case]
    right: list
    shapes: list
    known: list  # pairs (names of mistakes, fingerprints)
    mistakes: dict[str, str]
    measure: str = ""
    shifts: list = field(default_factory=list)
    banned: list = field(default_factory=list)
    answers: list = field(default_factory=list)


def copies(arguments):
    """The arguments once more: whatever happens to these, the first ones stay as they are."""
    return tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in arguments)


def run(program, wrong, cases):
    """What the program with these mistakes answers to each case."""
    return [outcome(program, (wrong, *copies(case.arguments))) for case in cases]


def drawn(question, seed):
    """A question's cases for random numbers of this seed."""
    return question.cases(torch.Generator().manual_seed(seed))


def sheet(question, cases, flips=None):
    """All that is needed to judge a question on these cases, with the `flips` of some options.

    Sets of mistakes that answer alike are told apart by nobody: of those the smallest stays.
    """
    flips = flips or {}
    mistakes = question.mistakes | flips
    answers = run(question.program, frozenset(flips), cases)
    known, seen = [], [answers]
    for count in (1, 2):
        for wrong in itertools.combinations(mistakes, count):
            result = run(question.program, frozenset(flips) ^ frozenset(wrong), cases)
            if any(all(map(same, result, other)) for other in seen):
                continue
            seen.append(result)
            known.append((wrong, [fingerprint(one) for one in result]))
    shapes = [[list(part.shape) for part in answer] for answer in answers]
    right = [fingerprint(answer) for answer in answers]
    extra = question.measure, list(question.shifts), list(question.banned)
    return Sheet(cases, right, shapes, known, mistakes, *extra, answers)
