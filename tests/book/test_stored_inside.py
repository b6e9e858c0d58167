"""The stored runs of chapter 13: all there, and those that take a second are made again."""

import importlib

import pytest

from bookkit.explore.inside import STORY
from bookkit.results.stored_run import stored_run


@pytest.fixture
def study(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "results"))
    return importlib.import_module("inside")


def test_every_run_is_there(study):
    assert set(stored_run("inside")["runs"]) == {key for key, _ in study.work()}


def test_the_story_is_made_again_and_is_cut_as_the_tokenizer_cuts_it(study):
    found, again = stored_run("inside")["runs"]["story"], study.story()
    assert again["tokens"] == found["tokens"] and "".join(found["tokens"]) == STORY
    assert again["sum"] == pytest.approx(found["sum"], abs=0.02)
    for name, run in found["runs"].items():
        for old, new in zip(run["right"], again["runs"][name]["right"], strict=True):
            assert old == pytest.approx(new, abs=0.01)


@pytest.mark.slow
def test_one_path_is_cut_again_and_only_the_keys_need_the_notes(study):
    runs = stored_run("inside")["runs"]
    again = study.path(0)
    assert all(again[name] == pytest.approx(runs["path/0"][name], abs=0.1) for name in again)
    for seed in study.SEEDS:
        queries, keys, values = runs[f"path/{seed}"]["five"]
        assert keys > 6 and max(abs(queries), abs(values)) < 0.3
        assert max(map(abs, runs[f"path/{seed}"]["others"])) < 0.3


def test_the_lens_is_the_model_itself_at_the_end(study):
    runs = stored_run("inside")["runs"]
    assert runs["lens/plain/4"]["kl"] == pytest.approx(0, abs=1e-3)
    assert runs["lens/plain/4"]["same"] > 0.99
    plain = [runs[f"lens/plain/{n}"]["nats"] for n in range(5)]
    assert plain == sorted(plain, reverse=True)
