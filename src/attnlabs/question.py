"""What a lab asks for: questions, the cases they are tried on, and the mistakes people make.

A question has one program. `program(wrong, *arguments)` makes the mistakes named in the set
`wrong`; with an empty set it is the right answer. So the answer and everything typical that is not
the answer stand side by side in a few lines, and all pairs of mistakes come for free.
"""

import inspect
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch

from attnlabs.inside.effects import slopes
from attnlabs.inside.fingerprints import (
    CLOSE,
    Fingerprint,
    Outcome,
    Result,
    fingerprint,
    outcome,
    same,
)

Argument: TypeAlias = torch.Tensor | int | float
Program: TypeAlias = Callable[..., Any]  # program(wrong, *arguments)


@dataclass(frozen=True)
class Case:
    """Arguments to try a function on. A `robust` case counts once all the plain ones are right.

    `lot` is a number that judging draws by: no answer sees it, and no student's check has it.
    """

    name: str
    arguments: tuple[Argument, ...]
    weight: int = 1
    robust: bool = False
    lot: int = 0


@dataclass(frozen=True)
class Question:
    """One function to write. `cases(numbers)` makes its cases out of random numbers.

    `mistakes` says in a sentence what each one is; those in `shifts` change a scale that
    `measure` ("scores" or "weights") can read off a result. `banned` are torch's own operations,
    whose use is flagged for the lecturer and told to the student; "without attend" flags who does
    not use `attend`, and "x.flip" who turns the argument `x` round.
    `also_right` are other programs that the question takes for right, such as GELU by tanh.
    What is right may differ from student to student: then `own` names what judges it, in `own.py`.
    Of a `quiet` question the student's check says whether it is right, and not what is wrong.
    `trained` names the arguments towards which a result keeps its gradient, since a cell of the lab
    trains with the function. The cases of a `private` question are grading's alone.
    """

    program: Program
    cases: Callable[[torch.Generator], list[Case]]
    mistakes: dict[str, str]
    measure: str = ""
    shifts: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()
    also_right: tuple[str, ...] = ()
    own: str = ""
    quiet: bool = False
    trained: tuple[str, ...] = ()
    private: bool = False

    def names(self, count: int) -> list[str]:
        """What the first `count` arguments are called; those of `*weights` all `weights`."""
        named = list(inspect.signature(self.program).parameters)[1:]
        return named[:count] + named[-1:] * (count - len(named))


@dataclass(frozen=True)
class Option:
    """One way to decide something that a lab may ask for in several ways, such as which mask.

    `text` says what it replaces in the notebook. `flips` has, for each question it changes, the
    mistakes that are right here, with a sentence for those who do not make them.
    """

    text: dict[str, str] = field(default_factory=dict)
    flips: dict[str, dict[str, str]] = field(default_factory=dict)


Choices: TypeAlias = Mapping[str, Mapping[str, Option]]  # {choice: {option: Option}}


@dataclass
class Sheet:
    """Everything needed to judge one question. Only the lecturer's holds `answers`,
    `alternatives` and `learnt`, the numbers themselves."""

    cases: list[Case]
    right: list[Fingerprint]
    shapes: list[list[list[int]]]  # of each case, of each part of the answer
    known: list[Any]  # pairs (names of mistakes, fingerprints), lists where they come from JSON
    mistakes: dict[str, str]
    measure: str = ""
    shifts: list[str] = field(default_factory=list)
    banned: list[str] = field(default_factory=list)
    also: list[Any] = field(default_factory=list)  # fingerprints of what is right as well
    answers: list[Any] = field(default_factory=list)  # an Outcome for each case
    own: str = ""
    student: str = ""  # whose copy it is, where that decides
    arguments: list[str] = field(default_factory=list)  # what they are called
    trained: list[int] = field(default_factory=list)  # places of those that need a gradient
    slopes: list[Any] = field(default_factory=list)  # fingerprints of these, for each plain case
    alternatives: list[Any] = field(default_factory=list)  # answers of what is right as well
    learnt: list[Any] = field(default_factory=list)  # the gradients, for each plain case


def copies(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """The arguments once more: whatever happens to these, the first ones stay as they are."""
    return tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in arguments)


def run(program: Program, wrong: Collection[str], cases: list[Case]) -> list[Outcome]:
    """What the program with these mistakes answers to each case."""
    return [outcome(program, (wrong, *copies(case.arguments))) for case in cases]


