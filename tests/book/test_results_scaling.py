"""The scaling study: each run says where it comes from, and chapter 12 reads what is stored."""

import json
import math

import pytest
import torch

from attnbook.losses import parameters
from bookkit.results.stored_run import stored_run


@pytest.fixture(scope="module")
def runs(root):
    found = root.glob("results/scaling/*.json")
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(found)}


@pytest.fixture
def scaling(script):
    return script("results/scaling.py")


def chosen(runs, **settings):
    """The runs with these settings, in the order of their width; `cell=None`: transformers."""
    found = [
        run
        for run in runs.values()
        if all(run["config"].get(name) == value for name, value in settings.items())
    ]
    return sorted(found, key=lambda run: (run["config"]["width"], run["config"]["seed"]))


def test_the_plan_was_carried_out(runs, scaling):
    planned = {scaling.named(config): config for config in scaling.plan()}
    assert {name: run["config"] for name, run in runs.items()} == planned


def test_a_run_says_where_it_comes_from(runs, scaling):
    for run in runs.values():
        origin = run["provenance"]
        options = scaling.arguments().parse_args(origin["command"].split()[2:])
        assert run["config"] in scaling.chosen(options)
        assert all(origin[name] for name in ("date", "commit", "processor", "python"))


def test_numbers_of_parameters_are_those_of_the_models(runs, scaling):
    for run in runs.values():
        with torch.device("meta"):
            model = scaling.build(run["config"], run["symbols"])
        assert parameters(model.body) == run["parameters"]
        assert parameters(model) == run["all_parameters"]


def test_a_run_is_in_order(runs):
    """As many characters as said, learning, and the last number is the one quoted."""
    for run in runs.values():
        config = run["config"]
        assert run["characters"] == config["steps"] * config["batch"] * config["T"]
        steps, losses = zip(*run["validation"], strict=True)
        assert steps[-1] == config["steps"] and losses[-1] == run["validation_loss"]
        assert losses[-1] < losses[0] < run["chance"] == round(math.log(run["symbols"]), 4)


def test_sizes_span_almost_three_decades_in_a_dozen_models_or_more(runs):
    sizes = {run["parameters"] for run in chosen(runs, cell=None)}
    assert len(sizes) >= 12 and max(sizes) / min(sizes) > 500


def test_the_grid_is_full_up_to_its_work_and_no_run_is_planned_twice(scaling):
    names = [scaling.named(config) for config in scaling.plan()]
    assert len(names) == len(set(names))
    for width in scaling.GRID_WIDTHS:
        for steps in (*scaling.GRID_STEPS, 2000):
            wanted = scaling.named(scaling.settings(width, steps))
            assert (wanted in names) == (width * steps <= scaling.GRID_WORK), wanted


def test_the_chapter_reads_what_the_runs_found(runs, scaling, root):
    stored = stored_run("scaling")
    assert stored == scaling.collected(root / "results/scaling")
    assert len(stored["runs"]) == len(runs)
    by_name = {scaling.named(config): row for config, row in zip(scaling.plan(), stored["runs"])}  # noqa: B905
    for name, run in runs.items():
        assert by_name[name]["loss"] == run["validation_loss"]
        assert by_name[name]["D"] == run["characters"]


def test_what_the_text_says_of_the_runs(root, runs):
    page = (root / "book/12-why-it-works.ipynb").read_text("utf-8")
    grid = list(chosen(runs, cell=None, rate=1.0, seed=0))
    widths = {run["config"]["width"] for run in grid if run["config"]["steps"] == 125}
    grid = [run for run in grid if run["config"]["width"] in widths]
    sizes = sorted({run["parameters"] for run in grid})
    assert f"{len(grid)} runs, one seed" in page and len(widths) == 9
    assert f"{sizes[0]:,} to {sizes[-1]:,} parameters" in page
    assert round(sizes[-1] / sizes[0]) == 245
