"""A lab as nbgrader's source: each cell says what it is for, and students get nothing of answers.

nbgrader is not needed: `released` does to a notebook what its `generate_assignment` does.
"""

import ast
import copy
import re
import sys

import nbformat
import pytest
import torch
from corpora import CORPORA, TRAINS

from attnlabs import check, cli, nbgrader, release, source
from attnlabs.inside import cells

LABS = pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.slow] * (n != 3)) for n in CORPORA]
)
TEXT = "YOUR ANSWER HERE"
FLAGS = {"grade", "solution", "locked", "task"}
REGION = re.compile(r"^[^\n]*BEGIN SOLUTION.*?END SOLUTION[^\n]*", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def made(of):
    """The notebook of each lab, made when it is asked for."""

    class Made(dict):
        def __missing__(self, number):
            self[number] = nbgrader.source_notebook(of(number).lab)
            return self[number]

    return Made()


def code_stub(region):
    """As far to the right as the region is."""
    return re.match(" *", region[0])[0] + "raise NotImplementedError()"


def released(notebook):
    """What students get: a stub for each region of a solution."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        cell.source = REGION.sub(code_stub if cell.cell_type == "code" else TEXT, cell.source)
    return notebook


def graded(notebook):
    """The points of each test cell, run with the functions of the notebook and what they need."""
    tree, _ = cells.statements([(cell.cell_type, cell.source) for cell in notebook.cells])
    found = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            load, last = ast.parse(cell.source).body
            name, names = last.value.args[0].value, {}
            for statement in [*cells.needed(tree, name), load]:
                exec(compile(ast.Module([statement], []), "notebook", "exec"), names)
            try:
                found[name] = eval(ast.unparse(last), names)
            except AssertionError as error:
                found[name] = str(error)
    return found


@LABS
def test_each_cell_says_what_it_is_for(number, made):
    nbformat.validate(made[number])
    seen = set()
    for cell in made[number].cells:
        if "nbgrader" not in cell.metadata:  # the student writes there, for no points
            assert "my_predictions.expect(" in cell.source
            continue
        use = cell.metadata.nbgrader
        assert use.schema_version == 3 and use.cell_type == cell.cell_type
        assert all(isinstance(use[flag], bool) for flag in FLAGS) and not use.task
        more = ["points"] if use.grade else []
        assert set(use) - FLAGS == {"schema_version", "cell_type", "grade_id", *more}
        assert re.fullmatch(r"[\w-]+", use.grade_id, re.ASCII) and use.grade_id not in seen
        seen.add(use.grade_id)
        predicts = (
            "my_predictions.expect(" in cell.source
        )  # the student writes there, for no points
        assert use.solution != use.locked or (predicts and not use.solution and not use.grade)
        assert cell.cell_type == "code" or use.grade == use.solution  # nbgrader refuses others
        assert not cell.get("outputs") and not cell.get("execution_count")


@LABS
def test_points_are_those_of_the_headings(number, made, of):
    points = [c.metadata.get("nbgrader", {}).get("points", 0) for c in made[number].cells]
    assert sum(points) == 20
    lab = of(number).lab
    answered = [asked for asked in lab.asked if asked.name not in lab.contests]
    assert [p for p in points if p] == [asked.points for asked in answered]


@LABS
def test_what_is_given_stays_as_it_is(number, made, of):
    """But for three remarks in the text that would not be true, and the lecturer's predictions; the
    set-up for Colab is there."""
    given = {c.id: c for c in of(number).lab.notebook.cells if "### BEGIN" not in c.source}
    locked = {c.id: c for c in made[number].cells if not c.id.endswith("-test")}
    changed = {name for name, cell in given.items() if cell.source != locked[name].source}
    predicts = {name for name, cell in given.items() if "my_predictions.expect(" in cell.source}
    assert predicts and changed == {"title", "hand-in"} | predicts
    assert made[number].cells[0].metadata.tags == ["remove-cell"]
    assert made[number].cells[0].id == "setup-colab"
    text = "".join(cell.source for cell in made[number].cells if cell.cell_type == "markdown")
    for untrue in ("`...`", "on other numbers", "any name"):
        assert untrue not in text


@LABS
def test_solutions_and_rubrics_stand_in_regions_of_solution_cells_only(number, made, of):
    for cell in made[number].cells:
        solution = cell.metadata.get("nbgrader", {}).get("solution", False)
        assert bool(REGION.search(cell.source)) == solution
        assert "RUBRIC" not in cell.source
    everything = "\n".join(cell.source for cell in made[number].cells)
    assert all(asked.rubric.strip() in everything for asked in of(number).lab.asked)
    students = released(made[number])
    release.refuse_what_is_left(students, of(number).lab.asked)
    assert "ubric" not in nbformat.writes(students)


# Where answers are judged by training, and where it takes long: test_right.py grades the same
LATER = TRAINS | {13}


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(n, marks=pytest.mark.weekly if n in LATER else [pytest.mark.slow] * (n != 3))
        for n in CORPORA
    ],
)
def test_the_solutions_get_all_points_and_the_stubs_none(number, made, of):
    lab = of(number).lab
    code = {asked.name: asked.points for asked in lab.asked if asked.name in lab.compared}
    assert graded(made[number]) == code
    none = graded(released(made[number]))
    assert none.keys() == code.keys()
    assert all("not yet implemented" in " ".join(text.split()) for text in none.values())


def test_a_part_gets_a_part_of_the_points_and_its_sentence(capsys):
    def softmax(x):
        return x.exp() / x.exp().sum(-1, keepdim=True)

    assert nbgrader.points_for("softmax", softmax, 3) == 1.8
    said = capsys.readouterr().out
    assert said.startswith("softmax: consistent with") and max(map(len, said.split("\n"))) <= 66


def test_warnings_cost_nothing(capsys):
    """nbgrader gives no points to a cell that writes to the stream of errors, where they go."""

    def softmax(x):
        print("this is deprecated", file=sys.stderr)
        return x.softmax(-1)

    assert nbgrader.points_for("softmax", softmax, 3) == 3
    assert capsys.readouterr().err == ""


def forever(x):
    while True:
        pass


@pytest.mark.parametrize("wrong", [forever, sys.exit, lambda x: 1, None, torch.zeros_like])
def test_whatever_a_function_does_the_test_ends_with_a_sentence(wrong, monkeypatch):
    limit = check.no_longer_than
    monkeypatch.setattr(check, "no_longer_than", lambda seconds: limit(min(seconds, 0.1)))
    with pytest.raises(AssertionError, match="softmax: "):
        nbgrader.points_for("softmax", wrong, 3)


def altered(lab, change):
    other = source.Lab(lab.path)
    other.__dict__["notebook"] = copy.deepcopy(lab.notebook)
    change({cell.id: cell for cell in other.notebook.cells})
    return other


SECOND = "\n### BEGIN SOLUTION\nOne more.\n### END SOLUTION"
BAD = {
    "a solution outside its markers": ("title", "grown = torch.exp(x - x.amax(-1, keepdim=True))"),
    "two solutions of a question": ("question-7", SECOND),
}


@pytest.mark.parametrize("name", BAD)
def test_it_refuses_what_would_go_wrong(name, lab, tmp_path):
    cell, text = BAD[name]

    def spoil(cells):
        cells[cell].source += "\n" + text

    with pytest.raises(ValueError):
        nbgrader.write(altered(lab, spoil), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_writes_it_once_and_replaces_no_other(root, tmp_path, capsys):
    words = ["nbgrader", "3", "--to", str(tmp_path / "source")]
    words += ["--labs", str(root / "labs")]
    assert not cli.main(words) and not cli.main(words)
    path = tmp_path / "source" / "lab03" / "03-attention-by-hand.ipynb"
    assert capsys.readouterr().out.split() == [str(path)] * 2
    assert [p for p in (tmp_path / "source").rglob("*") if p.is_file()] == [path]
    edited = path.read_text(encoding="utf-8").replace("2)", "3)")
    path.write_text(edited, encoding="utf-8")
    assert cli.main(words) == 1
    assert "move it away" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == edited
