"""Lab 9: eight runs that only one student has, what ails them, and how the answers are judged."""

import ast
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from corpora import CORPORA

from attnlabs import source
from attnlabs.check import check_for, sentence
from attnlabs.grading import follow
from attnlabs.inside.answer import right_ones
from attnlabs.inside.fingerprints import outcome, same
from attnlabs.lab09 import faults, language, settings, training, verdict
from attnlabs.lab09.desk import Ward
from attnlabs.lab09.faults import FAULTS, NAMES, WELL, Patient
from attnlabs.lab09.settings import Settings, changed
from attnlabs.lab09.signs import SIGNS, against
from attnlabs.question import copies, drawn, run
from bookkit.experiments.clinic import faults as clinic

pytestmark = pytest.mark.slow

STUDENTS = [f"s{n}@uni" for n in range(300)]
WARDS = [faults.drawn(student) for student in STUDENTS]
HEALTHY = {"rate": 0.02, "decay": 0.01, "scale": 1, "diagonal": 0, "shift": 1, "zeroed": 1}
HEALTHY["characters"] = 12_000


def test_every_ward_has_one_healthy_run_and_six_faults_one_of_them_twice():
    for ward in WARDS:
        counts = Counter(patient.name for patient in ward)
        assert len(ward) == 8 and counts.pop("healthy") == 1
        assert sorted(counts.values()) == [1, 1, 1, 1, 1, 2]
        assert len(set(ward)) == 8  # the two of a kind are not the same run


def test_no_two_of_three_hundred_students_have_the_same_ward():
    assert len({tuple(ward) for ward in WARDS}) == len(WARDS)
    assert WARDS == [faults.drawn(student) for student in STUDENTS]


def test_every_name_stands_in_every_place_about_equally_often():
    for place in range(8):
        counts = Counter(ward[place].name for ward in WARDS)
        assert 15 <= counts["healthy"] <= 65  # 38 are expected
        assert set(counts) == set(NAMES) and max(counts.values()) < 75


def test_seven_of_the_eight_faults_are_those_of_the_chapter():
    assert set(FAULTS) - set(clinic.FAULTS) == {"decay-strong"}
    assert set(clinic.FAULTS) - set(FAULTS) == {"no-warm-up"}


def test_a_fault_is_one_setting():
    for fault in FAULTS.values():
        for value in fault.values:
            ill, well = vars(changed(Settings(), fault.setting, value)), vars(Settings())
            assert [name for name in ill if ill[name] != well[name]] == [fault.setting]


QUICK = ("rate-high", "shifted-mask")  # the others take a second or two each
RUNS = [pytest.param(name, marks=[pytest.mark.weekly] * (name not in QUICK)) for name in NAMES]


@pytest.mark.parametrize("name", RUNS)
def test_each_run_shows_the_signs_of_its_fault_and_lacks_one_of_every_other(name):
    patient = Patient(name, 0, 3)
    found = training.examine(patient.settings, patient.seed)
    assert {other for other in SIGNS if not against(other, found)} == {name}


@pytest.mark.weekly
@pytest.mark.parametrize("name", FAULTS)
def test_so_do_all_strengths(name):
    for strength in range(len(FAULTS[name].values)):
        for seed in (0, 5):
            found = training.examine(Patient(name, strength, seed).settings, seed)
            assert {other for other in SIGNS if not against(other, found)} == {name}


@pytest.mark.parametrize("name", RUNS[1:])
def test_an_ill_run_ends_badly_and_recovers_when_its_setting_is_mended(name):
    patient = Patient(name, 0, 1)
    setting = FAULTS[name].setting
    mended = changed(patient.settings, setting, float(HEALTHY[setting]))
    assert training.in_use(mended, 1) < WELL < training.in_use(patient.settings, 1)


def test_the_short_way_to_the_last_reading_leaves_the_run_as_it_is():
    full, short = training.examine(Settings(), 2), training.ends(Settings(), 2)
    assert {name: values[-1] for name, values in full.items()} == {
        name: values[-1] for name, values in short.items()
    }
    assert len(full["loss"]) == 19 and len(short["loss"]) == 2


def test_the_language_is_the_same_everywhere():
    assert language.letters()[:32] == "ih eigbm lnain ahkai akdmb nte s"
    assert [len(part) for part in language.tokens()] == [language.LENGTH, language.HELD_OUT]


def test_no_position_sees_a_later_one_with_a_healthy_mask():
    """With the shifted one, two blocks see two places on."""
    w = training.first_weights(0)
    x = torch.randint(16, (1, 12))
    other = x.clone()
    other[0, 7] = (x[0, 7] + 1) % 16
    for diagonal, first in ((0, 7), (1, 5)):
        one, two = training.logits(x, w, diagonal), training.logits(other, w, diagonal)
        assert torch.equal(one[:, :first], two[:, :first])
        assert not torch.allclose(one[:, first], two[:, first])


@pytest.mark.parametrize(
    "name,value,words",
    [
        ("speed", 1.0, "there is no setting 'speed'"),
        ("rate", -1.0, "rate is from 1e-07 to 10, not -1"),
        ("rate", float("nan"), "not nan"),
        ("warmup", 2.5, "warmup is a whole number, not 2.5"),
        ("characters", 10.0, "characters is from 100 to 24000"),
    ],
)
def test_a_change_that_is_none_is_refused(name, value, words):
    with pytest.raises(ValueError, match=words):
        changed(Settings(), name, value)


