"""Who judges a question whose right answer is one student's alone: `Question.own` names it.

Lab 9 has a ward of runs for each student, lab 10 texts to examine a model on.
"""

from collections.abc import Callable, Sequence
from typing import Any

from attnbook.labs.inside.fingerprints import Outcome
from attnbook.labs.specimen import measures
from attnbook.labs.specimen import verdict as specimen
from attnbook.labs.specimen.desk import TYPE_IN, needs_model
from attnbook.labs.ward import verdict as ward


def judged(own: str, student: str, results: Sequence[Outcome]) -> ward.Judged:
    """The share of the points, the mistakes by name, and what is said."""
    judge = specimen.judged if own in measures.QUESTIONS else ward.judged
    return judge(own, student, results)


def said(own: str, student: str, results: Sequence[Outcome], function: Callable[..., Any]) -> str:
    """What the student's check says: all that grading would, or about the answer's form only."""
    if own not in measures.QUESTIONS:
        return ward.form(own, results)
    return TYPE_IN if needs_model(function) else specimen.said(own, student, results)
