"""The student's copy of a lab: the source without a trace of its solutions."""

import ast
import copy
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import nbformat
from nbformat import NotebookNode

from attnbook import files
from attnlabs import variants
from attnlabs.inside import cells
from attnlabs.inside.fingerprints import outcome, same
from attnlabs.predictions import without_guesses
from attnlabs.question import copies, drawn, run
from attnlabs.source import RUBRIC, SOLUTION, Asked, Lab

ANSWER = "*Write your answer here, instead of this line.*"
CHECK = "from attnlabs.check import check"


def student_copy(lab: Lab, student: str = "") -> NotebookNode:
    """The notebook for students, or a ValueError if any of a solution is still in it.

    With a student's name it is the one for that student, by the options that the name draws.
    """
    if student:
        lab = lab.of(variants.checked(student))
    questions = lab.asked  # read first: an open marker must stop this
    for options in variants.every(lab.choices):  # what answers a friend's copy is no less secret
        questions = [*questions, *lab.variant(options).asked]
    notebook = without_solutions(lab)
    if student:
        sign(notebook, student)
    refuse_what_is_left(notebook, questions)
    with redirect_stdout(io.StringIO()), catch_warnings(record=True):
        refuse_what_answers(notebook, lab)
    return notebook


def without_solutions(lab: Lab) -> NotebookNode:
    """The notebook with stubs for solutions, without outputs, rubric and metadata."""
    notebook = copy.deepcopy(lab.notebook)
    kept = []
    for cell in notebook.cells:
        cell.source = without_solution(cell)
        if not cell.source.strip():
            continue
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        cell.metadata = {k: v for k, v in cell.metadata.items() if k == "tags"}
        kept.append(cell)
    notebook.cells = kept
    notebook.metadata = {k: v for k, v in notebook.metadata.items() if k == "kernelspec"}
    notebook.metadata["colab"] = {"name": lab.path.name}
    return notebook


def sign(notebook: NotebookNode, student: str) -> None:
    """Let the notebook say whose copy it is: the check and the grading read it there."""
    first = [cell for cell in notebook.cells if CHECK in cell.source.splitlines()]
    if len(first) != 1:
        raise ValueError(f"{len(first)} cells have the line {CHECK!r}; one must, to be signed")
    mine = f'check = check_for("{student}")  # whose copy this is; leave this line as it is'
    first[0].source = first[0].source.replace(CHECK, f"{CHECK}_for") + f"\n\n{mine}"


def handed_out(lab: Lab) -> list[str]:
    """The statements that the lab hands out: what they use is not the student's doing."""
    statements: dict[str, None] = {}
    for options in variants.every(lab.choices):
        notebook = without_solutions(lab.variant(options))
        pairs = [(cell.cell_type, cell.source) for cell in notebook.cells]
        statements |= {ast.unparse(each): None for each in cells.statements(pairs)[0]}
    return [*statements, "from attnlabs.check import check_for"]  # in a copy with a student's name


def without_solution(cell: NotebookNode) -> str:
    """The cell's text with stubs where solutions and guesses were, nothing where the rubric was."""
    source = RUBRIC.sub("", cell.source)
    if cell.cell_type != "code":
        return SOLUTION.sub(ANSWER, source).strip()

    def stub(match: re.Match[str]) -> str:
        return match[0][: len(match[0]) - len(match[0].lstrip(" \t"))] + "..."

    return without_guesses(SOLUTION.sub(stub, source).strip())


