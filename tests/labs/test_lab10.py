"""Lab 10: texts that only one student has, and how what was measured on them is judged.

The module's own tools (`attnbook.inside.circuits`), by the cells of the lab, must find what the
judge finds with a model written out once more."""

import contextlib
import io
import math

import numpy as np
import pytest
import torch
from corpora import CORPORA

from attnbook.inside import circuits
from attnlabs.check import check_for, sentence
from attnlabs.errors import told
from attnlabs.judge import judge
from attnlabs.lab10 import measures, plain, verdict
from attnlabs.lab10.desk import Specimen
from attnlabs.lab10.texts import texts
from attnlabs.probes import sheets

pytestmark = pytest.mark.slow

STUDENTS = [f"s{n}@uni" for n in range(300)]
CORPUS = CORPORA[10]
MEASURED = ("specimen", "head-scores", "linear-probe", "groups", "rise", "patched-shares")


def test_no_two_of_three_hundred_students_have_the_same_texts():
    drawn = [texts(student) for student in STUDENTS]
    assert len({str(t.rows.tolist()) for t in drawn}) == len(drawn)
    assert len({str(t.clean.tolist()) for t in drawn}) == len(drawn)
    texts.cache_clear()
    assert all(torch.equal(t.rows, texts(s).rows) for t, s in zip(drawn, STUDENTS, strict=True))


@pytest.mark.parametrize("student", ["", "ada", "s7@uni"])
def test_a_row_is_read_twice_and_the_other_repeats_nothing(student):
    t = texts(student)
    assert torch.equal(t.rows[:, : t.L], t.rows[:, t.L :])
    assert torch.equal(t.other[:, t.L :], t.rows[:, t.L :])
    assert all(len(row.unique()) == 2 * t.L for row in t.other)


@pytest.mark.parametrize("student", ["", "ada", "s7@uni"])
def test_clean_and_corrupt_differ_in_one_token_that_is_asked_for_in_the_end(student):
    t = texts(student)
    (differs,) = (t.clean != t.corrupt).nonzero()[:, 1:].tolist()
    assert differs == [t.place]
    assert torch.equal(t.clean[0, -t.place :], t.clean[0, : t.place])


