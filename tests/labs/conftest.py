"""Lab 3, a grader for it, and submissions made of the student's copy and some functions."""

import copy
import textwrap

import nbformat
import pytest

from attnbook.labs import release, sandbox, source
from attnbook.labs.grade import Grader
from attnbook.labs.submissions import Submission


@pytest.fixture(scope="session")
def lab(root):
    return source.find(3, root / "labs")


@pytest.fixture(scope="session")
def walls():
    return sandbox.walls()


@pytest.fixture(scope="session")
def grader(lab, walls):
    return Grader(lab, seed=7, program=walls, limits={"seconds": 4})


@pytest.fixture(scope="session")
def box():
    with sandbox.box() as folder:
        yield folder


@pytest.fixture(scope="session")
def grade(grader, box):
    """The row of a submission, graded in the sandbox."""
    return lambda raw, file="one.ipynb": grader.row(Submission(file, raw), box)


@pytest.fixture(scope="session")
def hand_in(lab):
    """A student's notebook in which some questions are answered: {name: code}."""
    empty = release.student_copy(lab)

    def notebook(answers, before=""):
        notebook = copy.deepcopy(empty)
        for cell in notebook.cells:
            name = cell.id.replace("-", "_")
            if name in answers:
                cell.source = textwrap.dedent(answers[name])
            if cell.id == "imports":
                cell.source += "\n" + before
        return nbformat.writes(notebook).encode()

    return notebook


@pytest.fixture(scope="session")
def define():
    """The names that some code defines."""

    def names(*codes):
        found = {}
        for code in codes:
            exec(textwrap.dedent(code), found)
        return found

    return names
