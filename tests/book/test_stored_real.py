"""Stored runs on a published model: which weights, what was declared, what the book says."""

import hashlib
import importlib
import math

import pytest

from bookkit.results.stored_run import stored_run

HASH = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
NAMES = (
    "heads",
    "lens",
    "indirect_objects",
    "twice",
    "few_shots",
    "bits",
    "parts",
    "writes",
    "rewarded",
    "tuned",
    "speed",
    "served",
    "grpo",
    "faster",
    "compiled",
    "attribution",
    "rounded",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_names_its_weights_and_what_would_have_been_nothing(name, root):
    run = stored_run(f"real_{name}")
    assert run["weights"]["sha256"] == HASH and run["weights"]["licence"]
    assert run["study"]["no_gain"] and run["study"]["baselines"]
    script = run["provenance"]["command"].split()[1]
    assert script.startswith("results/real/") and (root / script).is_file()


def test_copying_needs_the_induction_heads_and_not_others_of_their_layers():
    for run in stored_run("real_heads")["gemma"]["cut"]:
        assert run["induction"] > run["whole"] + 10
        assert max(run["induction: others 0"], run["induction: others 1"]) < run["whole"] + 1
        assert run["all but the strongest"] > run["the strongest"] + 5


def test_one_previous_token_head_is_heard_by_the_keys():
    for run in stored_run("real_heads")["gemma"]["path"]:
        assert run["4.1"]["keys"] < 0.1 < 0.8 < min(run["2.3"]["keys"], run["whole"])


def test_eight_heads_are_needed_for_the_indirect_object_and_nearly_enough():
    run = stored_run("real_indirect_objects")
    sets, whole, none = run["sets"], run["whole"]["lead"], run["none"]["lead"]
    assert sets["8 chosen"]["removed"]["interval"][1] < 0
    assert sets["8 chosen"]["kept"]["lead"] - none > 0.7 * (whole - none)
    for n in range(2):
        assert sets[f"8 lot {n}"]["removed"]["lead"] > whole
        assert sets[f"8 lot {n}"]["kept"]["interval"][1] < 0.5


def test_the_first_head_brings_twice_as_much_directly_as_its_loss_costs():
    run = stored_run("real_indirect_objects")
    whole, direct = run["whole"]["lead"], run["direct"][11][3]
    assert (round(direct, 1), round(whole, 1)) == (4.2, 4.6)
    assert 0.4 < (whole - run["sets"]["1 chosen"]["removed"]["lead"]) / direct < 0.6
    assert (
        run["sets"]["4 chosen"]["removed"]["lead"] > 0 > run["sets"]["8 chosen"]["removed"]["lead"]
    )
    assert run["order"][-2:] == [[17, 2], [15, 1]] and direct == max(map(max, run["direct"]))


def test_one_gradient_is_right_and_foresees_the_wrong_sign():
    ways = stored_run("real_attribution")["before layer"]
    assert all(abs(way["a hundredth by the gradient"] - 1) < 0.02 for way in ways.values())
    first = ways["0"]
    assert first["one gradient"]["mean"] > 2 and first["all the way"][2] < -8
    assert first["patched"][1] > 0 > first["patched"][3]  # a tenth of the way, and half
    assert abs(first["five gradients"]["mean"] - first["all the way"][0]) < 0.5
    heads = stored_run("real_attribution")["heads"]
    assert heads["of the first eight"] == 7 and heads["large"] * heads["same sign, large"] > 24.9


def test_only_the_full_layers_copy_from_beyond_the_window():
    run = stored_run("real_twice")
    again, new = (run["gemma"]["random"]["700"][what] for what in ("again", "not read before"))
    assert again < 2 < run["windows everywhere"]["700"] and abs(new - 14.8) < 1
    assert run["windows everywhere"]["0"] == run["gemma"]["random"]["0"]["again"]


def test_short_windows_cost_next_to_nothing_and_short_full_layers_do():
    run = stored_run("real_parts")
    switched = run["switched"]
    more = {what: nats - switched["nothing"] for what, nats in switched.items()}
    assert more["windows see 128"] < 0.05 < 0.3 < more["full layers see 128"]
    assert run["layers"].count(512) == 15 and run["layers"].count("full") == 3
    assert switched["norms behind the parts: one factor"] > 10 * math.log(262_144)
    for kept in run["cache"].values():
        assert kept["bytes"] == 15 * kept["windows"] + 3 * kept["full"]


def test_a_bank_is_nearest_to_a_bank_of_its_own_sentences_from_the_first_layer_on():
    banks = stored_run("real_parts")["banks"]
    assert min(banks["nearest is of its sense"][1:]) > 10.9 / 12
    assert max(banks["two senses"][1:]) < 0 < 0.2 < min(banks["one sense"][1:])
    assert min(banks["one sense"][1:8]) > 0.35 > max(banks["one sense"][8:13])


def test_prose_that_a_published_model_reads_is_that_of_the_stored_runs(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "results" / "real"))
    text = importlib.import_module("prose").prose()
    stored = stored_run("real_bits")["sha256 of the chapters"]
    assert hashlib.sha256(text.encode()).hexdigest() == stored