def test_the_desk_takes_one_change_of_a_run_that_is_there():
    ward = Ward(check_for("ada"))
    patient = faults.drawn("ada")[3]
    assert ward.readings(4) == training.examine(patient.settings, patient.seed)
    with pytest.raises(ValueError, match="runs 1 to 8, not 9"):
        ward.readings(9)
    with pytest.raises(ValueError, match="one setting is changed at a time, not 2"):
        ward.readings(1, rate=1, decay=2)


def answers(student):
    """What is right in `diagnosis` for a student."""
    return [(np.array(float(NAMES.index(p.name))),) for p in faults.drawn(student)]


def test_what_is_right_for_one_student_is_not_for_another():
    assert verdict.judged("diagnosis", "ada", answers("ada"))[0] == 1
    assert verdict.judged("diagnosis", "ada", answers("bob"))[0] < 0.5


def test_the_same_name_for_all_runs_earns_nothing():
    for code in range(len(NAMES)):
        share, wrong, text = verdict.judged("diagnosis", "ada", [(np.array(float(code)),)] * 8)
        assert share == 0 and wrong == ("guessed",)
        assert "more than two runs" in text


def test_what_is_said_of_a_wrong_name_is_evidence_and_never_the_right_name():
    right = answers("ada")
    place = next(n for n, p in enumerate(faults.drawn("ada")) if p.name == "healthy")
    for code, name in enumerate(NAMES[1:], start=1):
        share, wrong, text = verdict.judged(
            "diagnosis", "ada", [*right[:place], (np.array(float(code)),), *right[place + 1 :]]
        )
        if "guessed" not in wrong:
            assert share == 7 / 8 and wrong == (f"not-{name}",)
            assert f"Run {place + 1}: not “{FAULTS[name].title}”: " in text and "look" in text
            assert "nothing wrong" not in text and "ealthy run" not in text


def test_the_check_says_nothing_of_right_and_wrong():
    said = {sentence("diagnosis", lambda run, k=k: (run + k) % 9, "ada") for k in range(9)}
    assert len(said) == 1 and "right in form only" in said.pop()
    assert "more than two runs" in sentence("diagnosis", lambda run: 1, "ada")
    assert "run 3 has no answer" in sentence(
        "cure", lambda run: (1, 2.0) if run == 3 else (run, 0.0, 0.0, 0.0), "ada"
    )


def test_the_sick_line_of_a_copy_is_not_named_by_its_check(root):
    lab = source.find(9, root / "labs")
    program = lab.compared["training"].program
    for name in lab.compared["training"].mistakes:
        words = sentence("training", lambda *given, n=name: program({n}, *given))
        said = ["the numbers are wrong", "there are NaNs"]
        said += ["right but for a factor"] * (name == "summed")  # which is no copy's sick line
        assert any(part in words for part in said) or words.startswith("right")


@pytest.mark.parametrize("ill", ["mask", "target", "piled", "over-queries", "apart", "last"])
def test_each_copy_has_the_fault_it_says_and_its_solution_mends_it(ill, root):
    lab = source.find(9, root / "labs").variant({"ill": ill, "pace": "falling", "push": "momentum"})
    question = lab.compared["training"]
    cases = drawn(question, 1)
    names = right_ones({"training": follow.source(lab, "training")})
    found = [outcome(names["training"], copies(case.arguments)) for case in cases]
    flips = frozenset(lab.flips("training"))
    assert all(map(same, found, run(question.program, flips, cases)))
    text = "\n".join(cell.source for cell in lab.notebook.cells if cell.id.startswith("sick"))
    code = f"import math, torch\nfrom torch.nn import functional as F\n{text}"
    space = {}
    exec(compile(ast.parse(code), "sick", "exec"), space)
    asis = [
        outcome(lambda t, f, r: space["SickRun"](f, r).run(t), copies(case.arguments))
        for case in cases
    ]
    assert all(map(same, asis, run(question.program, flips | {ill}, cases)))


def test_the_corpus_of_the_lab_is_as_large_as_it_says():
    corpus = CORPORA[9]
    assert len(corpus.WRONG) >= 60 and sum(map(len, corpus.RIGHT.values())) >= 15


def test_a_setting_has_the_number_of_its_place(root):
    cells = {c.id: c.source for c in source.find(9, root / "labs").notebook.cells}
    space = {}
    exec(f"{cells['names']}\n{cells['settings']}", space)
    numbers = {k: v for k, v in space.items() if isinstance(v, int)}
    for name in NAMES:
        assert numbers[name.upper().replace("-", "_")] == NAMES.index(name)
    for name in settings.NAMES:
        assert numbers[name.upper()] == settings.NAMES.index(name)


def test_other_processors_train_the_same_runs():
    """A run that swings, by the oldest and the newest instruction set of this processor."""
    program = "from attnlabs.lab09.settings import Settings, changed\n"
    program += "from attnlabs.lab09.training import in_use\n"
    program += "print(in_use(changed(Settings(), 'rate', 0.2), 4))"
    old = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
    new = {name: value for name, value in os.environ.items() if name not in old}
    found = [
        subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        ).stdout
        for env in (new, new | old)
    ]
    assert float(found[0]) == pytest.approx(float(found[1]), abs=1e-9)
