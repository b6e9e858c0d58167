"""The stored run of parity and recall: five seeds, at the rates that were chosen."""

import pytest

from bookkit.results.stored_run import stored_run

RUNS = stored_run("long_range")["runs"]
CASES = sorted({key.rsplit("/", 2)[0] for key in RUNS})


def test_four_networks_recall_and_three_count():
    assert [case.split("/")[0] for case in CASES].count("recall") == 4
    assert [case.split("/")[0] for case in CASES].count("parity") == 3


@pytest.mark.parametrize("case", CASES)
def test_five_seeds_have_the_rate_that_was_best_with_another_seed(case):
    of_case = {key: run for key, run in RUNS.items() if key.startswith(f"{case}/")}
    tried = {key: run["loss"] for key, run in of_case.items() if key.endswith("/100")}
    best = min(tried, key=tried.__getitem__).removesuffix("100")
    assert len(tried) == 3
    assert set(of_case) == set(tried) | {f"{best}{seed}" for seed in range(5)}


def test_the_networks_that_are_compared_are_of_one_size():
    for task in ("recall", "parity"):
        sizes = [run["parameters"] for key, run in RUNS.items() if key.startswith(task)]
        assert max(sizes) / min(sizes) < 1.02
