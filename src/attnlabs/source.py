"""A lab's source notebook: its questions, their points, the solutions and the rubric.

Everything is read from what a person sees, the text of the cells: a question begins with a
heading `## Question 2 · name (3 points)`, and a name set as code, in backquotes, is a function to
write; without them the answer is written text. Solutions stand between `### BEGIN SOLUTION` and
`### END SOLUTION`, as in nbgrader; the rubric between `### BEGIN RUBRIC` and `### END RUBRIC`.
"""

import copy
import importlib.util
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType

import nbformat
from nbformat import NotebookNode

from attnlabs import variants
from attnlabs.parts import Part
from attnlabs.question import Choices, Question

HEADING = re.compile(r"^##+ Question (\d+) · (`?)([^`\n]+?)\2 \((\d+) points?\)", re.MULTILINE)
MARKED = r"^[ \t]*### BEGIN {0}[ \t]*\n(.*?)^[ \t]*### END {0}[ \t]*$"
SOLUTION, RUBRIC = (
    re.compile(MARKED.format(word), re.MULTILINE | re.DOTALL) for word in ("SOLUTION", "RUBRIC")
)


@dataclass
class Asked:
    """One question as it stands in the notebook. `code`: it is answered by a function, which is its
    name, or by a part of a project; else by a text."""

    number: int
    name: str
    points: int
    code: bool
    prompt: str = ""  # what stands below the heading, in its cell
    solutions: list[str] = field(default_factory=list)
    rubric: str = ""


@dataclass
class Lab:
    """A lab: the notebook with solutions, and beside it the file with what it is compared with.

    `options` says what is chosen where the lab may be given in several ways; empty is as it stands.
    """

    path: Path
    options: dict[str, str] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return int(self.path.stem.split("-")[0])

    def variant(self, options: dict[str, str]) -> "Lab":
        """The same lab with other options."""
        other = Lab(self.path, options)
        other.__dict__["file"], other.__dict__["stored"] = self.file, self.stored
        return other

    def of(self, student: str) -> "Lab":
        """The lab as the student of this name has it."""
        options = variants.drawn(self.number, self.choices, student)
        known = self.__dict__.setdefault("known", {})
        return known.setdefault(tuple(options.values()), self.variant(options))

    @cached_property
    def stored(self) -> NotebookNode:
        return nbformat.read(self.path, as_version=nbformat.NO_CONVERT)

    @cached_property
    def notebook(self) -> NotebookNode:
        """The notebook as it is with the options; ValueError if one has nothing to replace."""
        notebook = copy.deepcopy(self.stored)
        everything = "\n".join(cell.source for cell in notebook.cells)
        for choice, option in self.options.items():
            for old in self.choices[choice][option].text:
                if old not in everything:
                    raise ValueError(f"{self.path}: {choice} ({option}) finds no {old!r}")
        for cell in notebook.cells:
            cell.source = variants.replaced(cell.source, self.choices, self.options)
        return notebook

    @property
    def title(self) -> str:
        """The notebook's first heading."""
        found = (re.match("# (.+)", cell.source) for cell in self.notebook.cells)
        return next((match[1] for match in found if match), self.path.stem)

    @cached_property
    def asked(self) -> list[Asked]:
        """All questions in order; a ValueError if a marker is left open or a name comes twice."""
        asked = []
        for cell in self.notebook.cells:
            check_markers(cell.source, self.path)
            match = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
            if match:
                number, tick, name, points = match.groups()
                prompt = cell.source[match.end() :].strip()
                code = tick == "`" or name in self.parts
                asked.append(Asked(int(number), name, int(points), code, prompt))
            found = SOLUTION.findall(cell.source)
            if found and not asked:
                raise ValueError(f"{self.path}: cell {cell.id} has a solution before any question")
            if asked:
                asked[-1].solutions += found
                asked[-1].rubric += "".join(RUBRIC.findall(cell.source))
        names = [question.name for question in asked]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.path}: two questions have the same name: {names}")
        return asked

    @cached_property
    def file(self) -> ModuleType:
        """The lab's Python file, as a module."""
        return module(self.path.with_suffix(".py"))

    @property
    def compared(self) -> dict[str, Question]:
        """What the lab's Python file says of each function: {name: Question}."""
        return self.file.QUESTIONS

    @property
    def parts(self) -> dict[str, tuple[Part, ...]]:
        """Questions whose answer is a part of a project, and what is tried of it."""
        path = self.path.with_suffix(".py")
        return getattr(self.file, "PARTS", {}) if path.exists() else {}

    @property
    def contests(self) -> set[str]:
        """Questions about no function: their points are those of a contest of other files."""
        return {name for name, several in self.parts.items() if not any(p.of for p in several)}

    @property
    def choices(self) -> Choices:
        """What may be chosen: {choice: {option: Option}}."""
        return getattr(self.file, "CHOICES", {})

    def flips(self, name: str) -> dict[str, str]:
        """The mistakes that are right in a question, with the lab's options."""
        return variants.flips(self.choices, self.options, name)


def module(path: Path) -> ModuleType:
    """A Python file that is not part of a package."""
    spec = importlib.util.spec_from_file_location(f"attnbook_{path.stem.replace('-', '_')}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def check_markers(source: str, path: Path) -> None:
    """Raise a ValueError if markers do not come in pairs: half a solution would be given away."""
    for word, pattern in (("SOLUTION", SOLUTION), ("RUBRIC", RUBRIC)):
        marks = re.findall(rf"### *(?:BEGIN|END) *{word}", source, re.IGNORECASE)
        pairs = len(pattern.findall(source))
        if len(marks) != 2 * pairs:
            raise ValueError(f"{path}: {len(marks)} marks of {word} make {pairs} pairs")


def find(number: int, folder: Path) -> Lab:
    """The lab of this number in a folder of labs."""
    found = sorted(Path(folder).glob(f"{int(number):02}-*.ipynb"))
    if len(found) != 1:
        raise ValueError(
            f"{len(found)} notebooks in {Path(folder).resolve()} belong to lab {number}; "
            "say with --labs where the sources of the labs are"
        )
    return Lab(found[0])
