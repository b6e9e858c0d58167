"""What a function does beside its answer: arguments changed in place, gradients that are lost.

The mistakes themselves, lab by lab, stand in the corpora (test_right.py, test_wrong.py).
"""

import ast

import pytest
import torch
from corpora import CORPORA

from attnlabs import source
from attnlabs.check import sentence
from attnlabs.inside import cells
from attnlabs.inside.effects import changed, slopes
from attnlabs.judge import PART
from attnlabs.nbgrader import points_for
from attnlabs.probes import sheets

X, W = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0.5, -1.0])
IN_PLACE = """
def softmax(x):
    x -= x.amax(-1, keepdim=True)
    return x.exp() / x.exp().sum(-1, keepdim=True)
"""
COPIED = IN_PLACE.replace("    x -=", "    x = x.clone()\n    x -=")
DETACHED = """
def rnn_step(x, h, W, U, b):
    return torch.tanh(x @ W.T + h.detach() @ U.T + b)
"""


def test_what_is_changed_is_seen_whatever_is_in_it():
    strange = torch.tensor([float("nan"), float("inf"), 1.0])
    assert changed([strange.clone(), 3, W], [strange, 3, W.clone()]) == set()
    assert changed([X.clone(), W.clone() * 2, 3], [X, W, 3]) == {1}
    assert changed([X.clone().unsqueeze_(0)], [X]) == {0}
    assert changed([torch.tensor([True])], [torch.tensor([False])]) == {0}


def test_gradients_are_those_of_what_is_returned():
    both = slopes(lambda x, w: (x @ w, x.argmax()), [X, W], [0, 1])
    assert [part.shape for part in both] == [(2, 2), (2,)]
    assert torch.allclose(torch.tensor(both[0][0]) / both[0][0][0], (W / W[0]).double())
    none = slopes(lambda x, w: x.detach() @ w, [X, W], [0, 1])
    assert [part.size for part in none] == [0, 2]
    assert [part.size for part in slopes(lambda x, w: x.argmax(), [X, W], [0, 1])] == [0, 0]
    assert "numpy()" in slopes(lambda x, w: torch.tensor(x.numpy()), [X, W], [0])


@pytest.mark.parametrize(
    "number,name,code,words",
    [
        (3, "softmax", IN_PLACE, "it changes its argument `x` in place"),
        (1, "rnn_step", DETACHED, "its result has no gradient towards `h`"),
    ],
)
def test_check_and_grading_say_the_same_of_right_numbers(number, name, code, words, of, define):
    course = of(number)
    answer = course.judge(course.hand_in({name: code})).questions[name]
    function = define("import torch", code)[name]
    assert sentence(name, function) == answer.text and words in answer.text
    asked = next(asked for asked in course.lab.asked if asked.name == name)
    assert answer.points == PART * asked.points == points_for(name, function, asked.points)
    assert answer.mistakes == ["in-place" if "in place" in words else "gradient"]


def test_a_copy_may_be_changed_and_whole_numbers_need_no_gradient(define):
    assert sentence("softmax", define("import torch", COPIED)["softmax"]).startswith("right")
    whole = [name for name in ("windows", "append_next", "causal_mask") if name in sheets()]
    assert len(whole) == 3 and not any(sheets()[name].trained for name in whole)


def test_wrong_numbers_keep_their_name_and_get_the_other_besides(define):
    doubled = IN_PLACE.replace("return x.exp()", "return 2 * x.exp()")
    said = sentence("softmax", define("import torch", doubled)["softmax"])
    assert said.endswith(
        "Besides, it changes its argument `x` in place; work on a copy, such as `x.clone()`."
    )
    assert "the numbers are right" not in said


@pytest.mark.parametrize("number", CORPORA)
def test_arguments_are_called_as_in_the_notebook(number, root):
    """What is named in a sentence stands in the first line of the student's function."""
    lab = source.find(number, root / "labs")
    pairs = [(cell.cell_type, cell.source) for cell in lab.notebook.cells]
    found = {s.name: s for s in cells.statements(pairs)[0] if isinstance(s, ast.FunctionDef)}
    for name, question in lab.compared.items():
        if not question.own:
            given = found[name].args
            names = [a.arg for a in given.args] + ([given.vararg.arg] if given.vararg else [])
            count = len(sheets()[name].arguments)
            assert list(dict.fromkeys(question.names(count))) == names[:count], name
            assert set(question.trained) <= set(names)


def test_what_a_cell_trains_with_is_asked_for_its_gradient(root):
    """The rule stands in each lab and on the lecturers' page, with what breaking it costs."""
    trained = set()
    for number in CORPORA:
        lab = source.find(number, root / "labs")
        said = "\n".join(c.source for c in lab.notebook.cells if c.cell_type == "markdown")
        assert "half of its points" in said or "have half of the points" in said
        trained |= {number for question in lab.compared.values() if question.trained}
    assert trained == {1, 2, 5, 6, 7, 11, 13}
    assert PART == 0.5 and "has half of the points" in (root / "book/teaching.md").read_text(
        "utf-8"
    )
