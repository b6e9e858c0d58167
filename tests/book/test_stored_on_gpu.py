"""What the pages say in words of the measurements on a GPU follows from the stored run."""

import pytest

from bookkit.results.stored_run import stored_run

PEAK = 989e12  # an H200's, 16 bits


@pytest.fixture(scope="module")
def found():
    return stored_run("on_gpu")


@pytest.fixture(scope="module")
def runs(found):
    return found["runs"]


def ms(run):
    return run["ms"][0]


def test_the_run_is_whole_and_names_its_card(found, runs):
    assert found["card"] == "NVIDIA H200" and not found["small"]
    assert [name for name, run in runs.items() if "error" in run] == []
    assert all(name.startswith("attention/flex") for name in found["left out"])
    again = {one["provenance"]["commit"] for one in found.get("measured again", [])}
    assert {run["commit"] for run in runs.values() if "commit" in run} <= again


def test_scores_that_are_kept_grow_from_the_first_token_and_tiles_from_about_2000(runs):
    def growth(way, T):
        one, two = (runs[f"attention/{way}/{t}"]["both"] for t in (T, 2 * T))
        return ms(two) / ms(one)  # as many tokens in all, in half as many texts

    assert all(growth("table", T) > 1.8 for T in (512, 1024, 2048, 4096, 8192))
    assert growth("torch", 512) < 1.1 and all(growth("torch", T) > 1.5 for T in (1024, 2048, 4096))


def test_where_scores_no_longer_fit(runs):
    longest = runs["attention/table/32768"]
    assert round(longest["forward"]["GB"]) == 104
    assert "out of memory" in longest["both"]["error"]


def test_a_window_takes_its_share_of_the_time_and_its_blocks_nine_times_that(runs):
    window, causal = (runs[f"attention/flex, {way}/32768"] for way in ("window", "causal"))
    assert round(ms(causal["both"]) / ms(window["both"])) == 16
    assert round(ms(window["blocks"]) / ms(window["both"])) == 9


def test_steps_of_training_are_as_the_result_says(runs):
    def step(way):
        return ms(runs[f"train/{way}"])

    half = step("bfloat16")
    assert round(half / step("float32"), 2) == 0.26  # saves three quarters
    assert round(1 - step("bfloat16, 50,304 tokens") / half, 2) == 0.14  # a seventh
    assert 1 - step("bfloat16, compiled") / half < 0.1
    assert round(step("bfloat16, checkpoints") / half, 1) == 1.3


def test_up_to_128_rows_take_as_long_as_one(runs):
    one = runs["rows/1"]["graph"][0]
    assert all(runs[f"rows/{2**n}"]["graph"][0] < 1.05 * one for n in range(8))
    assert ms(runs["rows/1"]) - one > one  # starting the product takes longer than the product


def test_full_heads_come_near_the_bound_and_copied_ones_did_not(runs):
    moved = 2 * runs["copy"]["bytes"] / ms(runs["copy"])  # bytes a millisecond

    def over_the_bound(heads):
        step = runs[f"decode/1.2 billion{heads}/in one call/256"]
        return ms(step) * moved / (step["weights"] + step["caches"])

    assert over_the_bound(", full heads") < 1.25
    shared = [runs[f"decode/1.2 billion/in one call/{B}"] for B in (1, 4, 16, 64, 256)]
    copied = [step for step in shared if "commit" not in step]
    assert copied == shared, "timed again without the copies: chapter 17 says that it was not"
    assert over_the_bound("") > 18


def test_a_growing_cache_takes_as_long_for_a_model_of_a_tenth(runs):
    taken = {name: ms(run) for name, run in runs.items() if "/growing cache/" in name}
    assert len(taken) == 10 and all(45 < each < 80 for each in taken.values())
