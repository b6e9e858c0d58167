"""Two series of which the best forecast is known."""

import pytest
import torch

from attnbook.data import series

BOTH = {series.seasonal: series.seasonal_next, series.switching: series.switching_next}


@pytest.mark.parametrize("kind", BOTH)
def test_what_the_rule_leaves_over_is_noise_of_variance_one(kind):
    months = kind(1, 8000)(torch.Generator().manual_seed(0))[0]
    past = months.unfold(0, 20, 1)
    left = past[:, -1] - BOTH[kind](past[:, :-1])
    assert abs(left.mean()) < 5 / 8000**0.5
    assert abs(left.var() - 1) < 5 * (2 / 8000) ** 0.5
    for lag in (1, 2, 12):  # nothing in it tells what comes
        assert abs((left[lag:] * left[:-lag]).mean()) < 5 / 8000**0.5


@pytest.mark.parametrize("kind", BOTH)
def test_a_series_neither_dies_nor_explodes(kind):
    months = kind(3, 2000)(torch.Generator().manual_seed(1))
    early, late = months[:, :1000].std(), months[:, 1000:].std()
    assert 1.5 < early < 6 and 0.7 < early / late < 1.4


def test_the_rules_as_computed_by_hand():
    past = torch.zeros(13)
    past[0], past[1], past[-1] = 10.0, 20.0, 4.0  # 13 and 12 months ago, last month
    assert series.seasonal_next(past) == pytest.approx(0.9 * 20 + 0.5 * (4 - 9))
    assert series.switching_next(past) == pytest.approx(3.6)
    past[1] = -20.0
    assert series.switching_next(past) == pytest.approx(-3.6)


def test_a_line_through_the_past_is_all_of_one_series_and_little_of_the_other():
    left = {}
    for kind in BOTH:
        rows = kind(1, 6000)(torch.Generator().manual_seed(2))[0].unfold(0, 14, 1)
        past, now = rows[:, :-1], rows[:, -1:]
        fitted = past @ torch.linalg.lstsq(past, now).solution
        left[kind] = (now - fitted).var().item(), now.var().item()
    assert left[series.seasonal][0] < 1.1
    assert left[series.switching][0] > 0.7 * left[series.switching][1]


@pytest.mark.parametrize("kind", BOTH)
def test_the_same_state_gives_the_same_series(kind):
    one, other = (kind(2, 30)(torch.Generator().manual_seed(5)) for _ in range(2))
    assert one.shape == (2, 30) and torch.equal(one, other)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="not 0 of 5"):
        series.seasonal(0, 5)
    with pytest.raises(ValueError, match="not 2 of 0"):
        series.switching(2, 0)
    with pytest.raises(ValueError, match="needs 13 values, not 12"):
        series.seasonal_next(torch.zeros(12))
    with pytest.raises(ValueError, match="needs 12 values, not 3"):
        series.switching_next(torch.zeros(2, 3))
