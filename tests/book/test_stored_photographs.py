"""The stored comparison on photographs: of today's script, and what chapter 8 says of it."""

import importlib
import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import torch

from attnbook.losses import parameters
from bookkit.results.stored_run import stored_run

FOUND = stored_run("photographs")
MODELS = FOUND["models"]


@pytest.fixture
def photographs(root, monkeypatch):
    """The script of `results/`."""
    monkeypatch.syspath_prepend(str(root / "results"))
    for name in ("images", "photographs"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("photographs")


@pytest.fixture(scope="module")
def pages(root):
    """Chapter 8 and its page on the hunger, as text."""
    names = ("08-vision-transformers", "08-deeper-hunger")
    read = (nbformat.read(root / f"book/{name}.ipynb", nbformat.NO_CONVERT) for name in names)
    return ["\n".join(cell.source for cell in page.cells) for page in read]


def test_what_is_stored_was_measured_with_the_settings_of_the_script(photographs):
    assert FOUND["config"] == json.loads(json.dumps(photographs.COMMON))
    assert FOUND["provenance"]["command"] == "python results/photographs.py"
    assert FOUND["provenance"]["threads"] == 1
    assert set(MODELS) == set(photographs.MODELS)
    for name, run in MODELS.items():
        with torch.device("meta"):
            assert parameters(photographs.MODELS[name](photographs.COMMON)) == run["parameters"]


def test_each_model_has_five_seeds_at_the_best_of_three_rates_or_more(photographs):
    for run in MODELS.values():
        tried = {float(lr): right for lr, right in run["tried"].items()}
        assert set(photographs.RATES) <= set(tried) <= set(photographs.LADDER)
        assert tried[run["rate"]] == max(tried.values())
        assert min(tried) < run["rate"] < max(tried)  # the best is at no end
        assert len(run["right"]) == len(run["cpu_seconds"]) == len(photographs.SEEDS) == 5
        assert photographs.TUNE not in photographs.SEEDS
        assert all(FOUND["chance"] < right < 1 for right in run["right"])


def test_the_two_networks_are_equally_large():
    assert abs(MODELS["vit"]["parameters"] / MODELS["cnn"]["parameters"] - 1) < 0.02


def test_rates_are_chosen_on_pictures_that_are_neither_trained_on_nor_tested(
    photographs, monkeypatch, tmp_path
):
    asked = []
    monkeypatch.setattr(photographs, "measure", lambda config, _: asked.append(config) or config)
    monkeypatch.setattr(
        photographs.study, "measured", lambda path, config, measure: measure(config, path) | SHOWN
    )
    runs = photographs.Drafts(tmp_path)
    runs.get("vit", 1e-3, photographs.TUNE), runs.get("vit", 1e-3, photographs.SEEDS[0])
    assert [config["asked"] for config in asked] == ["validation", "test"]


SHOWN = {"right": 0.5, "cpu_seconds": 1.0}


def test_rates_go_on_beyond_the_end_until_the_best_is_inside(photographs):
    class Peak:
        def __init__(self, at):
            self.at = at

        def get(self, model, lr, seed):
            return {"right": -abs(lr - self.at)}

    for best, tried in ((3e-3, [1e-3, 3e-3, 1e-2]), (1e-2, [1e-3, 3e-3, 1e-2, 3e-2])):
        assert list(photographs.tuned(Peak(best), "vit")) == tried


def test_the_sentences_that_rank_follow_from_all_five_seeds(pages):
    _, deeper = pages
    cnn, vit, linear = (MODELS[name]["right"] for name in ("cnn", "vit", "linear"))
    assert ("each of the five CNNs is ahead of each of the five transformers" in deeper) == (
        min(cnn) > max(vit)
    )
    assert ("with every seed even the linear map is ahead of the transformer" in deeper) == (
        min(linear) > max(vit)
    )
    ends = sorted((min(runs), max(runs)) for runs in (cnn, vit, linear))
    gaps = [above[0] - below[1] for below, above in pairwise(ends)]
    widest = max(high - low for low, high in ends)
    assert ("The gaps are wider than the seeds are apart" in deeper) == (min(gaps) > widest)


@pytest.mark.slow
def test_a_linear_map_learns_again_what_is_stored_of_it(photographs):
    here = Path(os.environ.get("ATTNBOOK_DATA") or "nowhere")
    if FOUND["data"] != "cifar10-jpeg" or not (here / photographs.images.JPEG.name).exists():
        pytest.skip("the copy of CIFAR-10 that was read is not in ATTNBOOK_DATA")
    run = MODELS["linear"]
    more = {"model": "linear", "lr": run["rate"], "seed": 0, "asked": "test"}
    again = photographs.measure(photographs.COMMON | more, Path("unused"))
    assert again["right"] == pytest.approx(run["right"][0], abs=0.005)
