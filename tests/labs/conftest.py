"""The labs, a grader for each, and submissions made of the student's copy and some functions.

`lab`, `grade` and `hand_in` belong to lab 3, on which the machinery is tested; those of another
lab are `of(4).grade` and so on.
"""

import copy
import textwrap
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from loaded import Loaded, loaded

from attnlabs import release, source
from attnlabs.grading import sandbox
from attnlabs.grading.grade import Grader
from attnlabs.grading.submissions import Submission


@dataclass
class Course:
    """A lab with all that is needed to hand something in and to grade it."""

    lab: source.Lab
    walls: str | None
    box: Path
    forks: Loaded

    def __post_init__(self):
        self.empty = release.student_copy(self.lab)

    @cached_property
    def grader(self):
        """It runs the lab's solutions, those of lab 9 for many seconds: not all need it."""
        return Grader(self.lab, seed=7, program=self.walls, limits={"seconds": 4})

    def within(self, limits):
        """The grader, with other limits."""
        grader = copy.copy(self.grader)
        grader.job = {**grader.job, "limits": {**grader.limits, **limits}}
        return grader

    def grade(self, raw, file="one.ipynb", **limits):
        """The row of a submission, graded in the sandbox."""
        return self.within(limits).row(Submission(file, raw), self.box)

    def judge(self, raw, file="one.ipynb", **limits):
        """The same row, where the walls are not what is tested; a second faster."""
        grader = self.within(limits)
        grader.program = None
        with mock.patch.object(sandbox, "received", self.forks.received):
            return grader.row(Submission(file, raw), self.box)

    def hand_in(self, answers, before=""):
        """A student's notebook in which some questions are answered: {name: code}."""
        notebook = copy.deepcopy(self.empty)
        for cell in notebook.cells:
            name = cell.id.replace("-", "_")
            if name in answers:
                cell.source = textwrap.dedent(answers[name])
            if cell.id == "imports":
                cell.source += "\n" + before
        return nbformat.writes(notebook).encode()


@pytest.fixture(scope="session")
def of(root, box, walls, forks):
    """The course of a lab, by its number."""

    @cache
    def course(number):
        return Course(source.find(number, root / "labs"), walls, box, forks)

    return course


@pytest.fixture(scope="session")
def walls():
    return sandbox.walls()


@pytest.fixture(scope="session")
def box():
    with sandbox.box() as folder:
        yield folder


@pytest.fixture(scope="session")
def forks(box):
    """A process that has torch already, for `judge`."""
    with loaded(box) as process:
        yield process


@pytest.fixture(scope="session")
def lab(of):
    return of(3).lab


@pytest.fixture(scope="session")
def grader(of):
    return of(3).grader


@pytest.fixture(scope="session")
def grade(of):
    return of(3).grade


@pytest.fixture(scope="session")
def judge(of):
    return of(3).judge


@pytest.fixture(scope="session")
def hand_in(of):
    return of(3).hand_in


@pytest.fixture(scope="session")
def define():
    """The names that some code defines."""

    def names(*codes):
        found = {}
        for code in codes:
            exec(textwrap.dedent(code), found)
        return found

    return names
