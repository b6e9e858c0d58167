"""The student's copy holds no trace of a solution, and the one in the repository is up to date."""

import contextlib
import copy
import io

import nbformat
import pytest
from corpora import CORPORA

from attnbook.labs import release, source
from attnbook.labs.source import Lab


def altered(lab, change):
    """The same lab with a changed notebook."""
    other = Lab(lab.path)
    other.__dict__["notebook"] = copy.deepcopy(lab.notebook)
    change({cell.id: cell for cell in other.notebook.cells})
    return other


LABS = pytest.mark.parametrize("number", CORPORA)


@LABS
def test_the_copy_in_the_repository_is_the_source_without_solutions(number, of, root):
    lab = of(number).lab
    stored = (root / "labs" / "student" / lab.path.name).read_text(encoding="utf-8")
    assert stored == release.text(release.student_copy(lab)), "run: attnbook labs release"


@LABS
def test_no_line_of_a_solution_is_left(number, of):
    lab = of(number).lab
    text = nbformat.writes(release.student_copy(lab))
    for asked in lab.asked:
        for solution in asked.solutions:
            for line in solution.splitlines():
                assert len(line.strip()) < 8 or line.strip() not in text
    assert "RUBRIC" not in text and "SOLUTION" not in text


@LABS
def test_points_and_questions_are_as_the_headings_say(number, of):
    lab = of(number).lab
    assert [asked.number for asked in lab.asked] == list(range(1, len(lab.asked) + 1))
    assert 4 <= len(lab.asked) <= 8
    assert sum(asked.points for asked in lab.asked) == 20
    assert all(asked.solutions for asked in lab.asked)
    assert all(asked.rubric for asked in lab.asked if not asked.code)
    assert {asked.name for asked in lab.asked if asked.code} == set(lab.compared)


def test_every_lab_has_a_corpus_and_no_two_the_same_question(root, of):
    assert {int(path.name[:2]) for path in root.glob("labs/*.ipynb")} == set(CORPORA)
    names = [name for number in CORPORA for name in of(number).lab.compared]
    assert len(names) == len(set(names))


LEAKS = {
    "a copy of a line": ("question-2", "try `grown = torch.exp(x - x.amax(-1, keepdim=True))`"),
    "moved and respaced": ("hand-in", "    return  grown/grown.sum(-1,keepdim = True) # so"),
    "a commented line": ("imports", "# grown = torch.exp(x - x.amax(-1, keepdim=True))"),
    "an open marker": ("scores", "### BEGIN SOLUTION"),
    "in other words": ("imports", "def scores(q, k):\n    return q @ k.mT * q.size(-1) ** -0.5"),
    "another spelling": ("title", "### begin solution"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_it_refuses_to_write_what_gives_a_solution_away(name, lab, tmp_path):
    cell, text = LEAKS[name]

    def leak(cells):
        cells[cell].source += "\n" + text

    with pytest.raises(ValueError):
        release.write(altered(lab, leak), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_outputs_go(lab):
    def run(cells):
        cells["scores"].outputs = [nbformat.v4.new_output("stream", text="tensor([0.5])")]
        cells["scores"].execution_count = 3

    copied = release.student_copy(altered(lab, run))
    assert not [c for c in copied.cells if c.get("outputs") or c.get("execution_count")]


def test_it_never_overwrites_the_source(lab):
    with pytest.raises(ValueError, match="is the source"):
        release.write(lab, lab.path)


def executed(notebook):
    """What the cells print, from top to bottom."""
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        for cell in notebook.cells[1:]:
            if cell.cell_type == "code":
                exec(cell.source, names)
    return printed.getvalue().splitlines()


@LABS
def test_all_checks_pass_in_the_source_and_none_raises_in_the_copy(number, of):
    lab = of(number).lab
    checks = [line for line in executed(lab.notebook) if line.split(":")[0] in lab.compared]
    assert len(checks) == len(lab.compared) and all(": right" in line for line in checks)
    said = executed(release.student_copy(lab))
    assert len(said) == len(lab.compared)
    assert all(line.endswith(": not yet implemented.") for line in said)


def test_a_lab_that_is_not_there_is_named(root):
    with pytest.raises(ValueError, match="lab 99"):
        source.find(99, root / "labs")