def answered(run, kind, count="right"):
    return run[kind][count].count("1")


def test_tuning_gives_an_end_and_is_compared_with_the_better_examples():
    run = stored_run("real_tuned")
    seeds = [seed["answers"] for seed in run["after"]]
    assert len(seeds) == len(run["study"]["reporting_seeds"]) >= 2
    assert not set(run["study"]["reporting_seeds"]) & set(run["study"]["choosing_seeds"])
    tried = run["loss"]["by learning rate"]
    best = min(tried, key=tried.get)
    assert (
        float(best) == run["learning rate"] not in (min(map(float, tried)), max(map(float, tried)))
    )
    for kind, marks in run["before"].items():
        assert answered(run["before"], kind, "and stops") == 0
        assert all(len(seed[kind]["right"]) == len(marks["right"]) for seed in seeds)


def test_a_cache_in_eight_bits_costs_nothing_that_shows_and_weights_in_four_do():
    run = stored_run("real_rounded")
    for way in ("cache, 8 bits", "cache, fp8"):
        assert all(found["low"] < 0 < found["high"] for found in run["more"][way].values())
    assert all(found["low"] > 0 for found in run["more"]["4 bits"].values())
    for way in ("GPTQ", "AWQ"):
        assert all(x["high"] < 0 for x in run["than rounding"][f"4 bits, {way}"].values())
        loss = run["nats per byte"][f"4 bits, {way}"]
        for text, plain in run["nats per byte"]["32 bits"].items():
            rounding = run["nats per byte"]["4 bits"][text]
            assert rounding - loss[text] > 0.45 * (rounding - plain)


def test_a_compiled_step_is_faster_in_each_format_and_twice_transformers_in_eight_bits():
    run = stored_run("real_compiled")["writing"]
    for name in ("32 bits", "16 bits", "8 bits"):
        assert run[f"{name}, compiled"]["than without"][0] > 1
    gains = {name: way["than without"][1] for name, way in run.items() if "than without" in way}
    assert max(gains, key=gains.get) == "8 bits, compiled"
    assert run["8 bits, compiled"]["times as fast"][1] > 2
    assert run["32 bits, compiled"]["same tokens"] == 1


def test_an_engine_that_exists_writes_the_same_from_a_saved_folder():
    texts = stored_run("real_served")["texts"]
    assert len(texts) > 1
    assert all(text["served"] == text["own"] for text in texts.values())


def test_rewards_and_imitation_teach_a_half_known_form_and_a_coin_does_not():
    run = stored_run("real_grpo")
    assert not set(run["study"]["reporting_seeds"]) & set(run["study"]["choosing_seeds"])
    for way, tried in run["by rate"].items():
        best, rates = max(tried, key=tried.get), sorted(map(float, tried))
        assert float(best) == run["rates"][way] not in (rates[0], rates[-1])
    shares = {
        way: [sum(seed["p"]) / len(seed["p"]) for seed in seeds]
        for way, seeds in (run["after"] | {"before": [run["before"]]}).items()
    }
    assert 0.3 < shares["before"][0] < 0.7
    assert min(shares["reward"] + shares["supervised"]) > 0.8 > 0.6 > max(shares["coin"])
    for way in ("reward", "supervised", "coin"):
        gain = sum(shares[way]) / len(shares[way]) - shares["before"][0]
        assert run["difference"][way]["p"]["mean"] == pytest.approx(gain, abs=1e-3)


def test_after_rewards_right_answers_are_among_eight_that_were_not_before():
    assert stored_run("real_grpo")["difference"]["reward"]["pass@8"]["low"] > 0.1
