"""Stored runs say where they come from, which are stale is found out, and one is made again."""

import json
import subprocess

import pytest

from bookkit import __main__ as cli
from bookkit.results.ledger.compare import compare
from bookkit.results.ledger.records import checkout, named, records
from bookkit.results.ledger.rerun import rerun
from bookkit.results.ledger.stale import changed, code, dependencies, settings, stale, text_of

SCRIPT = """
import json, pathlib
from attnbook_toy import part
store = pathlib.Path("src/bookkit/runs/one.json")
assert not store.exists() or "runs again" in store.read_text()
store.write_text(json.dumps({"loss": part.LOSS, "word": "same", "provenance": {}}))
"""
ORIGIN = {
    "command": "python results/one.py", "date": "2026-01-02T03:04+00:00", "commit": "0000000-dirty",
    "device": "cpu", "processor": "any", "threads": 1, "python": "3.11.0", "versions": {},
}  # fmt: skip


@pytest.fixture
def toy(tmp_path):
    """A checkout with one script, one file that it imports, and one stored run."""
    root = tmp_path / "clone"
    for folder in ("src/bookkit/runs", "results", "src/attnbook_toy"):
        (root / folder).mkdir(parents=True)
    (root / "results/one.py").write_text(SCRIPT)
    (root / "src/attnbook_toy/__init__.py").write_text("")
    (root / "src/attnbook_toy/part.py").write_text("LOSS = 1.5\n")
    keep(root, {"loss": 1.5, "word": "same", "provenance": ORIGIN})
    git(root, "init", "-q")
    commit(root)
    return root


def git(root, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *names, *words], cwd=root, check=True, capture_output=True)


def commit(root):
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "state")


def keep(root, result):
    (root / "src/bookkit/runs/one.json").write_text(json.dumps(result))


def test_every_stored_run_of_the_book_says_where_it_comes_from(root):
    found = {record.name: record for record in records(root)}
    assert {"heads", "four_heads", "open_models", "characters/python-docs"} <= set(found)
    assert all((root / record.script).is_file() for record in found.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: run.pop("provenance"), "needs a `provenance`"),
        (lambda run: run["provenance"].pop("commit"), "lacks commit"),
        (lambda run: run["provenance"].update(threads="1"), "lacks threads"),
        (lambda run: run["provenance"].update(command="python gone.py"), "no script of here"),
        (lambda run: run.update(loss=float("nan")), "not finite at loss"),
    ],
)
def test_what_a_stored_run_lacks_is_named_with_its_file(toy, change, said):
    run = json.loads((toy / "src/bookkit/runs/one.json").read_text())
    change(run)
    keep(toy, run)
    with pytest.raises(ValueError, match=r"src/bookkit/runs/one\.json.*" + said):
        records(toy)


def test_runs_that_say_it_one_by_one_are_as_old_as_the_latest(toy):
    runs = {str(day): {"provenance": ORIGIN | {"date": f"2026-01-0{day}"}} for day in (1, 3, 2)}
    keep(toy, {"runs": runs})
    assert named(toy, "one").date.day == 3


def test_what_a_script_depends_on_is_found_through_imports_of_imports(root):
    found = {str(path) for path in dependencies(root, named(root, "heads").script)}
    assert {
        "results/heads.py",
        "src/attnbook/attention.py",
        "src/bookkit/experiments/seating.py",
    } <= found
    assert "src/attnbook/masks.py" in found  # imported by attention, not by the script
    assert "src/attnlabs/check.py" not in found


@pytest.fixture
def record(toy, monkeypatch):
    monkeypatch.setattr("bookkit.results.ledger.stale.PACKAGES", {"attnbook_toy"})
    return named(toy, "one")


def nothing_is_remembered():
    text_of.cache_clear()
    code.cache_clear()


def test_code_changes_by_what_it_says_and_not_by_its_words(toy, record):
    part = toy / "src/attnbook_toy/part.py"
    assert [*changed(toy, record)] == []
    nothing_is_remembered()
    part.write_text('"""What it is."""\n\nLOSS = 1.5  # nats\n')
    commit(toy)
    assert [*changed(toy, record)] == []
    (toy / "src/attnbook_toy/other.py").write_text("LOSS = 2.5\n")
    (toy / "results/one.py").write_text(SCRIPT + "store\n")
    commit(toy)
    nothing_is_remembered()
    assert [str(path) for path in changed(toy, record)] == ["results/one.py"]
    assert stale(toy, record) == []


SETTINGS = """
STEPS, RATES = 40, (0.1, 0.3)
BASE: dict[str, object] = {"lr": 1e-3}
BASE |= {"bits": 32}
STORE = Path("runs") / "one.json"
def loss(): return WIDTH
lower = 7
"""