def refuse_what_is_left(notebook: NotebookNode, questions: Sequence[Asked]) -> None:
    """Raise a ValueError naming the first thing that gives a solution away."""
    secret = {line for q in questions for text in q.solutions for line in telling(text, q.code)}
    secret |= {line for q in questions for line in telling(q.rubric, False)}
    for cell in notebook.cells:
        if cell.get("outputs") or cell.get("execution_count"):
            raise ValueError(f"cell {cell.id} still has its output")
        if cell.get("attachments"):
            raise ValueError(f"cell {cell.id} has an attachment, which nobody has looked into")
        if re.search(r"[\w+/=]{150,}", cell.source):
            raise ValueError(f"cell {cell.id} has a very long word, a picture perhaps or a file")
        if re.search(r"(BEGIN|END)[ _-]*(SOLUTION|RUBRIC)", cell.source, re.IGNORECASE):
            raise ValueError(f"cell {cell.id} still has a marker")
        for line in cell.source.splitlines():
            if {squeezed(line), squeezed(line.lstrip(" #"))} & secret:
                raise ValueError(f"cell {cell.id} still has a line of a solution: {line.strip()}")
    everything = "".join(f"{cell.source}{cell.metadata}{cell.id}" for cell in notebook.cells)
    everything = re.sub(r"\s+", "", f"{everything}{notebook.metadata}")
    for line in secret:
        if len(line) > 20 and line in everything:
            raise ValueError(f"a line of a solution is still somewhere in the notebook: {line}")


def refuse_what_answers(notebook: NotebookNode, lab: Lab) -> None:
    """Raise a ValueError if a question is answered in the copy, in whatever words and name."""
    tree, _ = cells.statements([(cell.cell_type, cell.source) for cell in notebook.cells])
    written = {s.name for s in tree if isinstance(s, ast.FunctionDef) and not cells.is_stub(s)}
    functions = {name: value_of(tree, name) for name in {*written, *lab.compared}}
    for name, question in lab.compared.items():
        if question.own:  # its answers are numbers; no line of them is left, as said above
            continue
        cases = drawn(question, seed=1)
        right = run(question.program, frozenset(lab.flips(name)), cases)
        for other, function in functions.items():
            outcomes = (outcome(function, copies(case.arguments)) for case in cases)
            if all(map(same, outcomes, right)):
                raise ValueError(f"the question {name} is still answered in the copy, by {other}")


def value_of(tree: Sequence[ast.stmt], name: str) -> Any:
    """What a notebook calls by a name, made of the statements that are needed for it."""
    names: dict[str, Any] = {}
    for statement in cells.needed(tree, name):
        with suppress(Exception):  # what does not run answers nothing
            exec(compile(ast.Module([statement], []), "copy", "exec"), names)
    return names.get(name)


def telling(text: str, code: bool) -> Iterator[str]:
    """Lines that would tell somebody how to do it; `return out` alone would not."""
    for line in text.splitlines():
        line = squeezed(line)
        if len(line) >= 8 and (not code or has_a_step(line)):
            yield line
            value = re.sub(r"^(return|[\w,]+=)", "", line) if code else line
            if len(value) > 20 and not re.fullmatch(r"\w+\([\w,]*\)", value):
                yield value  # whatever it is called; a call alone stands in many a heading


def has_a_step(line: str) -> bool:
    """Is there more in a line than names and a bare return?"""
    return not re.fullmatch(r"(return)?[\w,]*|(else|try|pass|if\w*):?", line)


def squeezed(line: str) -> str:
    """A line without spaces and comments: moving it about does not hide it."""
    return re.sub(r"\s+", "", re.sub(r"(?<!#)#(?!#).*", "", line))


def text(notebook: NotebookNode) -> str:
    """The file's text. Writing it twice gives the same bytes."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.source.startswith(("%", "!")):
            parses(cell)
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"


def parses(cell: NotebookNode) -> None:
    """A stub must still be Python: a student who runs it untouched sees no error."""
    lines = [line for line in cell.source.splitlines() if not line.lstrip().startswith("%")]
    body = "\n".join(lines)
    if len(lines) == len(cell.source.splitlines()):
        ast.parse(body)


def write(lab: Lab, path: Path, student: str = "") -> Path:
    """Write the student's copy to a file or into a folder; returns the file's path."""
    path = Path(path)
    name = f"{lab.path.stem}-{student}.ipynb" if student else lab.path.name
    path = path / name if path.is_dir() else path
    if path.resolve() == lab.path.resolve():
        raise ValueError(f"{path} is the source; its solutions would be lost")
    files.store(path, text(student_copy(lab, student)))
    return path
