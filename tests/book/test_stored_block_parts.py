"""Residual, norm and small start: the study's arithmetic, and what chapter 6 says of it."""

import math
from decimal import ROUND_HALF_UP, Decimal
from statistics import fmean

import pytest

from attnbook.losses import token_loss
from attnbook.train.loop import train
from bookkit.results.stored_run import stored_run

RUN, LONGER = stored_run("block_parts"), stored_run("block_parts_longer")


def tenth(number):
    """As it is printed, a half rounded up."""
    return str(Decimal(str(number)).quantize(Decimal("0.1"), ROUND_HALF_UP)).replace("-", "−")


@pytest.fixture
def made(script):
    return script("results/block_parts.py")


def test_seeds_side_by_side_learn_as_the_books_modules_do_one_by_one(made):
    def loss(model, batch):
        return token_loss(model(batch[0]), batch[1])

    for way in made.WAYS:
        model = made.model(way, 2, 1)
        alone = train(model, made.reversing, loss, steps=12, lr=0.005, seed=1, progress=False).loss
        beside = made.trained(way, 2, 0.005, (0, 1), 12)[1]
        assert math.isclose(beside["loss"], fmean(alone[-10:]), abs_tol=1e-3), str(way)


def test_the_intervals_follow_from_the_steps(made):
    for depth, table in RUN["depths"].items():
        assert made.gains(table) == RUN["gains"][depth]


def test_a_rate_is_the_best_of_those_that_were_tried(made):
    for table in RUN["depths"].values():
        for row in table.values():
            best = row["rates"][f"{row['rate']:g}"]
            assert best == min(row["rates"].values())
            tried = sorted(map(float, row["rates"]))
            assert row["inside"] is (tried[0] < row["rate"] < tried[-1])


def test_the_numbers_of_the_chapter_and_of_the_claims_are_what_is_stored(root):
    both, norm, small, *others = RUN["depths"]["12"].values()
    means = [fmean(row["steps"]) for row in (both, norm, small)]
    chapter, claims = (
        (root / "book" / f"{page}.ipynb").read_text("utf-8")
        for page in ("06-the-transformer", "lectures-checked")
    )
    assert (
        "after {:.0f} steps with both, {:.0f} with the norm alone, {:.0f}".format(*means) in chapter
    )
    assert not any(step for row in others for step in row["steps"])
    assert min(loss for row in others for loss in row["losses"] if loss is not None) > 1.9
    assert sum(not row["inside"] for row in others[1:]) == 3
    lost = [loss for row in others for loss in row["losses"]]
    given_up = sum(loss is None or loss > 2.2 for loss in lost)
    assert f"{given_up} of those {len(lost)} runs were given up earlier" in chapter
    alone = [step for step in RUN["depths"]["6"]["residual"]["steps"] if step]
    assert len(alone) == 5 and f"after {min(alone)} to {max(alone)} steps" in chapter
    assert set(others[0]["rates"].values()) == {240.0}  # 120 and as many again: a guess or worse
    saved = {}
    for depth, part, without in (
        (depth, *each)
        for depth in ("2", "6", "12")
        for each in [("norm", "residual, small start"), ("small start", "residual, norm")]
    ):
        found = RUN["gains"][depth][f"{without} minus residual, norm, small start"]
        saved[depth, part] = found
        mean, low, high = (tenth(found[each]) for each in ("mean", "low", "high"))
        assert f"{low} to {high}" in chapter and f"{mean} " in chapter
    assert (
        saved["12", "norm"]["low"] > 0 > saved["12", "small start"]["low"] and "1 to 14" in claims
    )
    assert round(saved["2", "norm"]["detectable"]) == 8 and saved["2", "norm"]["low"] < 0
    two = RUN["depths"]["2"].values()
    assert sum(step is None for row in two for step in row["steps"]) == 5


def test_twelve_blocks_without_residual_connections_do_not_learn_within_six_times_the_steps(root):
    assert list(LONGER["stacks"]) == ["norm", "none of them", "norm, small start"]
    assert LONGER["cap"] == 6 * RUN["cap"] == 2400
    ends = []
    for found in LONGER["stacks"].values():
        rates = {float(rate): loss for rate, loss in found["rates"].items()}
        assert found["rate"] == min(rates, key=rates.get) and found["inside"]
        assert min(rates) < found["rate"] < max(rates)
        assert found["steps"] == [None] * 4
        ends += found["losses"]
    chapter = (root / "book" / "06-the-transformer.ipynb").read_text("utf-8")
    assert f"end between {min(ends):.2f} and {max(ends):.2f} nats (four seeds each" in chapter
    assert "Three of the five were also given 2,400 steps, and none of their twelve" in chapter
