"""The checks inside the chapters: each has its question, and each mistake is named."""

import gzip
import importlib.util
import itertools
import json
import re

import chapters as corpus
import normal_form
import pytest
from mistaken import written

from attnlabs.check import sentence
from attnlabs.inside.fingerprints import alike, outcome
from attnlabs.judge import judge
from attnlabs.probes import FOLDER, packed, sheets
from attnlabs.question import copies, drawn, run, sheet

NAMES = list(corpus.RIGHT)
EACH = pytest.mark.parametrize("name", NAMES)
WRONG = [(name, mistake) for name, changes in corpus.CHANGES.items() for mistake in changes]


@pytest.fixture(scope="module")
def questions(root):
    """What labs/chapters.py compares the exercises with."""
    path = root / "labs" / "chapters.py"
    spec = importlib.util.spec_from_file_location("compared_in_chapters", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.QUESTIONS


@pytest.fixture(scope="module")
def checked(root):
    """The name in each call of `check` in a chapter, with its cell, and all that chapters say."""
    calls, prose = [], ""
    for path in sorted(root.glob("book/[0-9][0-9]-*.ipynb")):
        for cell in normal_form.read(path).cells:
            if cell.cell_type == "code":
                found = re.findall(r'^check\("(\w+)", ', cell.source, re.MULTILINE)
                calls += [(name, cell) for name in found]
            else:
                prose += cell.source
    return calls, prose


def test_every_question_is_asked_and_checked_in_one_chapter(questions, checked):
    calls, prose = checked
    assert sorted(name for name, _ in calls) == sorted(questions)
    for name in questions:
        asked = re.search(rf'check\(\s*"{name}",\s', prose)
        assert asked, f"no exercise says that {name} is checked"


def test_every_solution_is_right(checked):
    for name, cell in checked[0]:
        assert f"{name}: right: all" in cell.outputs[0].text


def test_no_lab_has_a_question_of_that_name(questions):
    labs = [json.loads(gzip.decompress(path.read_bytes())) for path in FOLDER.glob("lab*.gz")]
    assert not set(questions) & {name for lab in labs for name in lab["questions"]}


def test_the_corpus_has_every_question_and_mistake(questions):
    assert {name: list(corpus.CHANGES[name]) for name in NAMES} == {
        name: list(question.mistakes) for name, question in questions.items()
    }


@EACH
def test_an_unusual_right_way_is_right(name, define):
    assert sentence(name, define(corpus.BEFORE, corpus.RIGHT[name])[name]).startswith("right: all")


@pytest.mark.slow
@pytest.mark.parametrize("name,mistake", WRONG, ids=map("-".join, WRONG))
def test_every_mistake_is_named(name, mistake, questions, define):
    """Made in a text that is not the program's, with the stored fingerprints and other numbers."""
    code = written(corpus.RIGHT[name], corpus.CHANGES[name], [mistake])
    function = define(corpus.BEFORE, code)[name]
    other = sheet(questions[name], drawn(questions[name], seed=1))
    for known in (sheets()[name], other):
        verdict = judge(known, [outcome(function, copies(case.arguments)) for case in known.cases])
        assert verdict.mistakes == (mistake,), verdict.text


# Two mistakes that together have one simple name: a transposed product, all moved by one place
SIMPLER = {
    ("circuits", "order", "backwards"): "right-axes-exchanged",
    ("answer_weights", "mark", "no-end"): "right-moved",
}


@EACH
def test_two_mistakes_are_named_where_they_can_be_told_apart(name, questions):
    question, known = questions[name], sheets()[name]
    apart = [wrong for wrong, _ in known.known]
    assert all([mistake] in apart for mistake in question.mistakes)
    for wrong in itertools.combinations(question.mistakes, 2):
        verdict = judge(known, run(question.program, frozenset(wrong), known.cases))
        if list(wrong) in apart:
            simpler = SIMPLER.get((name, *wrong))
            assert sorted(verdict.mistakes) == ([simpler] if simpler else sorted(wrong))


def test_stored_probes_are_those_of_the_file(questions):
    stored = json.loads(gzip.decompress((FOLDER / "chapters.probes.gz").read_bytes()))
    assert stored["lab"] == "chapters" and stored["choices"] == {}
    assert set(stored["questions"]) == set(questions)
    for name, question in questions.items():
        fresh = packed(name, question, {})
        cases = [
            [case["name"] for case in one["cases"]] for one in (stored["questions"][name], fresh)
        ]
        one, other = stored["questions"][name]["sheets"][""], fresh["sheets"][""]
        assert cases[0] == cases[1]
        assert one["mistakes"] == other["mistakes"] and one["shapes"] == other["shapes"]
        assert all(map(alike, one["right"], other["right"]))
        assert [names for names, _ in one["known"]] == [list(names) for names, _ in other["known"]]


@EACH
def test_an_answer_has_more_numbers_than_its_fingerprint(name, questions):
    known = sheets()[name]
    answers = sheet(questions[name], known.cases).answers
    for answer, print_ in zip(answers, known.right, strict=True):
        assert len(print_) - 1 < sum(part.size for part in answer) / 2
