"""The stored study of calibrated rounding, and what its page says of it."""

from statistics import mean

import pytest

from bookkit.results.stored_run import stored_run

RUNS = stored_run("calibrated")["runs"]


def losses(way: str, bits: int, kind: str = "python-docs", of: str = "docs") -> list[float]:
    return [RUNS[f"{way}/clipped/{bits}/{kind}/32/{seed}"][of] for seed in range(5)]


def test_every_run_of_the_plan_is_there_and_no_other(script):
    assert set(RUNS) == {name for name, _ in script("results/calibrated.py").work()}


@pytest.mark.parametrize("bits", [3, 2])
def test_gptq_is_ahead_of_both_rivals_with_every_draw(bits):
    rivals = [*losses("AWQ", bits), RUNS[f"nearest/clipped/{bits}"]["docs"]]
    assert max(losses("GPTQ", bits)) < min(rivals)


def test_at_three_bits_it_takes_back_more_than_half_of_what_rounding_costs():
    whole, nearest = RUNS["32 bits"]["docs"], RUNS["nearest/clipped/3"]["docs"]
    assert nearest - mean(losses("GPTQ", 3)) > (nearest - whole) / 2


def test_the_wrong_text_takes_its_gain_away():
    nearest = RUNS["nearest/clipped/3"]
    assert mean(losses("GPTQ", 3, "shakespeare")) > nearest["docs"] - 0.001
    on_plays = nearest["plays"] - mean(losses("GPTQ", 3, of="plays"))
    assert 0 < on_plays < (nearest["plays"] - mean(losses("GPTQ", 3, "shakespeare", "plays"))) / 3
    assert mean(losses("GPTQ", 3, "random", "plays")) > nearest["plays"]


def test_awq_gains_little_at_three_bits_and_nothing_at_two():
    three, two = (RUNS[f"nearest/clipped/{bits}"]["docs"] for bits in (3, 2))
    assert 0 < three - mean(losses("AWQ", 3)) < 0.005
    assert mean(losses("AWQ", 2)) > two
