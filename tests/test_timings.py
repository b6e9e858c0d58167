"""What takes longer than it did is said, whatever the speed of the machine."""

import json
import subprocess
import sys

import pytest

KEPT = {"a.py": 10.0, "b.py": 20.0, "c.py": 30.0, "d.ipynb": 40.0, "short.py": 0.5}


@pytest.fixture(scope="module")
def timings(script):
    return script("tools/timings.py")


def test_what_takes_twice_as_long_is_named(timings):
    (line,) = timings.slower(KEPT | {"b.py": 40.0}, KEPT)
    assert "b.py 40 s, kept 20 s" in line


def test_a_machine_that_is_three_times_as_slow_is_no_warning(timings):
    assert not timings.slower({name: 3 * seconds for name, seconds in KEPT.items()}, KEPT)
    (line,) = timings.slower({n: s * (6 if n == "d.ipynb" else 3) for n, s in KEPT.items()}, KEPT)
    assert "d.ipynb" in line and "× 3.00" in line


def test_short_and_new_files_are_no_warning(timings):
    assert not timings.slower(KEPT | {"short.py": 2.0, "new.py": 90.0}, KEPT)


def test_a_run_is_stored_compared_and_kept(timings, tmp_path, monkeypatch):
    monkeypatch.setattr(timings, "NEW", tmp_path / "times")
    monkeypatch.setattr(timings, "KEPT", tmp_path / "times.json")
    monkeypatch.setattr(timings, "ROOT", tmp_path)
    (tmp_path / "a.py").touch()
    assert not timings.compared("unit", {"a.py": 10.0, "gone.py": 9.0})
    timings.keep()
    assert json.loads((tmp_path / "times.json").read_text())["stages"] == {"unit": {"a.py": 10.0}}
    assert len(timings.compared("unit", {"a.py": 20.0})) == 1
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert timings.compared("unit", {"a.py": 20.0})[1].startswith("::warning::slower by half")


def test_pytest_tells_the_seconds_of_each_file(root, tmp_path):
    (tmp_path / "test_it.py").write_text("import time\n\ndef test_it(): time.sleep(0.2)\n")
    code = f"import timings, pathlib, pytest; timings.NEW = pathlib.Path({str(tmp_path)!r}); "
    code += (
        f"pytest.main(['-q', '-p', 'timings', {str(tmp_path)!r}, '--rootdir', {str(tmp_path)!r}])"
    )
    environment = {
        "ATTNBOOK_STAGE": "try",
        "PYTHONPATH": str(root / "tools"),
        "PATH": "/usr/bin:/bin",
    }
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
    assert json.loads((tmp_path / "try.json").read_text())["test_it.py"] >= 0.2


def test_each_stage_of_make_keeps_its_times(root):
    makefile = (root / "Makefile").read_text()
    assert makefile.count("-p timings") == 2 and makefile.count("$(PYTEST)") == 3
