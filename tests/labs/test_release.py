"""The student's copy holds no trace of a solution, and the one in the repository is up to date."""

import contextlib
import copy
import io
import re
import subprocess
import sys

import nbformat
import pytest
from corpora import CORPORA

from attnlabs import release, source
from attnlabs.source import Lab

pytestmark = pytest.mark.slow


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
    assert stored == release.text(release.student_copy(lab)), "run: attnlabs release"


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
    assert 3 <= len(lab.asked) <= 9
    answered = [asked for asked in lab.asked if asked.name not in lab.contests]
    assert sum(asked.points for asked in answered) == 20
    assert all(asked.solutions for asked in answered)
    assert all(asked.rubric for asked in answered if not asked.code)
    assert {asked.name for asked in answered if asked.code} == set(lab.compared)


def test_every_lab_has_a_corpus_and_no_two_the_same_question(root, of):
    labs = {int(path.name[:2]) for path in root.glob("labs/*.ipynb")}
    own = {12}  # whose answers stand in test_lab12.py
    assert {number for number in labs if of(number).lab.compared} == set(CORPORA) | own
    names = [name for number in labs for name in of(number).lab.compared]
    assert len(names) == len(set(names))


LEAKS = {
    "a copy of a line": ("question-2", "try `grown = torch.exp(x - x.amax(-1, keepdim=True))`"),
    "moved and respaced": ("hand-in", "    return  grown/grown.sum(-1,keepdim = True) # so"),
    "a commented line": ("imports", "# grown = torch.exp(x - x.amax(-1, keepdim=True))"),
    "an open marker": ("scores", "### BEGIN SOLUTION"),
    "in other words": ("imports", "def scores(q, k):\n    return q @ k.mT * q.size(-1) ** -0.5"),
    "a function of another name": (
        "imports",
        "def s(q, k):\n    return q @ k.mT * q.size(-1) ** -0.5",
    ),
    "another spelling": ("title", "### begin solution"),
    "one more spelling": ("title", "# BEGIN_SOLUTION"),
    "under another name": ("title", "`top = torch.exp(x - x.amax(-1, keepdim=True))`"),
    "in a remark": ("title", "<!-- torch.exp(x - x.amax(-1, keepdim=True)) -->"),
    "a friend's": ("title", "seen = place(Tq, Tk) and torch.arange(Tk) < place"),
    "a picture": ("title", "![](data:image/png;base64," + "iVBORw0KGgo" * 20 + ")"),
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


def said(cell):
    """What a cell says according to its stored outputs."""
    return "".join(output.get("text", "") for output in cell.get("outputs", []))


@LABS
def test_all_checks_pass_in_the_source(number, of):
    """By its stored outputs, which nbval compares with a run as it does the chapters'."""
    lab = of(number).lab
    found = {cell.id: said(cell) for cell in lab.notebook.cells if asks(cell)}
    assert len(found) == len(lab.compared)
    assert all(": right" in text for text in found.values())


@LABS
def test_no_check_raises_in_the_copy(number, of):
    lab = of(number).lab
    lines = executed(release.student_copy(lab))
    assert len(lines) == len(lab.compared)
    assert all(line.endswith(": not yet implemented.") for line in lines)


def asks(cell):
    """The question that a cell checks."""
    match = re.search(r'^check\("(\w+)"', cell.source, re.MULTILINE)
    return match[1] if match and cell.cell_type == "code" else None


@pytest.mark.weekly
@pytest.mark.timeout(600)
def test_nbval_runs_the_copies(of, tmp_path):
    """Each check says that nothing is written yet, and no other cell says anything."""
    for number in CORPORA:
        notebook = release.student_copy(of(number).lab)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, start=1):
            cell.execution_count = count
            text = f"{asks(cell)}: not yet implemented.\n"
            cell.outputs = [nbformat.v4.new_output("stream", text=text)] * bool(asks(cell))
        (tmp_path / of(number).lab.path.name).write_text(release.text(notebook), encoding="utf-8")
    words = ["--nbval", "--nbval-current-env", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_lab_that_is_not_there_is_named(root):
    with pytest.raises(ValueError, match="lab 99"):
        source.find(99, root / "labs")
