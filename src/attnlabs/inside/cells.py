"""What of a submitted notebook belongs to one question. Runs in the sandbox.

Nothing is expected of metadata, cell ids or the order of cells. A function is found by its name,
and with it go only the statements it needs: imports, and what binds or changes a name that is
used. So an endless loop in one cell is nobody's business but its own.
"""

import ast
import builtins
import json
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from attnlabs.inside import scripts
from attnlabs.inside.dependencies import DEFINES, binds, called, imported, sets, touches, uses

Cells: TypeAlias = Sequence[tuple[str, str]]  # type and text of each

PREDICTIONS = "my_predictions"
HEADING = r"^#+ *Question {0}\b.*$"
# `%timeit f()`, `!ls`, `files = !ls`, `f?`, `?f`: what IPython takes and Python does not
MAGIC = re.compile(r"^([ \t]*)(([\w., ]+=[ \t]*)?[%!].*|\?.*|[\w.]+\?{1,2}[ \t]*)$", re.MULTILINE)


def read(raw: bytes) -> list[tuple[str, str]]:
    """The cells as pairs (type, text). Whatever JSON it is, what looks like a cell is taken."""
    text = (
        raw.decode("utf-8-sig", errors="strict") if b"\0" not in raw[:4] else raw.decode("utf-16")
    )
    notebook = json.loads(text)
    if "script" in notebook:
        return scripts.split(notebook["script"])
    cells = notebook.get("cells")
    if cells is None:  # format 3
        cells = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
    pairs = []
    for cell in cells:
        source = cell.get("source", cell.get("input", ""))
        source = "".join(source) if isinstance(source, list) else str(source)
        pairs.append((cell.get("cell_type", "code"), source))
    return pairs


def statements(pairs: Cells) -> tuple[list[ast.stmt], list[tuple[str, str]]]:
    """All statements of all code cells that are Python, and what was wrong with the others."""
    found: list[ast.stmt] = []
    wrong = []
    for number, (kind, source) in enumerate(pairs, start=1):
        if kind != "code":
            continue
        try:
            text, part = parsed(source)
            for statement in part:
                statement.cell = number  # type: ignore[attr-defined]  # where a person finds it
                statement.text = text  # type: ignore[attr-defined]  # in which its lines are counted
            found += part
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            wrong.append((source, f"{type(error).__name__}: {error}"))
    return found, wrong


def parsed(source: str) -> tuple[str, list[ast.stmt]]:
    """The text of a cell as Python has it, and its statements."""
    if re.match(r"\s*%%(?!time|capture|prun)", source):
        return "", []
    try:
        return source, ast.parse(source).body
    except SyntaxError:
        source = MAGIC.sub(r"\1pass", textwrap.dedent(source))
        return source, ast.parse(source).body


