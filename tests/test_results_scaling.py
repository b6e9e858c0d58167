"""The scaling study: each run says where it comes from, and chapter 12 carries what is stored."""

import json
import math

import nbformat
import numpy as np
import pytest
import torch

from attnbook.train import parameters


@pytest.fixture(scope="module")
def runs(root):
    found = root.glob("results/scaling/*.json")
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(found)}


@pytest.fixture(scope="module")
def cells(root):
    notebook = nbformat.read(root / "book/12-why-it-works.ipynb", nbformat.NO_CONVERT)
    return {cell.id: cell.source for cell in notebook.cells}


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


def carried(cells, *ids):
    """The names that these cells of the chapter define."""
    names = {"np": np}
    for name in ids:
        exec(cells[name], names)
    return names


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


def test_the_chapter_carries_the_losses_of_all_sizes(runs, cells):
    found = {}
    for run in chosen(runs, cell=None, steps=2000, rate=1.0):
        key = run["config"]["width"], run["parameters"], run["all_parameters"]
        found.setdefault(key, []).append(run["validation_loss"])
    lstms = [(run["parameters"], run["validation_loss"]) for run in chosen(runs, cell="lstm")]
    names = carried(cells, "scaling-models", "scaling-lstms", "scaling-lstms-b")
    assert names["models"] == [(*key, losses) for key, losses in found.items()]
    assert names["lstms"] == lstms
    smallest, largest = names["N"][[0, -1]]
    assert f"{smallest:,.0f} to {largest:,.0f} parameters" in cells["scaling"]
    assert f"We trained {len(found)} transformers" in cells["scaling"]
    assert f"widths {names['models'][0][0]} to {names['models'][-1][0]}" in cells["scaling"]


def test_the_chapter_carries_the_other_runs(runs, cells):
    names = carried(cells, "rates")
    plain = chosen(runs, cell=None, steps=2000, seed=0)
    tried = {run["config"]["width"] for run in plain if run["config"]["rate"] != 1}
    rates = {width: {} for width in sorted(tried)}
    for run in sorted(plain, key=lambda run: run["config"]["rate"]):
        if run["config"]["width"] in tried:
            rates[run["config"]["width"]][run["config"]["rate"]] = run["validation_loss"]
    assert names["rates"] == rates
    names = carried(cells, "schedule-data")
    for width in (16, 64):
        own = [
            chosen(runs, cell=None, width=width, steps=steps, rate=1.0, seed=0)[0]
            for steps in names["steps"]
        ]
        assert names["own_schedule"][width] == [run["validation_loss"] for run in own]
        assert names["on_the_way"][width] == [value for _, value in own[-1]["validation"]]


def test_the_gaps_between_training_and_held_out_loss_are_those_stored(runs, cells):
    plain = chosen(runs, cell=None, steps=2000, rate=1.0, seed=0)
    stored = {run["config"]["width"]: run for run in plain}
    for width, gap in carried(cells, "gaps")["gaps"].items():
        run = stored[width]
        assert gap == pytest.approx(run["validation_loss"] - run["training_loss"], abs=0.0051)
    assert f"({plain[0]['passes']:.1f} passes" in cells["scaling"]


def test_exponents_in_the_text_are_those_of_the_fit(cells):
    names = carried(cells, "scaling-models", "scaling-lstms", "scaling-lstms-b", "fit")
    fit, N, L = names["power_law"], names["N"], names["L"]
    (alpha, _, _), (with_floor, _, floor) = fit(N, L, floor=False), fit(N, L)
    assert f"| ours | no floor | {alpha:.3f} |" in cells["fit-says"]
    assert f"| ours | floor {floor:.2f} | {with_floor:.2f} |" in cells["fit-says"]
    assert 3.5 < with_floor / alpha < 4.5  # "four times as large"
    assert abs(alpha - fit(names["N_lstm"], names["L_lstm"], floor=False)[0]) < 0.02