def test_the_model_written_out_is_the_book_s():
    t, model = texts("ada"), Specimen(check_for("ada")).model
    one, two = circuits.record(model, t.rows), plain.inside(t.rows)
    torch.testing.assert_close(two.logits, one.logits, rtol=1e-3, atol=1e-3)
    for name in ("stream", "heads", "weights"):
        found = torch.stack(getattr(two, name))
        torch.testing.assert_close(found, getattr(one, name), rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def ada():
    """What ada measures with the lab's own cells and the module's tools, question by question."""
    names = {}
    codes = [CORPUS.CELLS[name] for name in ("imports", *MEASURED, "probe-row")]
    codes[1] = "check = check_for('ada')\n" + codes[1]
    codes[0] += "\nfrom attnlabs.check import check_for"
    with contextlib.redirect_stdout(io.StringIO()):
        for code in codes:
            exec(code, names)
    scores = names["head_scores"](names["run"].weights)
    return {
        "suspects": [measures.best(table) for table in scores],
        "prices": [[names["rise"](group)] for group in names["GROUPS"]],
        "carried": [names["patched_shares"](layer) for layer in range(4)],
        "probed": [names["probe_row"](place) for place in range(5)],
    }


@pytest.mark.parametrize("question", measures.QUESTIONS)
def test_what_the_lab_s_cells_measure_is_what_is_measured_in_grading(question, ada):
    """Two programs that share no line but the weights; typed in to three places."""
    typed = [(np.array([round(value, 3) for value in row]),) for row in ada[question]]
    share, mistakes, words = verdict.judged(question, "ada", typed)
    assert (share, mistakes) == (1, ()) and words.startswith("right"), words


@pytest.mark.parametrize("question", measures.QUESTIONS)
def test_another_student_s_numbers_are_wrong(question, ada):
    typed = [(np.array(row),) for row in ada[question]]
    assert verdict.judged(question, "", typed)[0] <= 0.6


def test_the_story_is_that_of_the_chapter(ada):
    """One head copies, five take notes, and none of five others is needed."""
    (before, follows), (copy, one, five, control) = ada["suspects"], ada["prices"]
    assert before[:2] == [2, 0] and follows[:2] == [3, 3] and follows[2] > 0.8
    assert copy[0] > 6 and five[0] > 6 and one[0] < 1.5 and abs(control[0]) < 0.6
    place, last = [row[0] for row in ada["carried"]], [row[1] for row in ada["carried"]]
    assert min(place[:3]) > 0.9 > 0.1 > place[3] and last[3] > 0.9 > 0.1 > max(last[:3])
    assert ada["carried"][3][5] > 0.9


@pytest.mark.parametrize("student", ["", "ada", "s7@uni"])
def test_the_control_of_the_probe_says_something(student):
    """Guessed where the token before is not written; elsewhere well learned, below the task."""
    rows = measures.measured("probed", student)[""]
    assert all(control < 0.3 and more < 0 for _, control, more in rows[:2])
    assert all(0.5 < control < task and more > 0.02 for task, control, more in rows[2:])
    turned = measures.measured("probed", student)["control-this"]  # always right: it says nothing
    assert all(control > 0.9 for _, control, _ in turned)


def test_a_label_by_lot_has_the_scores_of_its_tokens_added_up():
    """What the lab says of a linear probe: the table of labels is that of tokens, columns added."""
    dice = torch.Generator().manual_seed(0)
    x, new = (torch.randn(n, 6, generator=dice).double() for n in (40, 9))
    tokens, lot = torch.randint(8, (40,), generator=dice), torch.tensor([0, 1, 2, 0, 1, 2, 0, 0])
    names: dict = {}
    exec(CORPUS.CELLS["imports"] + "\n" + CORPUS.CELLS["linear-probe"].split("check(")[0], names)
    one = names["linear_probe"](x, tokens, 8, new, 1.0)
    other = names["linear_probe"](x, lot[tokens], 3, new, 1.0)
    torch.testing.assert_close(other, torch.stack([one[:, lot == k].sum(1) for k in range(3)], 1))


def test_every_slip_has_its_words():
    for name in measures.QUESTIONS:
        known = measures.measured(name, "")
        assert set(known) - {""} <= set(verdict.SLIPS)
        assert all(len(rows) == len(verdict.TITLES[name]) for rows in known.values())


def test_a_slip_in_one_case_costs_that_case():
    right = measures.measured("prices", "")[""]
    results = [(np.array(row),) for row in right]
    results[1] = (np.array(measures.measured("prices", "")["zeros"][1]),)
    share, mistakes, words = verdict.judged("prices", "", results)
    assert (share, mistakes) == (0.75, ("zeros",))
    assert words.startswith("3 of 4") and "Without 2.0: the heads were set to zero" in words


@pytest.mark.parametrize("odd", [math.nan, math.inf, "words", (1, 2), None])
def test_what_is_no_number_is_said_and_never_stops(odd):
    said = sentence("prices", lambda group: odd)
    assert not said.startswith("right")


def test_who_calls_the_model_is_told_to_type_numbers():
    """Grading runs the function where there is no model."""
    code = "def prices(n):\n    return rise([(3, 3)])\n"
    names = {"rise": circuits.record}
    exec(code, names)
    assert "type the numbers in" in sentence("prices", names["prices"])
    names = {"model": Specimen(None).model}
    exec(
        "def helper():\n    return float(model.training)\ndef prices(n):\n    return helper()\n",
        names,
    )
    assert "type the numbers in" in sentence("prices", names["prices"])


def test_in_grading_a_call_that_stops_is_told_that_numbers_are_due():
    sheet = sheets("ada")["prices"]
    stopped = ["NameError (line 3 of rise): name 'model' is not defined"] * 4
    verdict = judge(sheet, stopped, private=True)
    assert verdict.share == 0 and "type the numbers in" in verdict.text
    none = judge(sheet, ["NotImplementedError: "] * 4, say=lambda text: told(text, ()))
    assert none.text == "not yet implemented."