def needed(tree: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements that the function `name` needs, itself included, in their order."""
    tree, bound = bindings(tuple(tree))
    wanted = {name}
    chosen: set[int] = set()
    while True:
        new = {
            n
            for n, statement in enumerate(tree)
            if n not in chosen and (bound[n] & wanted or is_general(statement))
        }
        if not new:
            return [tree[n] for n in sorted(chosen)]
        chosen |= new
        for n in new:
            wanted |= uses(tree[n])


@lru_cache(maxsize=1)  # asked for each function of a notebook
def bindings(tree: tuple[ast.stmt, ...]) -> tuple[list[ast.stmt], list[set[str]]]:
    """The statements that count, and the names that each binds or changes."""
    left = [s for s in tree if PREDICTIONS not in uses(s)]  # they show an answer, and are none
    left = [s for s in left if not is_stub(s) or not others(left, s)]
    modules = imported(left)
    written = {s.name for s in left if isinstance(s, ast.FunctionDef) and not is_stub(s)}
    left = [s for s in left if not is_tried_out(s, written, modules)]
    setting = {s.name: sets(s) for s in left if isinstance(s, ast.FunctionDef)}
    return left, [
        touches(s, modules).union(*(setting.get(name, ()) for name in called(s))) for s in left
    ]


def unknown(tree: Sequence[ast.stmt], name: str) -> list[str]:
    """Names that a function needs and that nothing in the notebook or in Python has."""
    part = needed(tree, name)
    if any(is_general(statement) for statement in part):
        return []
    there = set(dir(builtins)).union(*map(binds, tree))
    return sorted(set().union(*map(uses, part)) - there)


def is_general(statement: ast.stmt) -> bool:
    """These count always: `from math import *` binds one cannot see; `from __future__ import`."""
    if not isinstance(statement, ast.ImportFrom):
        return False
    return statement.names[0].name == "*" or statement.module == "__future__"


def left_out(part: Iterable[ast.stmt], strict: bool) -> list[ast.stmt]:
    """What does more than define something: loops, calls; if `strict`, assignments that call."""
    plain = DEFINES | ast.Import | ast.ImportFrom
    values = ast.Assign | ast.AnnAssign
    return [
        statement
        for statement in part
        if not isinstance(statement, plain)
        and (not isinstance(statement, values) or (strict and bool(called(statement))))
    ]


def only_shows(text: str) -> bool:
    """Of a statement that the lab hands out: does it do something, such as call an answer?

    Imports, functions, classes and plain values only say what names mean.
    """
    statement = ast.parse(text).body[0]
    if isinstance(statement, ast.Assign):
        return any(isinstance(node, ast.Call) for node in ast.walk(statement))
    says = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    return not isinstance(statement, says)


def is_stub(statement: ast.stmt) -> bool:
    """A function that does nothing yet: `...`, `pass` and the like, after a docstring perhaps."""
    return isinstance(statement, ast.FunctionDef) and all(map(says_nothing, statement.body))


def is_tried_out(statement: ast.stmt, written: Collection[str], modules: Collection[str]) -> bool:
    """Is it a library's own thing under the name of a function that the notebook has written?

    `softmax = torch.nn.Softmax(-1)` below `def softmax` is an experiment, not the answer;
    `softmax = mine(softmax)` is one.
    """
    if not isinstance(statement, ast.Assign) or binds(statement).isdisjoint(written):
        return False
    return uses(statement.value) <= set(modules)


def says_nothing(part: ast.stmt) -> bool:
    if isinstance(part, ast.Raise):
        raised = getattr(part.exc, "func", part.exc)
        return getattr(raised, "id", "") == "NotImplementedError"
    value = getattr(getattr(part, "value", None), "value", None)
    return isinstance(part, ast.Pass) or isinstance(value, str | type(...))


def others(tree: Sequence[ast.stmt], stub: ast.stmt) -> bool:
    """Is a function of that name written somewhere else?"""
    return any(binds(stub) & binds(s) and not is_stub(s) for s in tree)


def signed(statements: Iterable[ast.stmt]) -> list[str]:
    """The names of students whose copy the notebook says it is: `check_for("ada")`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and len(node.args) == 1]
    names = [call.args[0] for call in calls if getattr(call.func, "id", "") == "check_for"]
    texts = [name.value for name in names if isinstance(name, ast.Constant)]
    return list(dict.fromkeys(text[:60] for text in texts if isinstance(text, str)))


def missing(tree: Sequence[ast.stmt], wrong: Iterable[tuple[str, str]], name: str) -> str:
    """A sentence when no statement gives the function of this name, or nothing but a stub."""
    own = [statement for statement in tree if name in binds(statement)]
    if not own:
        return why_missing(wrong, name)
    return "not yet implemented." if all(map(is_stub, own)) else ""


def why_missing(wrong: Iterable[tuple[str, str]], name: str) -> str:
    """A sentence when a notebook has no function of this name."""
    pattern = re.compile(rf"\bdef\s+{re.escape(name)}\b|^{re.escape(name)}\s*=", re.MULTILINE)
    for source, error in wrong:
        if pattern.search(source):
            return f"the cell that defines {name} is not Python: {error}"
    return f"no cell defines {name}."


def answer(pairs: Cells, number: int | str) -> str:
    """The text written below a question's heading, up to the next heading of the lab.

    Whoever has changed the heading has not lost the answer: then it is all text there is.
    """
    here, lines, last = False, None, 0
    for n, (kind, source) in enumerate(pairs):
        if re.search(HEADING.format(number), source, re.MULTILINE) and kind != "code":
            here, lines, last = True, lines or [], n
            source = re.split(HEADING.format(number), source, maxsplit=1, flags=re.MULTILINE)[1]
        elif ends(source, n == last + 1) and kind != "code":
            here = False
        if here:
            lines.append(source)
    if lines is None:
        lines = [source for kind, source in pairs if kind == "markdown"]
        lines = [f"(no heading of question {number}; all text:)", *lines] if lines else []
    return "\n\n".join(lines)


def ends(source: str, first: bool) -> bool:
    """Is it a heading of the lab? In the first cell, or a small one, it is the answer's own."""
    heading = HEADING.format(r"\d+") if first else "^##? "
    return re.search(heading, source, re.MULTILINE) is not None
