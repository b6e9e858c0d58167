"""Scaling laws find what was put in, say when they cannot, and agree with another fit."""

import numpy as np
import pytest

from attnbook.train.scaling_law import Law, interval, joint_law, kaplan_law, power_law

N = np.geomspace(1e3, 1e6, 9)
GRID_N, GRID_D = (part.ravel() for part in np.meshgrid(N, np.geomspace(1e5, 4e6, 6)))


@pytest.mark.parametrize("made", [(0.3, 4.0, 1.2), (0.1, 3.0, 0.0), (0.5, 20.0, 0.7)])
def test_a_power_law_is_found_in_its_own_losses(made):
    alpha, a, c = made
    found = power_law(N, a * N**-alpha + c)
    np.testing.assert_allclose((found.alpha, found.a, found.c), made, rtol=0.1, atol=0.05)


def test_without_a_floor_it_is_the_straight_line_in_logarithms():
    slope, intercept = np.polyfit(np.log(N), np.log(3 * N**-0.1), 1)
    found = power_law(N, 3 * N**-0.1, floor=False)
    assert found.alpha == pytest.approx(-slope, rel=0.02)
    assert found.a == pytest.approx(np.exp(intercept), rel=0.05) and found.c == 0


def test_a_sum_of_two_powers_is_found_and_forecasts_far_sizes():
    true = Law(0.35, 0.4, 6.0, 60.0, 1.5)
    found = joint_law(GRID_N, GRID_D, true(GRID_N, GRID_D))
    assert abs(found.alpha - 0.35) < 0.02 and abs(found.beta - 0.4) < 0.02
    assert found(1e8, 1e9) == pytest.approx(float(true(1e8, 1e9)), abs=0.02)


def test_a_power_of_a_sum_is_found_and_forecasts_far_sizes():
    true = Law(0.7, 1.0, 9e3, 4e7, 0.0, 0.12)
    found = kaplan_law(GRID_N, GRID_D, true(GRID_N, GRID_D))
    assert abs(found.alpha - 0.7) < 0.05 and abs(found.p - 0.12) < 0.01
    assert found(1e8, 1e9) == pytest.approx(float(true(1e8, 1e9)), rel=0.03)


def test_no_other_law_of_its_family_fits_better():
    """Small changes of each number make the squared error larger, up to the grid's step."""
    rng = np.random.default_rng(0)
    L = Law(0.35, 0.4, 6.0, 60.0, 1.5)(GRID_N, GRID_D) + 0.02 * rng.standard_normal(len(GRID_N))
    found = joint_law(GRID_N, GRID_D, L)
    error = ((found(GRID_N, GRID_D) - L) ** 2).sum()
    for name in ("a", "b", "c"):
        for factor in (0.99, 1.01):
            other = found._replace(**{name: factor * getattr(found, name)})
            assert ((other(GRID_N, GRID_D) - L) ** 2).sum() > error


def test_the_best_size_is_the_lowest_point_of_its_budget():
    for law in (Law(0.35, 0.4, 6.0, 60.0, 1.5), Law(0.7, 1.0, 9e3, 4e7, 0.0, 0.12)):
        C = 1e12
        sizes = np.geomspace(1e2, 1e8, 20_001)
        lowest = sizes[law(sizes, C / (6 * sizes)).argmin()]
        assert float(law.best(C)) == pytest.approx(lowest, rel=0.002)


def test_negative_parts_are_never_fitted():
    rising = 2 + 0.1 * np.log(GRID_N)
    found = joint_law(GRID_N, GRID_D, 5 / np.log(GRID_D))
    assert min(found.a, found.b, found.c) >= 0
    assert power_law(N, N**-0.5).c >= 0
    with pytest.raises(ValueError, match="more parameters or more tokens"):
        joint_law(GRID_N, GRID_D, rising)


def test_an_interval_holds_the_true_exponent_and_shrinks_with_less_noise():
    rng = np.random.default_rng(1)
    widths = []
    for noise in (0.02, 0.002):
        L = 3 * N**-0.1 + noise * rng.standard_normal(len(N))
        low, high = interval(lambda n, y: power_law(n, y, floor=False).alpha, N, L)
        assert low - 0.02 < 0.1 < high + 0.02
        widths.append(high - low)
    assert widths[1] < widths[0]


def test_too_few_runs_and_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="3 different runs"):
        power_law(N[:2], N[:2])
    with pytest.raises(ValueError, match="positive"):
        power_law(-N, N)
    with pytest.raises(ValueError, match="as long"):
        joint_law(N, N[:3], N)
    with pytest.raises(ValueError, match="does not know of D"):
        power_law(N, 3 * N**-0.1).best(1e9)
