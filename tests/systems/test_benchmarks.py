"""The benchmarks compare equals; and a block of ours costs no more than torch's layer."""

import json
import sys

import pytest
import torch

from attnbook.block import PostNorm, PreNorm


@pytest.fixture
def load(script):
    return lambda name: script(f"benchmarks/{name}.py")


def test_the_ratio_is_the_firsts_time_over_the_others(load, monkeypatch):
    timing = load("timing")
    clock = iter(range(10**6))
    monkeypatch.setattr(timing.time, "process_time", lambda: next(clock))

    def wait(ticks):
        return lambda: [next(clock) for _ in range(ticks)]

    found = timing.compare({"ours": wait(5), "equal": wait(5), "slow": wait(11)}, 0, least=3)
    assert found["rounds"] == 3 and found["ours"] == {"median": 6e3, "least": 6e3}
    assert found["equal"]["ratio"] == 1 and found["slow"]["ratio"] == 0.5
    assert found["slow"]["quartiles"] == [0.5, 0.5]


@pytest.mark.parametrize("way", [PreNorm, PostNorm])
@pytest.mark.parametrize("causal", [False, True])
def test_what_is_compared_is_equal_or_nothing_is_measured(way, causal, load, monkeypatch):
    block = load("block")
    found = block.measure(way, causal, B=2, T=3, width=8, heads=2, budget=0)
    assert ("torch, is_causal" in found) == causal and found["torch"]["ratio"] > 0
    both = block.both

    def different(*sizes):
        ours, theirs = both(*sizes)
        torch.nn.init.zeros_(theirs.linear2.weight)
        return ours, theirs

    monkeypatch.setattr(block, "both", different)
    with pytest.raises(AssertionError, match="not close"):
        block.measure(way, causal, B=2, T=3, width=8, heads=2, budget=0)


def test_written_out_attention_keeps_its_weights_and_the_fused_kernel_does_not(load):
    attention = load("attention")
    short, long = (attention.measure(T, budget=0) for T in (64, 256))
    weights = attention.H * 256**2 * 4 / 2**20  # MiB
    assert long["attend"]["MiB"] > 2 * weights
    assert long["fused"]["MiB"] < weights
    assert long["attend"]["MiB"] > 8 * short["attend"]["MiB"]


@pytest.mark.weekly
@pytest.mark.parametrize("causal", [False, True])
def test_a_block_costs_no_more_than_torchs_layer(causal, load):
    found = load("block").measure(PreNorm, causal, B=8, T=128, width=128, heads=4, budget=3)
    assert found["torch"]["ratio"] < 1.25


def spoil(module, monkeypatch):
    """From now on our copies of their models have an error: a gain of zeros."""
    made = module.from_theirs

    def spoiled(theirs):
        ours = made(theirs)
        torch.nn.init.zeros_(ours.body.norm.weight)
        return ours

    monkeypatch.setattr(module, "from_theirs", spoiled)


@pytest.fixture
def models(load, monkeypatch):
    """The comparison of whole models, at a size that takes no time."""
    module = load("models")
    monkeypatch.setattr(module, "SIZES", [(2, 5, 16, 2, 4)] * 2)
    monkeypatch.setattr(module, "WRITTEN", (3, 4))
    return module


@pytest.mark.parametrize("name", ["transformers GPT-2", "transformers Llama"])
def test_models_compute_and_write_the_same_or_nothing_is_measured(name, models, monkeypatch):
    cases = list(models.RIVALS[name](budget=0))
    assert [case["what"] for case in cases] == ["training step"] * 2 + ["4 tokens written"] * 2
    assert all(case[name]["ratio"] > 0 for case in cases)
    spoil(models, monkeypatch)
    with pytest.raises(AssertionError, match="not close"):
        next(models.RIVALS[name](budget=0))


@pytest.mark.network
def test_nanogpts_block_and_model_compute_the_same(models, monkeypatch):
    try:
        models.nanogpt_module()
    except FileNotFoundError:
        pytest.skip("nanoGPT's model.py could not be downloaded")
    cases = list(models.of_nanogpt(budget=0))
    assert [case["what"] for case in cases] == ["block", "training step"] * 2
    monkeypatch.setattr(models, "copy", lambda theirs, ours: None)
    with pytest.raises(AssertionError, match="not close"):
        next(models.of_nanogpt(budget=0))


@pytest.fixture
def decoding(load, monkeypatch):
    """The comparison of ways to write, at a size that takes no time, with no compiler."""
    module = load("decoding")
    monkeypatch.setattr(module, "MODELS", {"tiny": (11, 32, 2, 2, 64)})
    monkeypatch.setattr(module, "MORE", 4)
    monkeypatch.setattr(torch, "compile", lambda model, *given, **named: model)
    return module


def test_every_way_writes_the_same_text_or_nothing_is_measured(
    decoding, load, monkeypatch, tmp_path
):
    case = decoding.measure("tiny", B=2, threads=1, rounds=3)
    ways = case["ways"]
    assert list(ways) == [
        *("transformers", "transformers, compiled", "transformers, 8 bits"),
        *("attnbook", "attnbook, compiled", "attnbook, compiled, 8 bits"),
    ]
    assert ways["transformers"]["ratio"] == 1 and all(len(way["all"]) == 3 for way in ways.values())
    assert ways["attnbook, compiled"]["same tokens"] == 1
    assert ways["attnbook, compiled, 8 bits"]["same tokens"] > 0.5
    (tmp_path / "decoding.json").write_text(json.dumps({"cases": [case]}))
    assert len(load("print_tables").beside_generate(tmp_path / "decoding.json")) == 2 + len(ways)
    spoil(decoding, monkeypatch)
    with pytest.raises(AssertionError, match="attnbook: different tokens are written"):
        decoding.measure("tiny", B=2, threads=1, rounds=1)


def test_a_rival_that_is_not_installed_is_said(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "x_transformers", None)
    (case,) = models.of_x_transformers(budget=0)
    assert case["what"].startswith("not installed: pip install x-transformers")


def test_every_rung_and_every_way_to_write_has_its_line(load, root):
    tables = load("print_tables")
    folder = root / "results/speedrun"
    ladder = tables.speed_run(folder)
    assert len(ladder) == 2 + len(list(folder.glob("*.json"))) and "nanoGPT" in ladder[-1]
    ways = [line for line in tables.decoding(root / tables.FAST) if "compiled" in line]
    assert len(ways) == 4 and all(float(line.split()[-1]) > 1 for line in ways)
    assert tables.decoding(root / "nothing")[2:] == []
