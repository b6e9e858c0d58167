"""The statistics of comparisons agree with scipy's own numbers and with simulated experiments."""

import math

import numpy as np
import pytest
from scipy import stats

from bookkit.results.statistics import bootstrap, detectable, difference, interval

ONE, OTHER = [0.71, 0.69, 0.75, 0.68, 0.72], [0.66, 0.70, 0.69, 0.61, 0.70]


def test_an_interval_is_that_of_students_t():
    found = interval(ONE)
    low, high = stats.t.interval(0.95, 4, np.mean(ONE), stats.sem(ONE))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert math.isnan(interval([0.5]).low) and interval([0.5]).mean == 0.5


@pytest.mark.parametrize("paired", [True, False])
def test_a_difference_has_the_interval_of_scipys_test(paired):
    test = stats.ttest_rel(ONE, OTHER) if paired else stats.ttest_ind(ONE, OTHER, equal_var=False)
    wanted = test.confidence_interval()
    found = difference(ONE, OTHER, paired=paired)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert found.mean == pytest.approx(np.mean(ONE) - np.mean(OTHER))
    assert found.decided == (test.pvalue < 0.05)


@pytest.mark.parametrize(("seeds", "paired"), [(5, False), (5, True), (12, False)])
def test_the_detectable_difference_is_found_in_80_of_100_experiments(seeds, paired):
    effect, draw = detectable(1.0, seeds, paired), np.random.default_rng(0)
    a = draw.normal(effect, 1, (40_000, seeds))
    if paired:
        p = stats.ttest_1samp(a, 0, axis=1).pvalue
    else:
        p = stats.ttest_ind(a, draw.normal(0, 1, a.shape), axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.01)


def test_seeds_that_do_not_differ_leave_nothing_undetected():
    assert difference([1, 1, 1], [0.5, 0.5, 0.5]).detectable == 0
    assert detectable(1.0, 2) > 5  # two seeds find next to nothing


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0], [2.0, 3.0]), "two seeds or more"),
        (([1.0, 2.0], [1.0, 2.0, 3.0], True), "do not pair"),
        (([1.0, math.nan], [1.0, 2.0]), "finite"),
        (([], [1.0]), "finite"),
    ],
)
def test_what_gives_no_interval_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        difference(*arguments)


def test_a_bootstrap_of_means_is_near_the_t_interval_and_always_the_same():
    values = np.random.default_rng(1).normal(0, 1, 200).tolist()
    found, t = bootstrap(values, lambda kept: float(np.mean(kept))), interval(values)
    assert (found.low, found.high) == pytest.approx((t.low, t.high), abs=0.02)
    assert found == bootstrap(values, lambda kept: float(np.mean(kept)))


@pytest.mark.filterwarnings("ignore:The BCa confidence interval cannot be calculated")
def test_a_bootstrap_that_mostly_fails_is_refused():
    with pytest.raises(ValueError, match="more than a tenth"):
        bootstrap([1, 2, 3], lambda kept: math.nan if len(set(kept)) < 3 else 1.0, 200)
