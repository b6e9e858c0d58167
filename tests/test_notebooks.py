"""What must hold of every notebook before it is executed: form, first cell, outputs, length."""

import re
import statistics
from pathlib import Path

import normal_form
import pytest
import set_repository

ROOT = Path(__file__).parents[1]
BOOK = sorted(ROOT.glob("book/*.ipynb"))
NOTEBOOKS = BOOK + sorted(ROOT.glob("labs/*.ipynb"))
EXCUSED = {"nbval-ignore-output", "nbval-skip", "nbval-raises-exception"}
FIRST = """\
import sys

try:
    import attnbook.device  # noqa: F401
except ImportError:
    %pip install -q "attnbook @ git+{address}"
    sys.modules.pop("attnbook", None)  # what was found may be a mere folder of that name
"""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code(path):
    return [cell for cell in normal_form.read(path).cells if cell.cell_type == "code"]


def tags(cell):
    return set(cell.metadata.get("tags", []))


def lines(cell):
    return [line for line in cell.source.splitlines() if line.strip()]


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
    assert not [name for name in ids if re.fullmatch("[0-9]+|[0-9a-f]{8}", name)]


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
def test_cells_are_short(path):
    lengths = {cell.id: len(lines(cell)) for cell in code(path)}
    assert not {name: length for name, length in lengths.items() if length > 20}
    assert statistics.median(lengths.values()) <= 5 or path not in BOOK


def test_nearly_all_cells_are_compared():
    cells = [cell for path in NOTEBOOKS for cell in code(path)]
    excused = [cell.id for cell in cells if tags(cell) & EXCUSED or "NBVAL_" in cell.source]
    assert len(excused) <= 0.05 * len(cells), excused
