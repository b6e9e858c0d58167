"""Stored runs for chapters: found by name, made by the script that they name, and repeatable."""

import importlib
import math
import re

import pytest

from bookkit.results.stored_run import stored_run


@pytest.fixture
def made_by(root, monkeypatch):
    """`made_by("blocks")` is that script of results/."""
    monkeypatch.syspath_prepend(str(root / "results"))
    return importlib.import_module


@pytest.fixture
def blocks(made_by):
    """The script that made the runs of chapter 6."""
    return made_by("blocks")


def test_an_unknown_run_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"'block'; there are .*blocks"):
        stored_run("block")


def test_what_the_chapter_shows_follows_from_the_single_runs(blocks):
    found = stored_run("blocks")
    again = blocks.summary(found["runs"])
    for name in ("ablation", "depth", "rates"):
        as_stored = {str(k): v for k, v in again[name].items()}
        as_stored = {k: {str(a): b for a, b in v.items()} for k, v in as_stored.items()}
        assert found[name] == as_stored
    assert found["parameters"] == again["parameters"]


def test_every_run_was_made(blocks):
    assert set(stored_run("blocks")["runs"]) == {key for key, _ in blocks.work()}
    assert stored_run("blocks")["provenance"]["command"] == "python results/blocks.py"


def test_a_run_of_the_ablation_is_repeated(blocks):
    found = stored_run("blocks")["runs"]["ablation/post-norm/2/0"]
    assert math.isclose(blocks.ablation("post-norm", 2, 0), found, abs_tol=0.05)


def test_the_models_of_the_depth_study_are_as_large_as_each_other():
    sizes = stored_run("blocks")["parameters"].values()
    assert max(sizes) < 1.1 * min(sizes)


@pytest.fixture
def schemes(made_by):
    """The script that made the runs of chapter 4."""
    return made_by("positions")


def test_what_chapter_4_shows_follows_from_the_single_runs(schemes):
    found = stored_run("positions")
    again = schemes.summary(found["runs"])
    assert {name: found[name] for name in again} == again
    assert set(found["runs"]) == {key for key, _ in schemes.work(found["runs"])}
    assert found["provenance"]["command"] == "python results/positions.py"


def test_each_scheme_was_run_with_five_seeds_at_its_best_rate(schemes):
    found = stored_run("positions")
    for task in schemes.TASKS:
        assert set(found["right"][task]) == set(schemes.SCHEMES)
        assert all(len(runs) == 5 for runs in found["right"][task].values())
    shares = [
        n for by in found["right"].values() for runs in by.values() for run in runs for n in run
    ]
    assert all(0 <= share <= 1 for share in shares)


@pytest.mark.weekly
def test_a_run_of_the_schemes_is_repeated(schemes):
    found = stored_run("positions")["runs"]["grid/rotary by row and column/0.003/0"]
    assert schemes.grid_run("rotary by row and column", 0.003, 0) == pytest.approx(found, abs=0.1)


@pytest.fixture
def recurrence(made_by):
    """The script that made the runs of chapter 15."""
    return made_by("recurrence")


def test_each_memory_was_run_with_five_seeds_at_the_best_of_three_rates(recurrence):
    found = stored_run("recurrence")
    groups = {f"{study}/{name}": rates for study, name, _, rates in recurrence.groups()}
    assert set(found["compared"]) == set(groups)
    for key, one in found["compared"].items():
        assert list(one["tried"]) == [str(rate) for rate in groups[key]]
        rank = {rate: recurrence.judged(key, run) for rate, run in one["tried"].items()}
        assert rank[str(one["rate"])] == max(rank.values()) and len(one["seeds"]) == 5
    assert found["provenance"]["command"] == "python results/recurrence.py"


@pytest.mark.weekly
def test_a_run_of_a_memory_is_repeated(recurrence):
    found = stored_run("recurrence")["compared"]["recall/once/linear, unit keys"]
    again = recurrence.at_recall("once", "linear, unit keys", 16, found["rate"], 0)
    assert again == pytest.approx(found["seeds"][0], abs=0.15)


def test_each_stack_was_run_with_five_seeds_at_the_best_of_three_rates(made_by):
    hybrids, found = made_by("hybrids"), stored_run("hybrids")
    assert set(found["compared"]) == {key for key, _ in hybrids.groups()}
    for one in found["compared"].values():
        assert list(one["tried"]) == [str(rate) for rate in hybrids.RATES]
        score = {r: run.get("right", -run.get("nats 128", 0)) for r, run in one["tried"].items()}
        assert score[str(one["rate"])] == max(score.values()) and len(one["seeds"]) == 5
    sizes = [found["compared"][f"text/{k}"]["seeds"][0]["parameters"] for k in hybrids.TEXT]
    assert max(sizes) < 1.01 * min(sizes)


def test_ppo_had_as_many_answers_as_grpo_and_the_best_of_three_rates(made_by):
    rlhf, found = made_by("rlhf"), stored_run("rlhf")["compared"]
    assert rlhf.DRAWS * 256 == 60 * 16 * 16
    tried = {rate: run["sampled"] for rate, run in found["PPO"]["tried"].items()}
    assert list(tried) == [str(rate) for rate in rlhf.RATES]
    assert tried[str(found["PPO"]["rate"])] == max(tried.values())
    assert all(len(found[way]["seeds"]) == 5 for way in ("before", *rlhf.WAYS))


@pytest.fixture
def after(root, monkeypatch):
    """The script of results/ that made the runs of chapter 16."""
    monkeypatch.syspath_prepend(str(root / "results"))
    return importlib.import_module("after")


def test_each_way_after_pre_training_was_run_at_the_best_of_its_rates(after):
    found = stored_run("after")
    assert found["provenance"]["command"] == "python results/after.py"
    for way, rates in after.ways():
        one = found["compared"][way]
        assert len(one["seeds"]) == 5
        if way in after.BORROWED:
            assert one["rate"] == found["compared"][after.BORROWED[way]]["rate"]
        else:
            assert list(one["tried"]) == [str(rate) for rate in rates]
            scores = {rate: tried["score"] for rate, tried in one["tried"].items()}
            assert scores[str(one["rate"])] == max(scores.values())


def test_the_model_before_its_tuning_answers_again_as_stored(after):
    found = stored_run("after")["compared"]["answers/before"]["seeds"][0]
    again = after.answered(after.load())
    assert again == pytest.approx(found, abs=0.02)


def test_your_run_names_the_stored_runs_of_each_chapter(root):
    page = (root / "book/your-run.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| (`.*`) \|$", page, re.M))
    used: dict[str, set[str]] = {}
    for path in (root / "book").glob("[01]*.ipynb"):
        names = set(re.findall(r"stored_run\(\s*\\\"(\w+)\\\"", path.read_text("utf-8")))
        used.setdefault(str(int(path.name[:2])), set()).update(names)
    assert {chapter: set(re.findall(r"`(\w+)`", row)) for chapter, row in rows.items()} == {
        chapter: names for chapter, names in used.items() if names
    }
