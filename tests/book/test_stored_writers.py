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


@pytest.mark.slow
def test_the_table_writes_the_stored_lines_again(study):
    table, stored = study.counted(), stored_run("bracket_writers")["table"]
    assert [study.from_table(table, seed) for seed in study.SEEDS] == stored


def test_networks_of_the_stored_size_wrote_lines_of_the_stored_length(study):
    for name, lessons in study.LESSONS.items():
        assert sum(steps for _, steps in lessons) == 2000
        for wrote in stored_run("bracket_writers")[name]:
            assert wrote["parameters"] == 141_091
            assert [len(line) for line in wrote["lines"]] == [study.LENGTH] * study.SHOWN


def test_short_lessons_first_make_a_writer_that_closes_its_brackets():
    run = stored_run("bracket_writers")
    for wrote in run["LSTM, short lessons first"]:
        assert min(wrote["near"], wrote["far"]) > 0.98 and wrote["brackets"] > 1000
    assert sorted(round(wrote["far"], 1) for wrote in run["LSTM"]) == [0.3, 0.7]
