"""What is read aloud is short: a definition has at most 25 lines of body."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 25
DRAWING = 40  # lines of one drawing: it is read beside its picture, stroke by stroke
FOLDERS = ("src", "tools", "results", "benchmarks", "book/_ext")
FILES = sorted(path.relative_to(ROOT) for f in FOLDERS for path in (ROOT / f).rglob("*.py"))
# Definitions that are longer yet: they may only shrink, and leave this table when they are short.
LONGER = {
    ("book/_ext/section_search.py", "collect"): 35,
    ("book/_ext/section_search.py", "dump"): 29,
    ("book/_ext/topic_index.py", "build"): 34,
    ("results/book_lm.py", "ship"): 58,
    ("results/book_vit.py", "measure"): 42,
    ("results/images.py", "measure"): 36,
    ("results/scaling.py", "measure"): 36,
    ("results/shakespeare.py", "measure"): 37,
    ("results/speedrun.py", "nanogpt"): 38,
    ("results/tweaks.py", "one_run"): 34,
    ("tools/pdf.py", "make"): 38,
}


def bodies(tree):
    """Each function with the lines that its body takes, docstring aside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = {n for part in body for n in range(part.lineno, part.end_lineno + 1)}
            yield node, len(lines)


def allowed(path, name):
    most = DRAWING if path.parent.name == "drawings" else LONGEST
    return LONGER.get((path.as_posix(), name), most)


@pytest.mark.parametrize("path", FILES, ids=Path.as_posix)
def test_a_definition_has_at_most_25_lines(path):
    found = list(bodies(ast.parse((ROOT / path).read_text("utf-8"))))
    long = {
        f"{node.name}, line {node.lineno}": n for node, n in found if n > allowed(path, node.name)
    }
    assert not long
    known = {name for file, name in LONGER if file == path.as_posix()}
    still = {node.name for node, n in found if n > LONGEST}
    assert known <= still, f"short by now, and still in LONGER: {known - still}"


def test_every_file_in_the_table_exists():
    assert {file for file, _ in LONGER} <= {path.as_posix() for path in FILES}


def test_this_test_can_fail():
    code = "def f():\n    '''Says.'''\n" + "    x = 1\n" * 26
    ((node, count),) = bodies(ast.parse(code))
    assert (node.name, count) == ("f", 26)
