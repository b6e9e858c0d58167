"""What a student tried out costs no points, what is said is true, and no hidden number gets out."""

import ast
import symtable
import textwrap

import nbformat
import pytest

from attnlabs import source
from attnlabs.grading import follow
from attnlabs.grading.row import Answer
from attnlabs.inside import cells
from attnlabs.inside.answer import right_ones
from attnlabs.inside.dependencies import PLAIN, reached, uses
from attnlabs.inside.fingerprints import outcome, same
from attnlabs.question import copies, drawn, run

pytestmark = pytest.mark.slow

SCORES = "def scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5\n"
WRONG = "def scores(q, k):\n    return q @ k.mT\n"
ATTEND = """
def attend(q, k, v, mask=None):
    x = scores(q, k)
    if mask is None:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool)
    a = x.masked_fill(~mask, -1e30)
    a = (a - a.amax(-1, keepdim=True)).exp() * mask
    weights = a / a.sum(-1, keepdim=True).clamp(min=1e-30)
    return weights @ v, weights
"""
ALONE = ATTEND.replace("scores(q, k)", "q @ k.mT / q.shape[-1] ** 0.5")


def needs(name, *codes):
    """The statements that a function needs, in the text they have."""
    tree = cells.statements([("code", textwrap.dedent(code)) for code in codes])[0]
    return [statement.cell for statement in cells.needed(tree, name)]


@pytest.mark.parametrize(
    "tried",
    [
        "while True:\n    a = torch.randn(3, 3)",
        "for n in range(100):\n    t = torch.randn(5)\n    time.sleep(0.5)",
        "a = [torch.randn(9) for _ in range(10**9)]",
        "x, weights = torch.rand(2, 5), 3",
        "torch.save({}, 'mine.pt')",
    ],
)
def test_a_call_of_a_module_s_function_is_no_change_of_it(tried):
    assert needs("attend", "import torch, time", tried, SCORES, ATTEND) == [1, 3, 4]


@pytest.mark.parametrize(
    "used",
    [
        "torch.set_default_dtype(torch.float64)",
        "torch.manual_seed(0)",
        "torch.nn.init.normal_(table)",
        "table += 1",
        "table[0] = 2",
    ],
)
def test_what_sets_or_changes_something_that_is_used_comes_along(used):
    code = "def f(x):\n    return x @ table + torch.randn(1)"
    assert needs("f", "import torch", "table = torch.ones(3)", used, code) == [1, 2, 3, 4]


def test_the_names_a_plain_statement_uses_are_those_that_python_finds_in_it(root):
    for path in sorted((root / "labs").glob("*.ipynb")):
        pairs = cells.read(path.read_bytes())
        for statement in cells.statements(pairs)[0]:
            if isinstance(statement, PLAIN):
                table = symtable.symtable(ast.unparse(statement), "cell", "exec")
                inner, found = (
                    list(table.get_children()),
                    {s.get_name() for s in table.get_symbols()},
                )
                for scope in inner:
                    found |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
                    inner += scope.get_children()
                assert uses(statement) == found, ast.unparse(statement)


def test_a_function_stands_on_what_it_calls_and_not_on_what_was_tried_out():
    codes = [SCORES, "def helper(q): return scores(q, q)", "def f(q):\n    x = 3\n    return q * x"]
    tree = cells.statements([("code", code) for code in [*codes, "f = helper", "x = scores(1, 2)"]])
    assert "scores" not in reached(tree[0], "f") and "scores" in reached(tree[0], "helper")


def handed_in(hand_in, answers, *tried):
    """A submission with cells of the student's own behind all others."""
    notebook = nbformat.reads(hand_in(answers).decode(), as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(code) for code in tried]
    return nbformat.writes(notebook).encode()


def test_an_own_experiment_without_end_costs_nothing_and_is_named(judge, hand_in):
    """The second loop sets what `scores` uses, so it is needed, until the time is up."""
    loop = "while True:\n    a = torch.randn(3, 3)"
    needed = "for seed in range(10**9):\n    torch.manual_seed(seed)"
    mine = "scores = scores(torch.ones(2, 3), torch.ones(4, 3))"
    row = judge(handed_in(hand_in, {"scores": SCORES}, loop, mine), seconds=2)
    assert row.questions["scores"].points == 2 and row.status == "graded"
    code = SCORES.replace("q @ k.mT", "torch.matmul(q, k.mT)")
    row = judge(handed_in(hand_in, {"scores": code}, needed), seconds=2)
    assert row.questions["scores"].points == 2
    (note,) = [note for note in row.notes if note.startswith("scores")]
    assert "graded without `for seed in range(10 ** 9):` (cell" in note and row.review == []


