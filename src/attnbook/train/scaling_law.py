"""Scaling laws: the loss as a function of parameters N and tokens D, and how sure a fit is."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
SIZES = np.geomspace(0.01, 1, 300)  # exponents that `power_law` tries
BOTH = np.geomspace(0.05, 1.5, 69)  # exponents that `joint_law` tries, for N and for D
POWERS = np.geomspace(0.05, 1, 60)  # outer powers that `kaplan_law` tries
WORK = 6  # FLOPs of training for each parameter and token


class Law(NamedTuple):
    """L = c + (a·N^−α + b·D^−β)^p, in the units of the losses; without D, b is 0."""

    alpha: float
    beta: float
    a: float
    b: float
    c: float
    p: float = 1.0

    def __call__(self, N: Numbers | float, D: Numbers | float = 1.0) -> Numbers:
        """The loss that the law says."""
        return np.asarray(self.c + (self.a * N**-self.alpha + self.b * D**-self.beta) ** self.p)

    def best(self, C: Numbers | float) -> Numbers:
        """The size with the lowest loss for C FLOPs of training, C = 6 N D.

        Hoffmann et al. 2022, equation 4. ValueError for a law without D.
        """
        if self.b == 0:
            raise ValueError("this law does not know of D; fit one with joint_law(N, D, L)")
        both = self.alpha + self.beta
        share = (self.alpha * self.a / (self.beta * self.b)) ** (1 / both)
        return np.asarray(share * (C / WORK) ** (self.beta / both))


def power_law(N: Numbers, L: Numbers, floor: bool = True) -> Law:
    """The law in N alone with the smallest squared error; c ≥ 0, or 0 without a floor.

    For each of 300 exponents a and c are a straight line's slope and intercept.
    """
    enough(2 + floor, N, L)
    u = N ** -SIZES[:, None]  # (exponents, models)
    u_mean, L_mean = (u.mean(1), float(L.mean())) if floor else (np.zeros(len(u)), 0.0)
    apart = u - u_mean[:, None]
    a = (apart * (L - L_mean)).sum(1) / (apart**2).sum(1)
    c = L_mean - a * u_mean
    errors = ((a[:, None] * u + c[:, None] - L) ** 2).sum(1)
    best = int(np.where(c < 0, np.inf, errors).argmin())
    return Law(float(SIZES[best]), 0.0, float(a[best]), 0.0, float(c[best]))


def joint_law(N: Numbers, D: Numbers, L: Numbers) -> Law:
    """The law in N and D with the smallest squared error; a, b, c ≥ 0.

    Hoffmann et al. 2022, section 3.3, with squared errors instead of Huber's: for each of 69 × 69
    pairs of exponents a, b and c come from least squares.
    """
    enough(5, N, D, L)
    best, law = np.inf, Law(0.0, 0.0, 0.0, 0.0, 0.0)
    v = D ** -BOTH[:, None]  # (exponents, runs)
    for alpha in BOTH:
        u = np.broadcast_to(N**-alpha, v.shape)
        found = planes(u, v, L)
        a, b, c = found.T
        said = a[:, None] * u + b[:, None] * v + c[:, None]
        errors = np.where((found < 0).any(1), np.inf, ((said - L) ** 2).sum(1))
        i = int(errors.argmin())
        if errors[i] < best:
            best = float(errors[i])
            law = Law(float(alpha), float(BOTH[i]), float(a[i]), float(b[i]), float(c[i]))
    return possible(best, law)


def kaplan_law(N: Numbers, D: Numbers, L: Numbers) -> Law:
    """The law L = (a·N^−α + b/D)^p with the smallest squared error; a, b ≥ 0.

    Kaplan et al. 2020, equation 1.5, with a = N_c^α, b = D_c, p = α_D and α = α_N / α_D. For each
    of 60 powers and 69 exponents a and b come from least squares for L^(1/p), weighted so that
    small errors count as they do in L.
    """
    enough(4, N, D, L)
    best, law = np.inf, Law(0.0, 0.0, 0.0, 0.0, 0.0)
    u = N ** -BOTH[:, None]  # (exponents, runs)
    for p in POWERS:
        weight = p * L ** (1 - 1 / p)
        uw, vw, Lw = u * weight, np.broadcast_to(weight / D, u.shape), L ** (1 / p) * weight
        products = (uw**2).sum(1), (vw**2).sum(1), (uw * vw).sum(1)
        a, b = pair(*products, uw @ Lw, vw @ Lw)
        said = np.maximum(a[:, None] * u + b[:, None] / D, 0) ** p
        errors = np.where((a < 0) | (b < 0), np.inf, ((said - L) ** 2).sum(1))
        i = int(errors.argmin())
        if errors[i] < best:
            best = float(errors[i])
            law = Law(float(BOTH[i]), 1.0, float(a[i]), float(b[i]), 0.0, float(p))
    return possible(best, law)


def possible(error: float, law: Law) -> Law:
    """The law, or ValueError if none had a finite error."""
    if not np.isfinite(error):
        raise ValueError("these losses do not fall with more parameters or more tokens")
    return law


def planes(u: Numbers, v: Numbers, L: Numbers) -> Numbers:
    """For each row a, b, c of L ≈ a·u + b·v + c; where c would be negative, those with c = 0."""
    um, vm = (x - x.mean(1)[:, None] for x in (u, v))
    products = (um**2).sum(1), (vm**2).sum(1), (um * vm).sum(1)
    a, b = pair(*products, um @ (L - L.mean()), vm @ (L - L.mean()))
    c = L.mean() - a * u.mean(1) - b * v.mean(1)
    a0, b0 = pair((u**2).sum(1), (v**2).sum(1), (u * v).sum(1), u @ L, v @ L)
    low = c < 0
    return np.stack([np.where(low, a0, a), np.where(low, b0, b), np.where(low, 0, c)], 1)


def pair(
    uu: Numbers, vv: Numbers, uv: Numbers, uL: Numbers, vL: Numbers
) -> tuple[Numbers, Numbers]:
    """Two equations with two unknowns, row by row."""
    area = uu * vv - uv**2
    return (uL * vv - vL * uv) / area, (vL * uu - uL * uv) / area


def enough(least: int, *parts: Numbers) -> None:
    """ValueError unless there are so many different runs, and numbers above 0 for each of them."""
    if len({len(part) for part in parts}) > 1 or any((part <= 0).any() for part in parts):
        raise ValueError("each run has one positive size and one positive loss, in arrays as long")
    if len({*zip(*parts[:-1], strict=True)}) < least:
        raise ValueError(f"a law with {least} numbers needs {least} different runs or more")


def interval(
    fit: Callable[..., float], *parts: Numbers, repeats: int = 200, seed: int = 0
) -> tuple[float, float]:
    """The middle 90 % of what `fit` returns for runs drawn with replacement: the bootstrap."""
    draws = np.random.default_rng(seed)
    found: list[float] = []
    while len(found) < repeats:
        picks = draws.integers(len(parts[0]), size=len(parts[0]))
        try:
            found.append(fit(*(part[picks] for part in parts)))
        except ValueError:  # too few different ones were drawn
            continue
    low, high = np.percentile(found, [5, 95])
    return float(low), float(high)
