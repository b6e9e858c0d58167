"""The stored lines of chapter 1: judged as the script judges, and the table writes them again."""

import importlib

import pytest

from bookkit.results.stored_run import stored_run


@pytest.fixture
def study(root, monkeypatch):
    """The script of results/ that made the lines."""
    monkeypatch.syspath_prepend(str(root / "results"))
    return importlib.import_module("bracket_writers")


def test_a_bracket_fits_the_one_that_is_open(study):
    assert study.closings("a (b) [c> d) {e}") == [(2, True), (2, False), (2, True)]


def test_the_table_writes_the_stored_lines_again(study):
    assert study.from_table(study.counted(), 0) == stored_run("bracket_writers")["table"][0]


def test_a_network_of_the_stored_size_wrote_lines_of_the_stored_length(study):
    (wrote,) = stored_run("bracket_writers")["LSTM"]
    assert wrote["parameters"] == 141_091
    assert [len(line) for line in wrote["lines"]] == [study.LENGTH] * study.SHOWN
