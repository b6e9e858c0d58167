"""Right answers in unusual ways get all points: loops, einsum, other precision, copies, classes."""

import pytest
from corpora import CORPORA

from attnlabs.check import sentence

LABS = pytest.mark.parametrize("number", CORPORA)
EACH = [
    (number, name, n)
    for number, corpus in CORPORA.items()
    for name, ways in corpus.RIGHT.items()
    for n in range(len(ways))
]
NOTEBOOKS = [
    pytest.param(number, n, marks=[pytest.mark.weekly] * (number not in (3, 10, 13) or n > 0))
    for number, corpus in CORPORA.items()
    for n in range(max(map(len, corpus.RIGHT.values())))
]


def full(lab):
    return {asked.name: asked.points for asked in lab.asked if asked.name in lab.compared}


@pytest.mark.slow
@pytest.mark.parametrize("number,n", NOTEBOOKS)
def test_every_right_answer_gets_all_points(number, n, of):
    course, corpus = of(number), CORPORA[number]
    answers = {name: ways[n % len(ways)] for name, ways in corpus.RIGHT.items()}
    row = course.judge(course.hand_in(answers, corpus.BEFORE))
    texts = {name: row.questions[name].text for name in full(course.lab)}
    points = {name: row.questions[name].points for name in full(course.lab)}
    assert points == full(course.lab), texts
    assert row.review == []


@pytest.mark.parametrize("number,name,n", EACH)
def test_the_check_says_right(number, name, n, define):
    corpus = CORPORA[number]
    codes = corpus.BEFORE, corpus.CONTEXT.get(name, ""), corpus.RIGHT[name][n]
    assert sentence(name, define(*codes)[name]).startswith("right")


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.slow] * (n != 3)) for n in CORPORA]
)
def test_the_lab_s_own_solutions_are_right(number, of):
    """Within the sandbox's walls."""
    course = of(number)
    row = course.grade(course.lab.path.read_bytes())
    points = {name: row.questions[name].points for name in full(course.lab)}
    assert points == full(course.lab)
    assert row.status == "graded" and row.review == []


@LABS
def test_every_function_of_a_lab_is_in_its_corpus(number, of):
    corpus, names = CORPORA[number], set(full(of(number).lab))
    assert set(corpus.RIGHT) == names == {name for name, _, _ in corpus.WRONG}
