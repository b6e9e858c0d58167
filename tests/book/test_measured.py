"""Tables of measured numbers: bounds hold, the layout is compared, the values are not."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import measured_tables
import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook, new_output
from scipy import stats

from bookkit.page import measured as module
from bookkit.page.measured import measured

ROOT = Path(__file__).parents[2]


def test_a_broken_bound_names_the_row_the_number_and_the_bound():
    with pytest.raises(
        AssertionError, match=r"'2 heads' has 0\.8500, the bound is ≥ 0\.9.*0\.97, 0\.85"
    ):
        measured({"1 head": 0.2, "2 heads": [0.97, 0.85]}, low=0.9, only="2 heads")
    with pytest.raises(AssertionError, match=r"'loss' has 1\.5000, the bound is ≤ 1\.2"):
        measured({"loss": 1.5}, high=1.2)
    measured({"1 head": 0.2, "2 heads": [0.97, 0.95]}, low={"2 heads": 0.9})


def test_a_run_that_broke_is_within_no_bound():
    with pytest.raises(AssertionError, match="nan"):
        measured({"a": [math.nan, 1.0]}, low=0)
    assert ">diverged</data>" in measured({"a": [math.nan, 1.0]})._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (({},), "nothing to show"),
        (({"a": []},), "'a' has no numbers"),
        (({"a": ["x"]},), "'a' is not a list of numbers"),
        (({"a": 1.0}, "", "", 2, {"b": 0.5}), "a bound is for 'b'; the rows are a"),
        (({"a": 1.0}, "", "", 2, 0.5, None, "b"), "a bound is for 'b'"),
    ],
)
def test_what_makes_no_table_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        measured(*arguments)


def test_references_come_first_and_the_best_in_every_seed_is_bold():
    rows = {"a": torch.tensor([0.5, 0.6]), "b": [0.7, 0.8], "chance": 0.9}
    table = measured(rows, unit="right ↑")
    assert list(table.table) == ["chance", "a", "b"]
    assert [row for row in table.table if table.is_best(row)] == ["b"]
    assert not any(map(measured(rows | {"a": [0.5, 0.75]}, unit="right ↑").is_best, rows))
    assert measured(rows, unit="loss ↓").is_best("a")
    assert not any(map(measured(rows).is_best, rows))


def written(table, folder):
    """A notebook whose only output is this table."""
    data = {"text/html": table._repr_html_(), "text/plain": repr(table)}
    cell = new_code_cell("table", outputs=[new_output("execute_result", data, execution_count=1)])
    path = folder / "some.ipynb"
    nbformat.write(new_notebook(cells=[cell]), path)
    return path


def test_the_table_is_read_back(tmp_path):
    found = measured_tables.tables(
        written(measured({"a": [1.25, 2.25], "b<": -3}, name="t"), tmp_path)
    )
    assert found == {
        "t": {"a": [("1.75", 1.75), ("1.25", 1.25), ("2.25", 2.25)], "b<": [("−3.00", -3.0)]}
    }


def test_a_matrix_has_a_column_for_each_name_and_is_read_back(tmp_path):
    rows = {"one, far": [0.1, 0.2, 0.3], "one, near": 0.9, "two, far": [0.5, 0.5, 0.5]}
    table = measured(rows, "places", "share ↑", across=["near", "far"])
    text = table._repr_html_()
    assert re.findall(r'<th scope="col">(.*?)</th>', text) == ["share ↑", "near", "far"]
    assert re.findall(r'<th scope="row">(.*?)</th>', text) == ["one", "two"]
    assert text.count("font-weight: bold") == 1  # the best of a column; alone is no best
    assert text.splitlines()[-3].count("<td></td>") == 1  # two, near was not measured
    path = written(table, tmp_path)
    assert {row: found[0][0] for row, found in measured_tables.tables(path)["places"].items()} == {
        "one, near": "0.90",
        "one, far": "0.20",
        "two, far": "0.50",
    }
    assert measured_tables.intervals(path)["places"] == {
        "one, far": "0.00 to 0.45",
        "two, far": "0.50 to 0.50",
    }
    with pytest.raises(ValueError, match="'three' ends with none of the columns near, far"):
        measured({"three": 1.0}, across=["near", "far"])


def test_more_than_six_rows_are_dots_that_can_still_be_quoted(tmp_path):
    table = measured({f"row {i}": [i / 10, i / 20] for i in range(8)}, name="many")
    assert table._repr_html_().count("●") == 16
    assert "left: 70.0%" in table._repr_html_()
    row = measured_tables.tables(written(table, tmp_path))["many"]["row 7"]
    assert [text for text, _ in row][1:] == ["0.70", "0.35"]


def test_three_seeds_have_an_interval_and_it_is_not_read_as_a_seed(tmp_path):
    table = measured({"a": [0.5, 0.6, 0.7], "b": [0.4, 0.5], "chance": 0.1}, name="t")
    text = table._repr_html_()
    assert '<th scope="col">95 % interval</th>' in text and text.count(" to ") == 1
    low, high = stats.t.interval(0.95, 2, 0.6, stats.sem([0.5, 0.6, 0.7]))
    assert f">{low:.2f}</data> to <data" in text and f">{high:.2f}</data>" in text
    read = measured_tables.tables(written(table, tmp_path))["t"]["a"]
    assert [text for text, _ in read] == ["0.60", "0.50", "0.60", "0.70"]
    ends = measured_tables.intervals(written(table, tmp_path))["t"]
    assert ends["a"] == f"{low:.2f} to {high:.2f}" and not ends["chance"]
    assert "interval" not in measured({"a": [0.5, 0.6]})._repr_html_()


def test_an_interval_of_shares_ends_at_0_and_1():
    text = measured({"a": [0.9, 1.0, 1.0]})._repr_html_()
    assert ">1.00</data></td>" in text and ">1.11</data>" not in text


def test_the_budget_stands_below_the_table():
    text = measured({"a": 1.0}, budget="250 steps & no more")._repr_html_()
    assert "<caption>Budget: 250 steps &amp; no more</caption>" in text
    assert "caption" not in measured({"a": 1.0})._repr_html_()


def test_on_colab_the_stored_number_stands_beside_ones_own(monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    monkeypatch.setattr(module, "stored", lambda: {"heads": {"a": "0.25"}})
    text = measured({"a": 0.5, "b": 0.75}, name="heads")._repr_html_()
    assert '<th scope="col">stored</th><th scope="col">here</th>' in text
    assert '<td>0.25</td><td class="mean"><data' in text and "<td>–</td>" in text
    assert "stored" not in measured({"a": 0.5}, name="another")._repr_html_()


def test_the_package_has_what_the_notebooks_have(tmp_path):
    for path in ROOT.glob("book/*.ipynb"):
        measured_tables.store(path, tmp_path)
    there = {file.name: file.read_text() for file in measured_tables.STORED.glob("*.json")}
    wanted = {file.name: file.read_text() for file in tmp_path.glob("*.json")}
    assert there == wanted, "run: python tools/measured_tables.py book/*.ipynb"


def test_what_is_stored_is_found_by_the_package(tmp_path, monkeypatch):
    (tmp_path / "stored").mkdir()
    path = written(measured({"a": 0.5}, name="t"), tmp_path)
    measured_tables.store(path, tmp_path / "stored")
    monkeypatch.setattr(module.resources, "files", lambda _: tmp_path)
    module.stored.cache_clear()
    assert module.stored() == {"t": {"a": "0.50"}}
    module.stored.cache_clear()
    path.write_text(json.dumps({"cells": []}))
    measured_tables.store(path, tmp_path / "stored")
    assert not list((tmp_path / "stored").glob("*.json"))


NBVAL = ["--nbval", "--nbval-current-env", "-q", "-p", "no:cacheprovider"]
SANITIZE = ["--nbval-sanitize-with", str(ROOT / "tools/nbval.cfg")]
SOURCES = {
    "other-values": 'measured({"a": [0.1, 0.2], "b": 0.3}, low={"b": 0.2})',
    "other-row": 'measured({"a": [0.1, 0.2], "c": 0.3}, low={"c": 0.2})',
    "other-seeds": 'measured({"a": [0.1, 0.2, 0.3], "b": 0.3}, low={"b": 0.2})',
    "broken-bound": 'measured({"a": [0.1, 0.2], "b": 0.1}, low={"b": 0.2})',
}


@pytest.mark.slow
def test_notebook_tests_compare_the_layout_and_not_the_values(tmp_path):
    """One kernel, one cell each: the stored output is that of other numbers."""
    stored = measured({"a": [0.7, 0.8], "b": 0.9}, low={"b": 0.2})
    data = {"text/html": stored._repr_html_(), "text/plain": repr(stored)}
    cells = [new_code_cell("from bookkit.page.measured import measured", execution_count=1)]
    for count, source in enumerate(SOURCES.values(), start=2):
        output = new_output("execute_result", data, execution_count=count)
        cells.append(new_code_cell(source, outputs=[output], execution_count=count))
    path = tmp_path / "tables.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    command = [sys.executable, "-m", "pytest", *NBVAL, *SANITIZE, "-rA", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    failed = re.findall(r"^FAILED .*::Cell (\d)", done.stdout, re.MULTILINE)
    assert failed == ["2", "3", "4"], done.stdout  # cell 1 has other values and no more
    assert "the bound is ≥ 0.2" in done.stdout


def test_the_makefile_runs_the_notebooks_so():
    assert "--nbval-sanitize-with tools/nbval.cfg" in (ROOT / "Makefile").read_text()