@pytest.mark.parametrize(
    ("old", "new", "others"),
    [
        ("40, (", "80, (", ["STEPS"]),
        ("0.3)", "0.3, 1.0)", ["RATES"]),
        ('"bits": 32', '"bits": 16', ["BASE"]),
        ('{"lr": 1e-3}\nBASE |= {"bits": 32}', '{"bits": 32, "lr": 0.001}', []),
        ("STEPS, RATES = 40, (0.1, 0.3)", "STEPS = 40\nRATES = [0.1, 0.3]", []),
        ('"runs"', '"kept"', []),
        ("lower = 7", "lower = 8", []),
        ("WIDTH", "width()", []),
        ("STEPS, ", "TURNS, ", []),
    ],
)
def test_a_run_is_stale_when_a_setting_is_another(toy, record, old, new, others):
    assert old in SETTINGS
    (toy / "results/beside.py").write_text(SETTINGS)
    (toy / "results/one.py").write_text("from beside import RATES\n" + SETTINGS + SCRIPT)
    keep(toy, {"loss": 1.5, "word": "same again", "provenance": ORIGIN})
    commit(toy)
    assert stale(toy, record) == []
    nothing_is_remembered()
    (toy / "results/one.py").write_text(SETTINGS.replace(old, new) + SCRIPT)
    assert stale(toy, record) == [f"results/one.py: {name}" for name in others]


def test_of_a_script_beside_it_what_a_study_names_is_its_own(toy, record):
    (toy / "results/beside.py").write_text(SETTINGS)
    (toy / "results/one.py").write_text("from beside import RATES\n" + SCRIPT)
    keep(toy, {"loss": 1.5, "word": "same again", "provenance": ORIGIN})
    commit(toy)
    other = SETTINGS.replace("40, (0.1", "80, (0.2")
    (toy / "results/beside.py").write_text(other)
    assert stale(toy, record) == ["results/beside.py: RATES"]


def test_a_file_that_is_gone_has_no_settings():
    assert settings("") == {}


def test_where_the_history_is_not_there_it_cannot_be_told(toy, record):
    (toy / ".git").rename(toy / "git")
    assert stale(toy, record) is None and [*changed(toy, record)] == []


def test_a_run_is_made_again_elsewhere_and_compared(toy, tmp_path):
    before = (toy / "src/bookkit/runs/one.json").read_text()
    found = rerun(toy, named(toy, "one"), tmp_path / "again")
    assert (found.equal, found.numbers, found.words, found.lost) == (2, [], [], [])
    assert (toy / "src/bookkit/runs/one.json").read_text() == before
    (toy / "src/attnbook_toy/part.py").write_text("LOSS = 1.2\n")
    other = rerun(toy, named(toy, "one"), tmp_path / "other")
    assert other.numbers == [("loss", 1.5, 1.2)] and "1.5 → 1.2 (20 %)" in str(other)


def test_a_run_that_fails_or_stores_nothing_is_said_and_a_folder_of_another_is_kept(toy, tmp_path):
    (toy / "src/attnbook_toy/part.py").write_text("LOSS = undefined\n")
    with pytest.raises(RuntimeError, match="ended with status 1"):
        rerun(toy, named(toy, "one"), tmp_path / "failed")
    (toy / "results/one.py").write_text("")
    with pytest.raises(RuntimeError, match="stored no src"):
        rerun(toy, named(toy, "one"), tmp_path / "nothing")
    (tmp_path / "nothing/.begun").write_text("two")
    with pytest.raises(ValueError, match="holds two, not one"):
        rerun(toy, named(toy, "one"), tmp_path / "nothing")


def test_a_difference_is_named_by_its_place_the_largest_first():
    old = {"a": [1.0, 2.0], "b": "x", "c": 1, "provenance": {"date": "1"}, "seconds": 3}
    new = {"a": [1.0, 2.5], "b": "y", "d": 1, "provenance": {"date": "2"}, "seconds": 4}
    found = compare(old, new)
    assert found.equal == 1 and found.numbers == [("a.1", 2.0, 2.5)]
    assert (found.words, found.lost, found.new) == (["b"], ["c"], ["d"])


def test_the_shell_lists_them_and_says_why(toy, monkeypatch, capsys):
    monkeypatch.chdir(toy / "results")
    assert cli.main(["results", "--why"]) in (0, None)
    said = capsys.readouterr().out
    assert "one  2026-01-02  as its code" in said and "1 stored runs: 1 as its code" in said
    assert cli.main(["results", "two"]) == 1 and "'two' in its name" in capsys.readouterr().err
    assert cli.main(["rerun", "two"]) == 1 and "there are one" in capsys.readouterr().err
    monkeypatch.chdir(toy.parent)
    assert cli.main(["results"]) == 1 and "in no clone" in capsys.readouterr().err
    with pytest.raises(ValueError, match="in no clone"):
        checkout(toy.parent)
