"""The measurement on a GPU runs on a CPU in tiny sizes, keeps what it has, and names what fails."""

import importlib
import json

import pytest

from attnbook.decoder_config import DecoderConfig


@pytest.fixture
def script(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "results"))
    monkeypatch.setenv("ATTNBOOK_DEVICE", "cpu")
    return importlib.import_module("on_gpu")


def run(script, monkeypatch, path, *words):
    monkeypatch.setattr("sys.argv", ["results/on_gpu.py", "--small", "--out", str(path), *words])
    script.main()
    return json.loads(path.read_text("utf-8"))


def is_time(ms):
    return len(ms) == 3 and 0 < ms[1] <= ms[0] <= ms[2]


def test_every_kind_of_run_that_is_not_compiled_gives_times(script, monkeypatch, tmp_path):
    names = "copy", "launch", "square", "rows", "attention/t", "attention/flash"
    names = *names, "decode/1.2 billion/growing", "decode/1.2 billion/static"
    names = *names, "decode/124 million/in one call", "check", "read", "train/float32"
    found = run(script, monkeypatch, tmp_path / "found.json", *names)
    runs = found["runs"]
    assert not found["left out"] and found["small"]
    for way in ("table", "torch", "flash"):
        layer = runs[f"attention/{way}/32"]
        assert is_time(layer["forward"]["ms"]) and is_time(layer["both"]["ms"])
    for name, one in runs.items():
        assert "error" not in one, one
        assert name.startswith("attention") or is_time(one["ms"])
    assert {"weights", "caches"} < runs["decode/124 million/in one call/2"].keys()
    assert {"graph", "ms"} < runs["check/1.2 billion/2"].keys() & runs["rows/4"].keys()
    assert {"tokens", "FLOPs of a token"} < runs["train/float32"].keys()


def test_a_run_that_fails_is_named_and_the_others_go_on(script, monkeypatch, tmp_path):
    def broken(self):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(script.Bench, "copy", broken)
    runs = run(script, monkeypatch, tmp_path / "found.json", "copy", "launch")["runs"]
    assert runs["copy"]["error"] == "RuntimeError: no such kernel" and is_time(runs["launch"]["ms"])


def test_what_no_time_is_left_for_is_named(script, monkeypatch, tmp_path):
    found = run(script, monkeypatch, tmp_path / "found.json", "--seconds", "0", "rows")
    assert found["runs"] == {} and found["left out"] == ["rows/1", "rows/4"]


def test_tiny_sizes_and_a_cpu_are_never_stored_as_the_result(script, monkeypatch):
    for words in (["--small"], []):
        monkeypatch.setattr("sys.argv", ["results/on_gpu.py", *words])
        with pytest.raises(SystemExit):
            script.main()


def test_checks_and_static_steps_fit_into_the_room_of_the_cache(script):
    for sizes in (script.FULL, script.TINY):
        assert sizes.past + max(sizes.checked) <= sizes.room


def test_the_models_are_as_large_as_their_names_say(script):
    count = {name: DecoderConfig(**one).parameters for name, one in script.MODELS.items()}
    assert round(count["1.2 billion"] / 1e9, 1) == 1.2
    assert round(count["124 million"] / 1e6) == 124


def test_runs_that_are_measured_again_replace_theirs_and_name_their_commit(
    script, monkeypatch, tmp_path
):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    before = run(script, monkeypatch, first, "copy", "launch", "--commit", "one")
    words = "launch", "--commit", "two", "--onto", str(first)
    found = run(script, monkeypatch, second, *words)
    assert found["runs"]["copy"] == before["runs"]["copy"]
    assert found["runs"]["launch"]["commit"] == "two"
    assert found["provenance"]["commit"] == "one"
    assert [one["provenance"]["commit"] for one in found["measured again"]] == ["two"]
    found["card"] = "another"
    with pytest.raises(ValueError, match="another card"):
        script.onto(before, found)