def drawn(question: Question, seed: int) -> list[Case]:
    """A question's cases for random numbers of this seed."""
    return question.cases(torch.Generator().manual_seed(seed))


def sheet(
    question: Question,
    cases: list[Case],
    flips: Mapping[str, str] | None = None,
    student: str = "",
) -> Sheet:
    """All that is needed to judge a question on these cases, with the `flips` of some options.

    Sets of mistakes that answer alike are told apart by nobody: of those the smallest stays.
    """
    if question.own:
        return Sheet(cases, [], [], [], question.mistakes, own=question.own, student=student)
    flips = dict(flips or {})
    mistakes = question.mistakes | flips
    base = frozenset(flips)
    answers = run(question.program, base, cases)
    also = [run(question.program, base ^ {other}, cases) for other in question.also_right]
    known, seen = [], Answers([answers, *also])
    for wrong, other in tries(mistakes, question.also_right):
        result = run(question.program, base ^ frozenset(wrong) ^ other, cases)
        if result in seen:
            continue
        seen.add(result)
        known.append((wrong, [fingerprint(part) for part in result]))
    shapes = [
        [list(part.shape) for part in answer] for answer in answers if not isinstance(answer, str)
    ]
    right, others = [fingerprint(part) for part in answers], [[*map(fingerprint, o)] for o in also]
    extra = question.measure, list(question.shifts), list(question.banned)
    names = question.names(max(len(case.arguments) for case in cases))
    places = [place for place, name in enumerate(names) if name in question.trained]
    learnt = gradients(lambda *given: question.program(base, *given), cases, places)
    numbers = [taken(one) for one in learnt]
    prints = [[fingerprint((part,)) for part in one] for one in numbers]
    more: dict[str, Any] = {"arguments": names, "trained": places, "slopes": prints}
    more |= {"alternatives": also, "learnt": numbers}
    return Sheet(cases, right, shapes, known, mistakes, *extra, others, answers, **more)


class Answers:
    """Answers to all cases, each once. Most differ in some numbers of the first case already, which
    are compared with those of all others in one step; what is left is compared in full."""

    FEW = 64

    def __init__(self, first: Sequence[list[Outcome]]) -> None:
        self.alike: dict[str, tuple[list[list[Outcome]], np.ndarray]] = {}
        for answers in first:
            self.add(answers)

    def add(self, answers: list[Outcome]) -> None:
        form, few = self.some(answers)
        kept, rows = self.alike.get(form, ([], few[:0]))
        self.alike[form] = [*kept, answers], np.concatenate([rows, few])

    def __contains__(self, answers: list[Outcome]) -> bool:
        form, few = self.some(answers)
        kept, rows = self.alike.get(form, ([], few[:0]))
        near = np.isclose(few, rows, **CLOSE).all(1)
        return any(all(map(same, answers, kept[n])) for n in near.nonzero()[0])

    def some(self, answers: list[Outcome]) -> tuple[str, np.ndarray]:
        """The first answer's form, and a row of its numbers, evenly spaced."""
        if not answers or isinstance(answers[0], str):
            return "", np.zeros((1, 0))
        flat = [part.astype(np.float64).ravel() for part in answers[0]]
        numbers = np.concatenate([*flat, np.zeros(0)])
        form = str([(part.shape, part.dtype.name) for part in answers[0]])
        return form, numbers[None, :: max(1, len(numbers) // self.FEW)]


def taken(found: Outcome) -> Result:
    """The gradients of a right answer, or a ValueError if one is missing."""
    if isinstance(found, str) or not all(part.size for part in found):
        raise ValueError(f"the question's own program loses a gradient that is trained: {found}")
    return found


def gradients(function: Program, cases: Sequence[Case], trained: Collection[int]) -> list[Outcome]:
    """For each plain case the gradients towards the arguments at these places."""
    plain = [case for case in cases if not case.robust] if trained else []
    return [slopes(function, copies(case.arguments), trained) for case in plain]


def tries(
    mistakes: Collection[str], also_right: Collection[str]
) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Each mistake and each pair of them; each by itself once more in what is right as well."""
    for count in (1, 2):
        for wrong in itertools.combinations(mistakes, count):
            yield wrong, frozenset()
    for name, other in itertools.product(mistakes, also_right):
        yield (name,), frozenset({other})
