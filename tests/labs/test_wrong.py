"""Typical mistakes, alone and in pairs: each loses points on its question and is named."""

import time

import pytest
from corpora import CORPORA, TRAINS

from attnlabs.check import effects
from attnlabs.inside.fingerprints import outcome
from attnlabs.judge import GENERAL, judge
from attnlabs.probes import sheets
from attnlabs.question import copies

pytestmark = pytest.mark.slow

WRONG = [(number, *one) for number, corpus in CORPORA.items() for one in corpus.WRONG]


def label(one):
    return f"{one[0]}-{one[1]}-{'+'.join(one[3])}"


# One in three at once, one in six where answers are judged by training; weekly all
EACH = [
    pytest.param(
        *one, id=label(one), marks=[pytest.mark.weekly] * (n % (6 if one[0] in TRAINS else 3) > 0)
    )
    for n, one in enumerate(WRONG)
]


@pytest.mark.parametrize("number,name,code,wrong", EACH)
def test_the_check_names_the_mistake(number, name, code, wrong, define, of):
    """With the stored fingerprints, and with the lecturer's other numbers alike."""
    corpus = CORPORA[number]
    function = define(corpus.BEFORE, corpus.CONTEXT.get(name, ""), code)[name]
    for sheet in (sheets()[name], of(number).grader.sheets[name]):
        if not (sheet.known or sheet.own):
            continue  # a quiet question: the student's check has no names
        results = [outcome(function, copies(case.arguments)) for case in sheet.cases]
        verdict = judge(sheet, results, effects=effects(sheet, function, time.monotonic() + 9))
        assert sorted(verdict.mistakes) == sorted(wrong), verdict.text
        said = "the numbers are right, but" if set(wrong) <= set(GENERAL) else "consistent with"
        assert verdict.share < 1 and (sheet.own or said in verdict.text)


MOST = 10  # notebooks a lab; above, each mistake is judged by itself


def batches(corpus):
    """Notebooks with one mistake in each question, spread over all that a corpus has."""
    by_name = {}
    for name, code, wrong in corpus.WRONG:
        by_name.setdefault(name, []).append((code, wrong))
    for n in range(MOST):
        yield {name: ones[n * len(ones) // MOST] for name, ones in by_name.items()}


BATCHES = [
    pytest.param(
        number,
        chosen,
        marks=[pytest.mark.weekly] * (number not in (3, 10) or n > 0),
    )
    for number, corpus in CORPORA.items()
    for n, chosen in enumerate(batches(corpus))
]


@pytest.mark.parametrize("number,chosen", BATCHES)
def test_graded_each_loses_points_on_its_own_question(number, chosen, of):
    """One mistake in each question: what the grader says of a whole notebook."""
    course = of(number)
    codes = {name: code for name, (code, _) in chosen.items()}
    row = course.judge(course.hand_in(codes, CORPORA[number].BEFORE))
    for asked in course.lab.asked:
        if asked.name in chosen:
            question = row.questions[asked.name]
            assert sorted(question.mistakes) == sorted(chosen[asked.name][1]), question.text
            assert question.points < asked.points
