"""Recall against state size: what chapter 15 says of the shape and the rule of a memory."""

from statistics import fmean

import pytest
import torch
from torch.testing import assert_close

from bookkit.experiments import recalling
from bookkit.results.statistics import interval
from bookkit.results.stored_run import stored_run

RUN, ROWS = stored_run("state_size"), stored_run("state_rows")
LONGER = stored_run("state_size_longer")
ELU, SUM, DELTA = "linear, elu + 1", "linear, unit keys", "delta"


def right(memory, shape):
    return fmean(RUN["right"][memory][shape])


def compared(what):
    return RUN["compared"][what]


@pytest.fixture
def made(script):
    return script("results/state_size.py")


@pytest.mark.parametrize("name", [SUM, DELTA])
def test_its_looks_are_the_chapters_in_fewer_products(made, name):
    g = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, 64, 8, generator=g) for _ in "qk")
    v, beta = torch.randn(2, 64, 5, generator=g), torch.rand(2, 64, generator=g)
    parts = q, k, v, beta, torch.zeros(2, 64)
    assert_close(made.LOOKS[name](*parts), recalling.LOOKS[name](*parts), rtol=1e-4, atol=1e-5)


def test_a_memory_keeps_rows_times_columns_and_a_denominator_one_number_a_row(made):
    assert made.numbers(DELTA, (8, 16)) == 128 and made.numbers(ELU, (8, 16)) == 136
    model = made.Shaped(made.LOOKS[DELTA], 8, 4)
    assert model.to_k.embedding_dim * model.to_v.embedding_dim == 32
    assert model(recalling.unseen(B=2)[0]).shape == (2, 64, 16)


def test_each_rate_lies_inside_what_was_tried():
    for found in RUN["rates"].values():
        tried = {float(rate): share for rate, share in found["tried"].items()}
        assert max(tried, key=tried.get) == found["rate"]
        assert min(tried) < found["rate"] < max(tried)


def test_shapes_of_equally_many_numbers_recall_alike_below_as_many_rows_as_names():
    for memory in (SUM, DELTA):
        doubled = compared(f"{memory}: 16 × 16 minus 8 × 16")["mean"]
        for pair in (
            "16 × 4 minus 8 × 8",
            "16 × 8 minus 8 × 16",
            "32 × 4 minus 8 × 16",
            "32 × 4 minus 16 × 8",
            "32 × 8 minus 16 × 16",
        ):
            assert abs(compared(f"{memory}: {pair}")["mean"]) < doubled / 4
    more = compared(f"{ELU}: 32 × 4 minus 8 × 16")
    assert more["low"] > compared(f"{ELU}: 16 × 16 minus 8 × 16")["mean"] / 4


def test_four_rows_and_nearly_as_many_rows_as_names_lie_off_the_curve():
    less = compared("delta: 16 × 16 minus 8 × 16")["mean"] / 4
    for pair in ("56 × 2 minus 32 × 4", "48 × 4 minus 16 × 12"):
        assert ROWS["compared"][pair]["low"] > less
    for pair in ("4 × 32 minus 8 × 16", "4 × 64 minus 16 × 16"):
        assert ROWS["compared"][pair]["high"] < -less
    few, more = (fmean(ROWS["right"][shape]) for shape in ("4 × 32", "4 × 64"))
    assert abs(few - more) < 0.01  # twice the columns, beyond 16 numbers
    ahead = ROWS["compared"]["48 × 4 minus 16 × 12"]
    assert [round(ahead[n], 2) for n in ("mean", "low", "high")] == [0.19, 0.19, 0.2]
    tried = {float(rate): share for rate, share in ROWS["tried"].items()}
    assert min(tried) < ROWS["rate"] < max(tried)
    assert max(tried, key=tried.get) == ROWS["rate"]


def test_as_many_rows_as_names_answer_everything_but_with_positive_features():
    for memory in (SUM, DELTA):
        assert right(memory, "64 × 2") > 0.99 and right(memory, "64 × 4") > 0.99
        assert compared(f"{memory}: 64 × 4 minus 16 × 16")["low"] > 0
    assert right(ELU, "64 × 2") < 0.6


def test_corrections_lie_on_the_curve_of_the_sum_and_positive_features_below():
    for shape in ("8 × 16", "16 × 16"):
        same = compared(f"{DELTA} minus {SUM}: {shape}")
        assert same["low"] < 0 < same["high"] or max(abs(same["low"]), abs(same["high"])) < 0.03
        assert compared(f"{SUM} minus {ELU}: {shape}")["low"] > 0.1


def test_a_window_is_behind_until_it_holds_nearly_all_pairs():
    assert min(RUN["softmax, 4 + 2"]) >= 0.99
    for shape, ahead in (("8 × 16", True), ("16 × 16", True), ("32 × 16", False)):
        found = compared(f"delta minus window: {shape}")
        assert (found["low"] > 0) if ahead else (found["high"] < 0)
    assert RUN["window"]["384"] == 1.0


def test_after_four_times_the_training_size_brings_more_than_shape_and_the_page_says_so(root):
    for row in LONGER["rates"].values():
        tried = {float(rate): share for rate, share in row["tried"].items()}
        assert max(tried, key=tried.get) == row["rate"]
        assert min(tried) < row["rate"] < max(tried)
    shape = LONGER["compared"]["delta: 32 × 4 minus 8 × 16"]
    size = LONGER["compared"]["delta: 16 × 16 minus 8 × 16"]
    assert shape["high"] < size["low"]
    assert shape["low"] < size["mean"] / 4 < shape["high"]  # stays open
    for of in ("8 × 16", "16 × 16"):
        assert LONGER["compared"][f"delta minus window: {of}"]["low"] > 0
    page = (root / "book" / "15-recurrence-returns.ipynb").read_text("utf-8")
    said = "brings {:.3f} over 8 × 16, and 32 × 4 brings {:.3f} (95 % interval {:.3f} to {:.3f})"
    assert said.format(size["mean"], *(shape[part] for part in ("mean", "low", "high"))) in page
    many = interval(LONGER["right"][ELU]["64 × 2"])
    assert f"64 × 2 answers {many.mean:.2f} ({many.low:.2f} to {many.high:.2f})" in page
    apart = LONGER["compared"][f"{SUM} minus {ELU}: 16 × 16"]
    assert "stays {mean:.2f} behind unit keys ({low:.2f} to {high:.2f})".format(**apart) in page


@pytest.mark.weekly
def test_a_run_is_repeated(made):
    rate = RUN["rates"][SUM]["rate"]
    again = made.recalled(SUM, (8, 16), rate, 0)
    assert again == pytest.approx(RUN["runs"][f"{SUM}/8 × 16/{rate:g}/0"], abs=0.1)
