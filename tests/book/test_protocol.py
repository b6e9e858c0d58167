"""A study says beforehand what it asks, and refuses what would make its result a mistake."""

import json
import subprocess

import pytest

from bookkit.results.ledger.records import checkout, records
from bookkit.results.ledger.stale import declared
from bookkit.results.protocol import EndOfGrid, Runs, Study, committed

PARTS = {
    "name": "toy",
    "question": "Is it so?",
    "budget": "10 steps",
    "grid": {"rate": (0.01, 0.1, 1.0)},
    "choosing_seeds": (100, 101),
    "reporting_seeds": range(3),
    "baselines": ("chance",),
    "no_gain": "the interval contains 0",
}


@pytest.mark.parametrize("part", ["name", "question", "budget", "no_gain", "baselines"])
def test_a_study_that_does_not_say_what_it_does_is_refused(part):
    with pytest.raises(ValueError, match=f"does not say its {part}"):
        Study(**PARTS | {part: type(PARTS[part])()})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"choosing_seeds": (2, 3)}, r"seeds \[2\] would choose and be reported"),
        ({"reporting_seeds": ()}, "no seeds to report"),
        ({"choosing_seeds": ()}, "a grid needs seeds that choose"),
        ({"grid": {}}, "a grid needs seeds that choose"),
        ({"grid": {"rate": (0.1, 0.01, 1.0)}}, "three values or more, in order"),
        ({"grid": {"rate": (0.1, 1.0)}}, "three values or more, in order"),
    ],
)
def test_seeds_and_grids_that_do_not_fit_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        Study(**PARTS | change)


def test_the_best_inside_the_grid_is_taken_over_the_choosing_seeds_alone():
    asked = []

    def score(rate, seed):
        asked.append(seed)
        return abs(rate - 0.1)

    best, tried = Study(**PARTS).choose("rate", score)
    assert best == 0.1 and list(tried) == [0.01, 0.1, 1.0] and set(asked) == {100, 101}


def test_a_best_setting_at_the_end_makes_the_grid_grow():
    study = Study(**PARTS)
    assert study.choose("rate", lambda rate, _: abs(rate - 8))[0] == 10.0
    assert study.choose("rate", lambda rate, _: -abs(rate - 0.001), higher=True)[0] == 0.001


def test_a_grid_that_never_ends_has_no_best_setting():
    with pytest.raises(EndOfGrid, match=r"toy: the best rate, 100, is an end of .* has to grow"):
        Study(**PARTS).choose("rate", lambda rate, _: -rate, grow=2)


def test_a_run_that_broke_is_the_worst():
    broke = {0.01: 2.0, 0.1: 1.0, 1.0: float("nan")}
    assert Study(**PARTS).choose("rate", lambda rate, _: broke[rate])[0] == 0.1


def test_where_nothing_beats_the_baseline_nothing_is_chosen():
    best, _ = Study(**PARTS).choose("rate", lambda rate, _: 2 - rate / 1e6, grow=1, baseline=1.0)
    assert best == 0.1  # inside the declared grid


def test_only_declared_seeds_are_reported():
    study = Study(**PARTS)
    assert study.report(lambda seed: seed * 2) == [0, 2, 4]
    with pytest.raises(ValueError, match=r"\[100\] chose the setting"):
        study.report(str, (0, 100))
    with pytest.raises(ValueError, match=r"\[7\] were not declared"):
        study.report(str, (0, 7))


def test_a_run_that_is_there_is_not_measured_again(tmp_path):
    draft = tmp_path / "toy.draft"

    def write(path, found):
        path.write_text(json.dumps(found))

    assert Runs(draft, write).get("a", lambda: 1) == 1
    assert Runs(draft, write).get("a", lambda: 2) == 1


def git(folder, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def test_a_script_that_is_not_committed_does_not_run(tmp_path):
    script = tmp_path / "toy.py"
    script.write_text("STUDY = 1\n")
    git(tmp_path, "init", "-q")
    with pytest.raises(RuntimeError, match=r"commit toy\.py first"):
        committed(script)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "declared")
    content = committed(script)
    git(tmp_path, "commit", "-q", "--amend", "-m", "declared, said better")
    assert committed(script) == content  # where the commit's own name would be gone
    shown = subprocess.run(["git", "cat-file", "-p", content], cwd=tmp_path, capture_output=True)
    assert shown.stdout == b"STUDY = 1\n"
    script.write_text("STUDY = 2\n")
    with pytest.raises(RuntimeError, match=r"commit toy\.py first"):
        committed(script)


def test_every_declared_study_of_the_book_was_committed_before_its_result(root):
    found = {record.name: declared(checkout(root), record) for record in records(root)}
    assert False not in found.values(), [name for name, value in found.items() if value is False]
    studies = [
        path
        for path in (root / "src/bookkit/runs").glob("*.json")
        if "study" in json.loads(path.read_text("utf-8"))
    ]
    assert studies
    for path in studies:
        study = json.loads(path.read_text("utf-8"))["study"]
        assert not set(study["choosing_seeds"]) & set(study["reporting_seeds"]), path
        assert study["no_gain"] and study["baselines"] and study["budget"], path
