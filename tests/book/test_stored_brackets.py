"""The stored runs of chapter 1: complete, summed up as they are, and repeatable."""

import importlib
import json

import pytest

from attnbook.train.loop import train
from bookkit.results.stored_run import stored_run


@pytest.fixture
def study(root, monkeypatch):
    """The script of results/ that made the runs."""
    monkeypatch.syspath_prepend(str(root / "results"))
    return importlib.import_module("brackets")


@pytest.fixture
def found():
    return stored_run("brackets")


def test_what_the_chapter_shows_follows_from_the_single_runs(study, found):
    again = json.loads(json.dumps(study.summary(found["runs"])))
    assert {name: found[name] for name in again} == again


def test_every_run_was_made_and_no_other(study, found):
    runs = {
        f"{task}/{name}/{rate}/{study.TUNED_WITH}"
        for task, name in study.WORK
        for rate in study.RATES
    }
    runs |= {
        f"{task}/{name}/{found['rates'][task][name]}/{seed}"
        for task, name in study.WORK
        for seed in study.SEEDS
    }
    assert set(found["runs"]) == runs
    assert found["provenance"]["command"] == "python results/brackets.py"


def test_the_networks_are_as_large_as_each_other(found):
    sizes = found["parameters"].values()
    assert max(sizes) < 1.02 * min(sizes)


def test_a_run_is_repeated_in_its_first_steps(study, found, monkeypatch):
    """100 steps of the open LSTM on the far text; the schedule is that of all 250."""
    name, first = "LSTM, gates open", {"steps": 100}
    monkeypatch.setattr(study, "train", lambda *given, **plan: train(*given, **plan | first))
    _, (steps, shares) = study.trained("far", name, found["rates"]["far"][name], seed=0)
    stored_steps, stored_shares = found["curves"]["far"][name][0]
    assert list(steps) == stored_steps[:4] == [25, 50, 75, 100]
    assert abs(float(shares[-1]) - stored_shares[3]) < 0.05
