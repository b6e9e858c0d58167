"""What is read aloud is short: a definition has at most 25 lines of body."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
LONGEST = 25
DRAWING = 40  # lines of one drawing: it is read beside its picture, stroke by stroke


def bodies(tree):
    """Each function with the lines that its body takes, docstring aside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = {n for part in body for n in range(part.lineno, part.end_lineno + 1)}
            yield node, len(lines)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_a_definition_has_at_most_25_lines(path):
    tree = ast.parse(path.read_text("utf-8"))
    most = DRAWING if path.parent.name == "drawings" else LONGEST
    long = {f"{node.name}, line {node.lineno}": n for node, n in bodies(tree) if n > most}
    assert not long


def test_this_test_can_fail():
    code = "def f():\n    '''Says.'''\n" + "    x = 1\n" * 26
    ((node, count),) = bodies(ast.parse(code))
    assert (node.name, count) == ("f", 26)
