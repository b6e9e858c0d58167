"""A lab as a source notebook of nbgrader, for courses that already grade with it.

nbgrader.readthedocs.io: a cell's metadata say what it is for, and `generate_assignment` takes the
solutions out. The rubric of a written answer stands inside its solution, so it goes as well.
"""

import copy
import io
import re
import textwrap
import time
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from attnbook import files
from attnlabs import check, probes, release
from attnlabs.inside.fingerprints import Outcome, outcome
from attnlabs.judge import judge
from attnlabs.predictions import guesses, without_guesses
from attnlabs.question import copies
from attnlabs.source import HEADING, RUBRIC, SOLUTION, Asked, Lab

KNOWN = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
TEST = 'from attnlabs.nbgrader import points_for\n\npoints_for("{0}", {0}, {1})'
END = "### END SOLUTION"
WORDS = {  # what is otherwise with nbgrader: the stub, the numbers, the name of the file
    r"Replace each `\.\.\.`": "Replace each `raise NotImplementedError()`",
    r",\s+on other numbers\s+than the check's": "",
    r"then download the notebook.* under any name": "save the notebook and do not rename it",
}


def source_notebook(lab: Lab) -> NotebookNode:
    """The lab with solutions, each cell marked for nbgrader, and a test behind each function."""
    release.student_copy(lab)  # a ValueError if a solution stands outside its markers
    notebook, cells = copy.deepcopy(lab.notebook), []
    questions, question = iter(lab.asked), None
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and HEADING.search(cell.source):
            question = next(questions)
        cells += turned(cell, question)
    uses = [cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata]
    points = [use.points for use in uses if use.grade]
    if points != [asked.points for asked in lab.asked if asked.name not in lab.contests]:
        raise ValueError(
            f"{lab.path}: one cell per question may hold its check or text; points: {points}"
        )
    notebook.cells = cells
    return notebook


def turned(cell: NotebookNode, question: Asked | None) -> list[NotebookNode]:
    """A cell of the lab as nbgrader's, and if it is a function's, the cell that tests it."""
    cell.source = RUBRIC.sub("", cell.source).strip()
    solved = bool(SOLUTION.search(cell.source))
    tested = question is not None and f'check("{question.name}",' in cell.source
    if not (solved or tested):
        for pattern, words in WORDS.items():
            cell.source = re.sub(pattern, words, cell.source)
        if cell.cell_type == "code" and any(guesses(cell.source)):
            cell.source = without_guesses(cell.source)
            return [plain(cell)]
        return [marked(cell, locked=True)] if cell.source else []
    if question is None:
        raise ValueError(f"cell {cell.id} has a solution before any question")
    worth = {"grade": True, "points": question.points}
    if question.code:
        first = [marked(cell, solution=solved, locked=not solved)]
        if not tested:  # a step on the way, with a solution of its own
            return first
        test = new_code_cell(TEST.format(question.name, question.points), id=f"{cell.id}-test")
        return [*first, marked(test, locked=True, **worth)]
    rubric = f"\n**Rubric**\n\n{question.rubric.strip()}\n{END}"
    cell.source = rubric.join(cell.source.rsplit(END, maxsplit=1))
    return [marked(cell, solution=True, **worth)]


def marked(cell: NotebookNode, **use: Any) -> NotebookNode:
    """The cell without outputs, and with what nbgrader wants to know of it."""
    cell = plain(cell)
    named = {"grade_id": cell.id, "cell_type": cell.cell_type}
    cell.metadata.nbgrader = type(cell)(KNOWN | named | use)
    return cell


def plain(cell: NotebookNode) -> NotebookNode:
    """The cell without outputs. nbgrader takes one of which it knows nothing for the student's, who
    may write there; one that is marked as neither locked nor a solution it cannot grade."""
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    cell.metadata = type(cell)({k: v for k, v in cell.metadata.items() if k == "tags"})
    return cell


def write(lab: Lab, folder: Path) -> Path:
    """Write the notebook at once as lab03/… in a folder; one that differs is not replaced."""
    path = Path(folder) / f"lab{lab.number:02}" / lab.path.name
    content = release.text(source_notebook(lab))
    if path.exists() and path.read_text(encoding="utf-8") != content:
        raise ValueError(f"{path} exists and differs: move it away first")
    path.parent.mkdir(parents=True, exist_ok=True)
    files.store(path, content, Path(folder))  # all that lies beside it goes to students
    return path


def points_for(name: str, function: Any, worth: int | float) -> int | float:
    """The points of a function, where nbgrader reads them; an AssertionError if there are none."""
    known = probes.sheets()[name]
    results: list[Outcome] = ["no result"] * len(known.cases)
    with redirect_stderr(io.StringIO()):  # nbgrader takes a warning for an error
        said = textwrap.fill(f"{name}: {check.sentence(name, function)}", 66)  # it cuts long lines
        with suppress(BaseException), check.no_longer_than(seconds=10):
            results = [outcome(function, copies(case.arguments)) for case in known.cases]
        done = check.effects(known, function, time.monotonic() + 10)
    share = judge(known, results, effects=done).share
    assert share, said
    if share < 1:
        print(said)
    return round(worth * share, 2)