def test_an_endless_function_is_said_to_be_one(judge, hand_in):
    row = judge(hand_in({"scores": "def scores(q, k):\n    while True: pass"}), seconds=2)
    assert row.questions["scores"].text == "it takes too long; is there an endless loop?"


def test_following_through_has_its_points_and_own_mistakes_do_not(judge, hand_in):
    right = judge(hand_in({"scores": WRONG, "attend": ATTEND}))
    assert right.questions["scores"].points == 0
    assert right.questions["attend"].points == 4
    assert "with a right version of scores, which it calls" in right.questions["attend"].text
    late = ATTEND.replace("x.masked_fill(~mask, -1e30)", "x").replace(" / a.sum", " + 0 * a.sum")
    both = judge(hand_in({"scores": WRONG, "attend": late})).questions["attend"]
    assert both.points < 4 and "Tried with a right version of scores" in both.text
    alone = ALONE.replace("** 0.5", "** 1")
    own = judge(hand_in({"scores": WRONG, "attend": alone})).questions["attend"]
    assert own.points == 0 and "It calls" not in own.text


def test_no_hidden_number_leaves_with_a_message(grade, hand_in):
    say = "def scores(q, k):\n    raise ValueError(str(q.tolist()))"
    kind = "def softmax(x):\n    raise type('V' + str(x[0, 0]), (Exception,), {})('0.123')"
    name = "def masked_softmax(x, mask):\n    raise NameError(f\"name '{str(x.sum())[7:12]}' is\")"
    forged = """
    def causal_mask(Tq, Tk):
        import os
        for fd in range(3, 32):
            try: os.write(fd, b'{"missing": "0.77 0.78 0.79"}\\n')
            except OSError: pass
        os._exit(0)
    """
    answers = {"scores": say, "softmax": kind, "masked_softmax": name, "causal_mask": forged}
    row = grade(hand_in(answers, "import torch"))
    said = {name: row.questions[name].text for name in answers}
    assert said["scores"].endswith("it stopped with ValueError in scores.")
    assert said["softmax"].endswith("it stopped with an error.")
    assert not [text for text in said.values() if "0." in text or "tensor" in text], said


def test_errors_in_grading_say_where_and_a_hint(judge, hand_in):
    turned = "def scores(q, k):\n    return q @ k / q.shape[-1] ** 0.5"
    summed = (
        "def softmax(x):\n    e = (x - x.amax(-1, keepdim=True)).exp()\n    return e / e.sum(-1)"
    )
    unknown = "def causal_mask(Tq, Tk):\n    return helper(Tq, Tk)"
    nothing = "def reverse(x):\n    x.flip(0)"
    answers = {"scores": turned, "softmax": summed, "causal_mask": unknown, "reverse": nothing}
    row = judge(hand_in(answers))
    said = {name: row.questions[name].text for name in answers}
    assert "RuntimeError in scores" in said["scores"]
    assert "must be transposed" in said["scores"]
    assert "keepdim=True" in said["softmax"]
    assert "NameError in causal_mask (about helper)" in said["causal_mask"]
    assert "is a `return` missing?" in said["reverse"]


def test_an_answer_by_chance_is_said_to_be_one(judge, hand_in):
    code = "def scores(q, k):\n    return torch.dropout(q @ k.mT / q.shape[-1] ** 0.5, 0.5, True)"
    answer = judge(hand_in({"scores": code})).questions["scores"]
    assert answer.mistakes == ["random"] and "is there dropout in it" in answer.text


@pytest.mark.parametrize("number", range(1, 8))
def test_the_lab_s_own_answers_stand_alone(number, root):
    """What takes the place of a wrong function runs where nothing of this module can be read."""
    lab = source.find(number, root / "labs").of("ada")
    for name, question in lab.compared.items():
        text = follow.source(lab, name)
        assert "attnbook" not in text
        function = right_ones({name: text})[name]
        cases = drawn(question, 1)
        right = run(question.program, frozenset(lab.flips(name)), cases)
        found = [outcome(function, copies(case.arguments)) for case in cases]
        assert all(map(same, found, right)), name


def test_nobody_finds_an_answer_in_the_process_of_another_question():
    blame = {"attend": ["scores"], "reverse": ["attend"], "other": ["scores"]}
    groups = list(follow.rounds(blame))
    assert groups == [["attend", "other"], ["reverse"]]


@pytest.mark.parametrize(
    "called,words",
    [
        (["scores"], "a right version of scores, which it calls and which is wrong."),
        (["a", "b", "c"], "of a, b and c, which it calls and not all of which are right."),
    ],
)
def test_following_through_names_what_was_put_right(called, words):
    text = follow.credited(Answer(0, ""), Answer(2, "right"), called, 2).text
    assert text.startswith("right, with a right version of") and text.endswith(words)
