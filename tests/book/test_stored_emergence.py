"""The stored run of two heads that learn to copy: what the page and the explorable say of it."""

import base64
import json

import pytest
import torch

from bookkit.explore.emergence import CELLS, CURVES, EVERY, FREEZE, STOPS, Emergence, T
from bookkit.results.stored_run import stored_run

SEEDS = range(5)


@pytest.fixture
def study(script):
    return script("results/emergence.py")


@pytest.fixture(scope="module")
def run():
    return stored_run("emergence")


def last(run, case, curve):
    return [run["runs"][f"{case}/{seed}"][curve][-1] for seed in SEEDS]


@pytest.mark.slow
def test_the_beginning_of_a_run_is_made_again(study, run):
    again = study.learn(1, None, 0, 60)  # each step is measured; the same schedule until step 20
    old = run["runs"]["both/0"]
    for name in CURVES:
        assert again[name][0] == pytest.approx(old[name][0], abs=1e-3)
        assert again[name][20] == pytest.approx(old[name][20 // EVERY], abs=5e-3)
    assert study.rows(study.ROW, study.ROW, 1)[0][0, :T].tolist() == run["row"]
    assert study.even() == run["even"]


def test_half_way_is_what_the_curves_say(study, run):
    for heads, key in {"one head": "both", "four heads": "four heads"}.items():
        steps = run["order"][heads]["0.5"]["steps"]
        for name in CURVES:
            curves = [run["runs"][f"{key}/{seed}"][name] for seed in SEEDS]
            assert [study.way(curve, 0.5) for curve in curves] == steps[name]
            for curve, step in zip(curves, steps[name], strict=True):
                n = int(step // EVERY)
                middle = (curve[0] + curve[-1]) / 2
                assert min(curve[n : n + 2]) <= middle <= max(curve[n : n + 2])


def test_the_order_on_the_page_is_that_of_the_runs(root, run):
    page = said(root)
    one, four = (run["order"][heads]["0.5"]["steps"] for heads in ("one head", "four heads"))
    later = [b - f for b, f in zip(one["before"], one["follows"], strict=True)]
    others = [b - f for b, f in zip(four["before"], four["follows"], strict=True)]
    assert "With each seed the head of layer 1 is half-way first" in page
    assert (
        min(later) > 0 and run["order"]["one head"]["0.5"]["apart"]["before − follows"]["low"] > 0
    )
    assert "The order is the same at a quarter and at three quarters of the way." in page
    assert "it is the same at a quarter; half-way the interval contains 0" in page
    for heads, share in [("one head", "0.25"), ("one head", "0.75"), ("four heads", "0.25")]:
        there = run["order"][heads][share]
        assert there["apart"]["before − follows"]["low"] > 0
        if heads == "one head":
            steps = there["steps"]
            assert all(b > f for b, f in zip(steps["before"], steps["follows"], strict=True))
    apart = run["order"]["four heads"]["0.5"]["apart"]["before − follows"]
    assert apart["low"] < 0 < apart["high"] and sum(step < 0 for step in others) == 1


def test_what_freezing_does_on_the_page_is_what_it_did(root, run):
    page, ends = said(root), {name: last(run, name, "loss") for name in FREEZE.values()}
    assert (
        "With the weights of layer 0 frozen, the loss does not fall steeply within 300 steps"
        in page
    )
    assert min(ends["layer 0"]) > 1.5 and max(ends["both"]) < 0.05
    assert run["costs"]["layer 0 − layer 1"]["low"] > 0  # not alike
    assert "a head still forms in layer 0. So the score of layer 1 rises from about 0.1" in page
    assert min(last(run, "layer 1", "before")) > 4 * run["even"]["before"]
    for seed in SEEDS:
        follows = run["runs"][f"layer 1/{seed}"]["follows"]
        assert 0.09 < follows[run["from"] // EVERY] < 0.14 and follows[-1] > 0.25
    assert "How far the loss then falls depends on the seed" in page
    assert max(ends["layer 1"]) > 3 * min(ends["layer 1"])
    assert "layer 0 learns *not* to attend to the token before" in page
    assert max(last(run, "layer 1, start", "before")) < run["even"]["before"] / 10


def said(root):
    cells = json.loads((root / "book/13-looking-inside.ipynb").read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def test_with_more_steps_the_copy_is_learned_with_layer_0_frozen_too(root, run):
    assert "After 1,200 steps it is" in said(root)
    for seed in range(3):
        long = run["runs"][f"long/layer 0/{seed}"]
        assert long["loss"][-1] < 0.05 and long["before"][-1] > 3 * run["even"]["before"]


def test_a_run_with_a_frozen_layer_is_the_same_until_then(run):
    same = sum(step <= run["from"] for step in run["stops"])
    for seed in range(3):
        both = run["runs"][f"both/{seed}"]["frames"]
        for name in ("layer 0", "layer 1"):
            frozen = run["runs"][f"{name}/{seed}"]["frames"]
            assert frozen[:same] == both[:same] and frozen[same] != both[same]


def test_rows_of_the_stored_maps_are_attention(run):
    lower = torch.ones(T, T).tril().bool()
    for text in run["runs"]["both/0"]["frames"]:
        for part in (slice(0, CELLS), slice(CELLS, 2 * CELLS)):
            weights = torch.zeros(T, T)
            weights[lower] = torch.tensor(list(base64.b64decode(text)[part])) / 255
            assert (weights.sum(1) - 1).abs().max() <= T / 510 + 1e-6


def test_the_explorable_has_these_numbers(run):
    thing = Emergence()
    for seed in range(3):
        for freeze, case in FREEZE.items():
            for stop, step in enumerate(STOPS):
                state = thing.start() | {"seed": seed, "freeze": freeze, "stop": stop}
                found = thing.result(state)
                for name, most in CURVES.items():
                    true = run["runs"][f"{case}/{seed}"][name][step // EVERY]
                    assert abs(found[name] - true) <= most / 8190 + 1e-9
                stored = run["runs"][f"{case}/{seed}"]["frames"][run["stops"].index(step)]
                levels = [*found["maps"][0], *found["maps"][1], *found["right"]]
                pairs = zip(base64.b64decode(stored), levels, strict=True)
                assert max(abs(byte / 255 - level) for byte, level in pairs) <= 0.075 + 1e-9
    fixed = thing.fixed()
    steps = run["order"]["one head"]["0.5"]["steps"]
    assert fixed["half"] == [[steps[name][seed] for name in CURVES] for seed in range(3)]
    assert [row[0] for row in fixed["ends"]] == [round(x, 2) for x in last(run, "both", "loss")[:3]]
