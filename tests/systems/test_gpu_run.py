"""What `make gpu` runs, in small and on the CPU."""

import json
import math
from types import SimpleNamespace

import pytest
import torch

from attnbook import device
from attnbook.data import text

SMALL = {"width": 32, "depth": 1, "heads": 2, "T": 128, "batch": 4, "warmup": 0.05}


@pytest.fixture
def gpu(script, monkeypatch):
    program = script("results/gpu.py")
    monkeypatch.setattr(program, "GPU", SMALL)
    monkeypatch.setattr(program.speedrun, "CONFIG", SMALL)
    monkeypatch.setattr(program, "TEXT", "python-docs")  # embedded: nothing is downloaded
    return program


@pytest.mark.slow
def test_every_rung_is_run_stored_and_not_run_again(gpu, tmp_path, monkeypatch):
    here = device.choose()
    options = SimpleNamespace(out=tmp_path, steps=20, seeds=[0])
    gpu.climb(options, here)
    files = sorted(tmp_path.glob("*.json"))
    stored = [json.loads(path.read_text()) for path in files]
    assert [each["rung"] for each in stored] == [n for n in gpu.speedrun.LADDER if n != "16 bits"]
    runs = [each["runs"][0] for each in stored]
    assert all(run["seconds"] > 0 and len(run["curve"]) >= 5 for run in runs)
    assert all(run["validation_loss"] < math.log(len(text.load().characters)) for run in runs)
    sizes = [run["parameters"] for run in runs]
    assert max(sizes) < 1.02 * min(sizes)
    monkeypatch.setattr(gpu, "measure", lambda *_: pytest.fail("was there already"))
    gpu.climb(options, here)
    assert len(gpu.table(tmp_path).splitlines()) == 1 + len(files)


def test_a_file_of_other_settings_is_kept(gpu, tmp_path):
    path = tmp_path / "00-nanogpt-recipe.json"
    path.write_text(json.dumps({"rung": "nanoGPT's recipe", "config": {}, "runs": []}))
    with pytest.raises(SystemExit, match="move it away"):
        gpu.climb(SimpleNamespace(out=tmp_path, steps=20, seeds=[0]), device.choose())
    assert json.loads(path.read_text())["config"] == {}


def test_the_clock_stands_still_while_a_model_is_evaluated(gpu):
    clock = gpu.Clock(SimpleNamespace(device=torch.device("cpu")))
    times = iter([1.0, 6.0, 7.0])
    clock.now, clock.began, clock.spent = lambda: next(times), 0.0, 0.0
    assert clock.stopped(lambda model: 3.0, None) == 3.0
    assert clock.seconds() == 2.0


def test_its_setting_is_nanogpts(script):
    setting = script("results/shakespeare.py").SETTINGS["gpu"]
    program = script("results/gpu.py")
    assert all(program.GPU[name] == setting[name] for name in ("width", "depth", "heads", "T"))
    assert program.GPU["batch"] == setting["batch"] and program.STEPS * 8 == setting["steps"]
