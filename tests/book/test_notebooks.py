"""What must hold of every notebook before it is executed: form, first cell, outputs, length."""

import ast
import re
from pathlib import Path

import cell_ids
import folds
import nbformat
import normal_form
import pytest
import set_repository

ROOT = Path(__file__).parents[2]
BOOK = sorted(ROOT.glob("book/*.ipynb"))
NOTEBOOKS = BOOK + sorted(ROOT.glob("labs/*.ipynb"))
EXCUSED = {"nbval-ignore-output", "nbval-skip", "nbval-raises-exception"}
FIRST = """\
import sys

try:
    import attnbook.device  # noqa: F401
except ImportError:
    %pip install -q "attnbook[book] @ git+{address}"
    sys.modules.pop("attnbook", None)  # what was found may be a mere folder of that name
"""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code(path):
    return [cell for cell in normal_form.read(path).cells if cell.cell_type == "code"]


def tags(cell):
    return set(cell.metadata.get("tags", []))


def lines(cell):
    return [line for line in folds.body(cell.source).splitlines() if line.strip()]


NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@pytest.mark.parametrize("path", BOOK, ids=lambda path: path.stem)
def test_a_summary_has_as_many_lines_as_its_heading_says(path):
    """It repeats the result boxes of its page, one line each."""
    said = "\n".join(c.source for c in normal_form.read(path).cells if c.cell_type == "markdown")
    results = re.findall(r"^:::\{result\}", said, re.MULTILINE)
    for number in re.findall(r"^## In (\w+) lines$", said, re.MULTILINE):
        assert number == NUMBERS[len(results)]


def test_there_are_notebooks():
    assert NOTEBOOKS


@every_notebook
def test_normal_form(path):
    wanted = normal_form.text(normal_form.normal(normal_form.read(path)))
    assert path.read_text(encoding="utf-8") == wanted, f"run: python tools/normal_form.py {path}"


@every_notebook
def test_ids_are_readable_and_single(path):
    ids = [cell.id for cell in normal_form.read(path).cells]
    assert len(ids) == len(set(ids))
    assert not list(filter(cell_ids.RANDOM.fullmatch, ids))


@every_notebook
def test_first_cell_installs_from_the_repository(path):
    first = normal_form.read(path).cells[0]
    assert first.id == "setup-colab"
    assert first.source + "\n" == FIRST.format(address=set_repository.configured(ROOT))
    assert tags(first) == {"remove-cell"}
    assert first.outputs == []


@every_notebook
def test_outputs_come_from_one_run_from_top_to_bottom(path):
    counts = [cell.execution_count for cell in code(path)]
    assert counts == list(range(1, len(counts) + 1))


@every_notebook
def test_no_output_is_an_error_or_a_warning(path):
    for cell in code(path):
        for output in cell.outputs:
            wrong = output.output_type == "error" or output.get("name") == "stderr"
            assert not wrong, f"cell {cell.id}"


@every_notebook
def test_a_cell_is_one_thought(path):
    lengths = {cell.id: len(lines(cell)) for cell in code(path)}
    assert not {name: length for name, length in lengths.items() if length > 25}


CLOCK = re.compile(r"perf_counter|process_time|time\.time\(|milliseconds|seconds|\btime_?of\b")
# What was timed came with something counted, and that is asserted: bytes, the size of a table.
COUNTED = {"depth-assert", "cost-measure"}


def from_a_clock(path):
    """(cell, assertion) where a name in the assertion was computed by a clock, in this notebook.

    What trains and keeps its time beside its losses is not taken for a clock; its times are, by
    their name.
    """
    timed = set()
    for cell in code(path):
        try:
            tree = ast.parse(folds.body(cell.source))
        except SyntaxError:  # a magic
            continue
        for node in statements(tree.body):
            text = ast.unparse(getattr(node, "value", node) or node)
            bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and stored(n)}
            words = set(re.findall(r"\w+", text)) - (set() if is_set(node) else bound)
            uses = bool(CLOCK.search(text) or timed & words)
            if isinstance(node, ast.FunctionDef):
                uses = uses and not re.search(r"\btrain\(", text)
                timed = timed | {node.name} if uses else timed - {node.name}
            elif is_set(node):
                targets = getattr(node, "targets", None) or [node.target]
                names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
                timed = timed | names if uses else timed - names
            elif isinstance(node, ast.Assert) and uses and cell.id not in COUNTED:
                yield cell.id, text


def stored(name):
    return isinstance(name.ctx, ast.Store)


def is_set(node):
    return isinstance(node, ast.Assign | ast.AugAssign)


def statements(body):
    """All of them in their order, those in loops and branches too, not those in functions."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                inner = getattr(node, part, [])
                yield from statements(inner if isinstance(inner, list) else [])


@every_notebook
def test_no_cell_asserts_what_a_clock_said(path):
    assert not list(from_a_clock(path))


def test_this_test_of_clocks_can_fail(tmp_path):
    cells = [
        "def took(run):\n    start = time.perf_counter()\n    return time.perf_counter() - start",
        "slow = [took(run) for run in runs]\nfast = 1",
        "assert fast == 1",
        "assert slow[0] > 2",
    ]
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(cells)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "some.ipynb")
    assert list(from_a_clock(tmp_path / "some.ipynb")) == [("cell-3", "assert slow[0] > 2")]


def test_nearly_all_cells_are_compared():
    cells = [cell for path in NOTEBOOKS for cell in code(path)]
    excused = [cell.id for cell in cells if tags(cell) & EXCUSED or "NBVAL_" in cell.source]
    assert len(excused) <= 0.05 * len(cells), excused
