"""Right answers stay right whatever numbers a class draws."""

import pytest
from corpora import CORPORA, OWN, TRAINS

from attnlabs.inside.fingerprints import fingerprint, near, outcome, same
from attnlabs.question import copies, drawn, run

STYLES = 3
SEEDS = {"quick": range(3), "all": range(200)}


def styles(corpus, name):
    """Ways to write the function, in short ones first."""
    return sorted(corpus.RIGHT[name], key=len)[:STYLES]


@pytest.mark.parametrize("seeds", ["quick", pytest.param("all", marks=pytest.mark.weekly)])
@pytest.mark.parametrize("number", sorted(set(CORPORA) - OWN - TRAINS))
def test_every_style_gives_the_same_numbers_for_every_seed(number, seeds, of, define):
    """By the numbers, as grading asks, and by their fingerprints, as the student's check does."""
    corpus, wrong = CORPORA[number], []
    for name, question in of(number).lab.compared.items():
        before = corpus.BEFORE, corpus.CONTEXT.get(name, "")
        functions = [define(*before, code)[name] for code in styles(corpus, name)]
        for seed in SEEDS[seeds]:
            cases = drawn(question, seed)
            taken = [run(question.program, wrongs, cases) for wrongs in alternatives(question)]
            for style, function in enumerate(functions):
                for n, case in enumerate(cases):
                    found = outcome(function, copies(case.arguments))
                    graded = any(same(found, right[n]) for right in taken)
                    checked = not isinstance(found, str) and any(
                        near(found, fingerprint(right[n])) for right in taken
                    )
                    if not (graded and checked):
                        wrong.append((name, style, seed, case.name))
    assert wrong == []


def alternatives(question):
    """What is right, and what is taken for right as well."""
    return [frozenset(), *(frozenset({other}) for other in question.also_right)]


def test_no_expert_is_as_likely_as_another(of):
    """A tie at the cut would make two right answers differ."""
    for seed in range(100):
        for case in drawn(of(7).lab.compared["route"], seed):
            ordered = case.arguments[0].sort(-1).values
            assert (ordered.diff(dim=-1) > 0.1).all()
