"""A study measures each run once, resumes it, and never replaces one by another."""

import argparse
import json

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook import device
from attnbook.losses import token_loss
from attnbook.train.run import History
from bookkit.results import study

CONFIG = {"width": 3, "lr": 0.1}


@pytest.fixture
def measure():
    """Counts its calls and leaves a checkpoint; `measure.fails` stops it half way."""

    def run(config, checkpoint):
        run.calls += 1
        checkpoint.write_text("half")
        if run.fails:
            raise SystemExit("stopped")
        return {"config": config, "loss": 1.5}

    run.calls, run.fails = 0, False
    return run


def test_a_run_is_measured_once_and_its_checkpoint_goes(tmp_path, measure):
    path = tmp_path / "new" / "run.json"
    for _ in range(2):
        assert study.measured(path, CONFIG, measure) == {"config": CONFIG, "loss": 1.5}
    assert measure.calls == 1 and list(path.parent.iterdir()) == [path]
    assert json.loads(path.read_text()) == {"config": CONFIG, "loss": 1.5}


def test_an_interrupted_run_keeps_its_checkpoint_and_stores_nothing(tmp_path, measure):
    path, measure.fails = tmp_path / "run.json", True
    with pytest.raises(SystemExit):
        study.measured(path, CONFIG, measure)
    assert [file.name for file in tmp_path.iterdir()] == ["run.checkpoint"]
    measure.fails = False
    study.measured(path, CONFIG, measure)
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_with_other_settings_is_not_replaced(tmp_path, measure):
    path = tmp_path / "run.json"
    study.measured(path, CONFIG, measure)
    before = path.read_bytes()
    for other in (CONFIG | {"lr": 0.2}, {"width": 3}):
        with pytest.raises(ValueError, match=r"run\.json holds a run with another lr; move it"):
            study.measured(path, other, measure)
    assert path.read_bytes() == before and measure.calls == 1


def test_a_program_says_what_is_refused_as_an_error_of_its_arguments(tmp_path, measure, capsys):
    path, parser = tmp_path / "run.json", argparse.ArgumentParser("study")
    assert study.run_or_explain(parser, path, CONFIG, measure)["loss"] == 1.5
    with pytest.raises(SystemExit):
        study.run_or_explain(parser, path, CONFIG | {"lr": 0.2}, measure)
    assert "study: error" in capsys.readouterr().err


def test_settings_that_were_not_given_change_nothing():
    options = argparse.Namespace(lr=0.3, steps=None, seed=1)
    assert study.changes(options, ("lr", "steps")) == {"lr": 0.3}


def test_only_a_run_that_went_to_its_end_is_complete():
    assert study.complete(History([1.0])).steps == 1
    with pytest.raises(SystemExit, match="stopped after 1 steps; run again to go on"):
        study.complete(History([1.0], interrupted=True))


def test_matrices_decay_and_vectors_do_not():
    model = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))
    optimizer = study.adamw(model, {"lr": 0.1, "betas": [0.9, 0.99], "weight_decay": 0.5})
    matrices, vectors = optimizer.param_groups
    assert [tuple(weight.shape) for weight in matrices["params"]] == [(5, 3)]
    assert len(vectors["params"]) == 3
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.5, 0.0)
    assert matrices["betas"] == (0.9, 0.99) and matrices["lr"] == 0.1


def test_the_held_out_loss_is_the_mean_over_all_windows_in_unequal_parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7))
    windows = torch.randint(7, (5, 3)), torch.randint(7, (5, 3))
    here = device.Here(torch.device("cpu"), torch.float32, "cpu")
    loss = study.held_out_loss(model, windows, here, B=2)
    assert_close(torch.tensor(loss), token_loss(model(windows[0]), windows[1]).detach())
