"""Right answers in ways of writing that a grader may stumble over keep all their points."""

import copy
import dataclasses
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from corpora import CORPORA

from attnlabs.check import sentence
from attnlabs.grading import sandbox
from attnlabs.grading.replies import Reply
from attnlabs.lab09 import faults, settings, training, verdict
from attnlabs.question import copies, drawn

pytestmark = pytest.mark.slow

SCORES = "def scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5\n"
ATTEND = """
def attend(q, k, v, mask=None):
    x = scores(q, k)
    mask = torch.ones_like(x, dtype=torch.bool) if mask is None else mask.expand(x.shape)
    weights = masked_softmax(x, mask)
    return weights @ v, weights
"""
NUMPY = """
import numpy as np
def scores(q, k):
    q, k = q.detach().numpy().astype(np.float64), k.detach().numpy().astype(np.float64)
    return torch.from_numpy(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5)
"""
ENDLESS = "def masked_softmax(x, mask):\n    while True: pass"


@pytest.fixture
def right():
    """Lab 3's answers by name, of which `attend` calls the earlier ones."""
    return {name: ways[0] for name, ways in CORPORA[3].RIGHT.items()} | {"attend": ATTEND}


@pytest.fixture
def graded(of):
    """The row of lab 3 with these answers, and cells of the student's own behind them."""

    def row(answers, *tried, before="", **limits):
        course = of(3)
        notebook = nbformat.reads(
            course.hand_in(answers, CORPORA[3].BEFORE + "\n" + before).decode(), as_version=4
        )
        notebook.cells += [nbformat.v4.new_code_cell(code) for code in tried]
        return course.judge(nbformat.writes(notebook).encode(), **limits)

    return row


def lost(row):
    """The functions without full points, and what is said of them."""
    full = {"scores": 2, "softmax": 3, "masked_softmax": 3, "causal_mask": 2}
    full |= {"attend": 4, "reverse": 2}
    return {n: row.questions[n].text for n in full if row.questions[n].points != full[n]}


def test_a_function_that_never_ends_costs_its_own_points_only(graded, right):
    row = graded(right | {"masked_softmax": ENDLESS}, seconds=1)
    assert set(lost(row)) == {"masked_softmax"}
    assert "with a right version of masked_softmax" in row.questions["attend"].text


def test_questions_behind_one_that_ended_the_sandbox_are_asked_in_another(grader, monkeypatch):
    """What ends it is told; nothing else is lost."""

    def run(job, **_):
        names = [question["name"] for question in job["questions"]]
        last = names.index("masked_softmax") if "masked_softmax" in names else len(names)
        return {name: Reply("ok") for name in ["", *names[:last]]}

    monkeypatch.setattr(sandbox, "run", run)
    found = grader.replies(b"", Path(), 0)
    status = {name: reply.status for name, reply in found.items()}
    assert status.pop("masked_softmax") == "lost"
    assert set(status.values()) == {"ok"} and set(status) == {"", *grader.cases} - {
        "masked_softmax"
    }


@pytest.mark.parametrize("decorator", ["@torch.jit.script", "@torch.compile", "@torch.compile()"])
def test_a_compiled_function_is_the_function_that_is_written(decorator, graded, right):
    assert lost(graded(right | {"scores": f"{decorator}\n{SCORES}"})) == {}


def test_the_check_runs_a_compiled_function_as_it_is_written(define):
    function = define("import torch", f"@torch.compile\n{SCORES}")["scores"]
    assert sentence("scores", function).startswith("right")


@pytest.mark.parametrize(
    "scores,before", [(NUMPY, ""), (SCORES, "torch.set_default_dtype(torch.float64)")]
)
def test_numbers_of_another_precision_are_right_all_the_way(scores, before, graded, right):
    assert lost(graded(right | {"scores": scores}, before=before)) == {}


