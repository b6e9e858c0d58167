"""Who judges a question whose right answer is one student's alone: `Question.own` names it.

Lab 9 has a ward of runs for each student, lab 10 texts to examine a model on, lab 12 a text and
seeds to train with.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attnlabs.inside.fingerprints import Outcome
from attnlabs.lab09 import verdict as lab09
from attnlabs.lab10 import measures
from attnlabs.lab10 import verdict as lab10
from attnlabs.lab10.desk import TYPE_IN, needs_model
from attnlabs.lab12 import verdict as lab12
from attnlabs.question import Case


def judged(
    own: str, student: str, results: Sequence[Outcome], cases: Sequence[Case] = ()
) -> lab09.Judged:
    """The share of the points, the mistakes by name, and what is said."""
    if own in lab12.QUESTIONS:
        return lab12.judged(own, student, results, cases)
    judge = lab10.judged if own in measures.QUESTIONS else lab09.judged
    return judge(own, student, results)


def table(own: str, student: str, results: Sequence[Outcome]) -> list[list[str]]:
    """What is shown below the sentence, a head and rows; empty for nearly all questions."""
    return lab12.table_of(student, results) if own == "committed" else []


def said(own: str, student: str, results: Sequence[Outcome], function: Callable[..., Any]) -> str:
    """What the student's check says: all that grading would, or about the answer's form only."""
    if own in lab12.QUESTIONS:
        return lab12.said(own, student, results, function)
    if own not in measures.QUESTIONS:
        return lab09.form(own, results)
    return TYPE_IN if needs_model(function) else lab10.said(own, student, results)


def stopped(own: str, words: str) -> str:
    """What is said of an answer that has no numbers, with what is due where they are measured."""
    if own == "committed" and words.startswith("it stopped with IndexError"):
        return f"{words} Nothing can be forecast while LEDGER has no run."
    if own not in measures.QUESTIONS or words == "not yet implemented.":
        return words
    return f"{words} Where it calls the model or a function of yours: {TYPE_IN}"


def look(mistakes: Mapping[str, Sequence[str]]) -> list[str]:
    """What a person should look at, given the mistakes of each question."""
    words = "its runs are not of this copy, and the points of committed rest on them"
    return [f"{name}: {words}" for name, each in mistakes.items() if "another-s" in each]