def test_the_check_takes_another_precision_as_well(define, right):
    softmax = CORPORA[3].RIGHT["masked_softmax"][0]
    functions = define(CORPORA[3].BEFORE, NUMPY, softmax, ATTEND)
    assert sentence("attend", functions["attend"]).startswith("right")


RESULTS = {
    "object": "Both(weights @ v, weights)",
    "tuple with names": "collections.namedtuple('Both', 'out weights')(weights @ v, weights)",
    "one by one": "(each for each in (weights @ v, weights))",
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_what_they_are_taken_apart_into(name, graded, right, define):
    before = """import collections, dataclasses
@dataclasses.dataclass
class Both:
    out: torch.Tensor
    weights: torch.Tensor
    def __iter__(self):
        return iter((self.out, self.weights))
"""
    attend = ATTEND.replace("return weights @ v, weights", f"return {RESULTS[name]}")
    answers = right | {"attend": attend}
    answers["reverse"] = "def reverse(x):\n    at = 99 * torch.eye(len(x))\n"
    answers["reverse"] += "    out, _ = attend(at.flip(0), at, x)\n    return out"
    assert lost(graded(answers, before=before)) == {}
    functions = define(CORPORA[3].BEFORE, before, *answers.values())
    assert sentence("attend", functions["attend"]).startswith("right")


def test_an_experiment_with_a_library_s_own_is_not_the_answer(graded, right):
    row = graded(right, "softmax = torch.nn.Softmax(-1)", "x = softmax(torch.ones(3))")
    assert lost(row) == {} and row.review == []
    stub = {name: code for name, code in right.items() if name != "softmax"}
    row = graded(stub, "softmax = torch.nn.Softmax(-1)")
    assert row.review == ["softmax: uses torch's softmax"]


def test_ties_are_broken_in_no_way_that_costs_points(of, define):
    """A threshold and the first of equals choose the same experts."""
    codes = [
        "def route(x, n):\n    cut = x.sort(-1).values[:, -n, None]\n"
        "    return x.masked_fill(x < cut, -torch.inf).softmax(-1)",
        "def route(x, n):\n    first = x.argsort(dim=-1, descending=True, stable=True)[:, :n]\n"
        "    here = torch.zeros_like(x).scatter(1, first, 1)\n"
        "    return x.exp() * here / (x.exp() * here).sum(-1, keepdim=True)",
    ]
    one, other = (define("import torch", code)["route"] for code in codes)
    for seed in range(60):
        for case in drawn(of(7).lab.compared["route"], seed):
            given = copies(case.arguments)
            assert torch.allclose(one(*given), other(*given), atol=1e-6)


def test_a_cure_in_single_precision_is_the_number_that_was_written():
    """0.01 is 0.0099999998 in float32, and a run that swings ends elsewhere with that."""
    runs = faults.drawn("")
    place = next(n for n, run in enumerate(runs) if run.settings.rate > 0.02)
    patient, number = runs[place], settings.NAMES.index("rate")
    mended = dataclasses.replace(patient.settings, rate=0.01)
    ends = [training.in_use(each, patient.seed) for each in (patient.settings, mended)]
    single = [float(value) for value in np.array([number, 0.01, *ends], dtype=np.float32)]
    assert verdict.cure(patient, single)[0] == 1


def test_rows_of_another_grader_are_not_kept(grader, monkeypatch, tmp_path):
    """Seed, limits, walls, and the grader's own code: each makes another grade possible."""

    def key(**change):
        other = copy.copy(grader)
        for name, value in change.items():
            setattr(other, name, value)
        return other.key

    assert key() == key()
    keys = {key(), key(seed=2), key(program="none" if grader.program is None else None)}
    keys.add(key(limits={"seconds": 5}))
    (tmp_path / "judge.py").write_text("PART = 0.4")
    monkeypatch.setattr(sandbox, "LABS", tmp_path)
    keys.add(key())
    assert len(keys) == 5
