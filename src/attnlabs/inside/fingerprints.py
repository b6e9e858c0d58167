"""Results as plain arrays, and fingerprints of results that do not give them away.

A fingerprint is a checksum of the shapes and four sums of all numbers, each number taken with a
sign that a hash decides. Equal results have equal fingerprints, up to rounding; nobody gets
the dozens of numbers of a result back from four sums.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
import torch

from attnlabs.inside.leniency import in_one_precision

Result: TypeAlias = tuple[np.ndarray, ...]  # of numbers, in float64 or bool
Outcome: TypeAlias = Result | str  # a result, or a sentence if there is none
Fingerprint: TypeAlias = list[int | float]

SUMS = 4
LARGEST = 1_000_000  # numbers; no answer has so many
CLOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4, "equal_nan": True}


def outcome(function: Callable[..., Any], arguments: Iterable[Any]) -> Outcome:
    """What a function answers: a tuple of arrays, or a sentence if it raised or has no numbers."""
    try:
        return arrays(in_one_precision(function, list(arguments)))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


def arrays(value: Any) -> Result:
    """A result as a tuple of arrays in float64, or in bool if it is boolean."""
    return tuple(array(part) for part in parts_of(value))


def parts_of(value: Any) -> Sequence[Any]:
    """A result's parts: what `out, weights = attend(…)` takes apart, be it a tuple, an object of
    the student's or something that hands them out one by one."""
    whole = tuple, list, str, torch.Tensor, np.ndarray, Mapping, Set
    if isinstance(value, Iterable) and not isinstance(value, whole):
        value = tuple(value)
    return value if isinstance(value, tuple | list) and has_tensors(value) else (value,)


def has_tensors(values: Iterable[Any]) -> bool:
    return any(isinstance(value, torch.Tensor | np.ndarray) for value in values)


def array(value: Any) -> np.ndarray:
    """A tensor, an array or a number as an array; a TypeError if it has no numbers."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.numpy() if value.dtype == torch.bool else value.double().numpy()
    value = np.asarray(value)
    if value.dtype == bool:
        return value
    if value.dtype.kind not in "iuf":
        raise TypeError(f"numbers are needed, not {value.dtype}")
    return value.astype(np.float64)


def same(one: Outcome, other: Outcome) -> bool:
    """Are two outcomes equal up to rounding? All errors are alike."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    if [(a.shape, a.dtype) for a in one] != [(b.shape, b.dtype) for b in other]:
        return False
    return all(map(close, one, other))


def close(one: np.ndarray, other: np.ndarray) -> bool:
    """`np.allclose`, in less than half its time where all numbers are finite."""
    if one.dtype == bool:
        return bool((one == other).all())
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
        far = ~(apart < CLOSE["atol"] + CLOSE["rtol"] * np.abs(other))
    if not far.any():
        return True
    return not np.isfinite(apart[far]).all() and np.allclose(one, other, **CLOSE)


def fingerprint(result: Outcome) -> Fingerprint:
    """A short list of numbers that only an equal result shares; empty for an error or a flood."""
    if isinstance(result, str) or sum(part.size for part in result) > LARGEST:
        return []
    shapes = str([(part.shape, part.dtype.name) for part in result])
    flat = flattened(result)
    sums = (signs(flat.size) * flat).sum(1)
    return [zlib.crc32(shapes.encode()), *(float(f"{number:.6g}") for number in sums)]


def flattened(result: Result) -> np.ndarray:
    """All numbers in a row. What is not a number counts as one that no result contains: nothing
    may hide in a sum."""
    flat = np.concatenate([part.astype(np.float64).ravel() for part in result] or [np.zeros(0)])
    return np.nan_to_num(flat, nan=7.25, posinf=11.5, neginf=-13.75)


def signs(size: int) -> np.ndarray:
    """+1 or −1 for each number of each sum, the same on every machine."""
    bits = hashlib.shake_256(b"attnbook").digest(SUMS * (size // 8 + 1))
    spread = np.unpackbits(np.frombuffer(bits, np.uint8)).reshape(SUMS, -1)
    return 1 - 2.0 * spread[:, :size]


def alike(one: Fingerprint, other: Fingerprint, slack: float = 0.0) -> bool:
    """Do two fingerprints belong to results that are equal up to rounding?

    `slack` is how far the sums may be apart besides, for results rounded more coarsely.
    """
    if len(one) != len(other) or one[:1] != other[:1]:
        return False
    return bool(np.allclose(one[1:], other[1:], rtol=1e-3, atol=2e-3 + slack))


def near(result: Result, right: Fingerprint, part: float = CLOSE["rtol"]) -> bool:
    """Is this the result with that fingerprint, each number up to one in a thousand (`part`)?

    Errors of that size, each with a sign, add up to about as much of the length of them all.
    """
    with np.errstate(over="ignore"):
        slack = float(part * np.linalg.norm(flattened(result)))
    return bool(np.isfinite(slack)) and alike(fingerprint(result), right, slack)


def beside(result: Result, right: Result, part: float = CLOSE["rtol"]) -> bool:
    """Are these numbers where the right ones are known, up to ten times what `near` forgives?

    Sums alone can be forged: numbers without limit, of which each sum is 0, are near to anything.
    """
    if [each.shape for each in result] != [each.shape for each in right]:
        return False
    one, other = flattened(result), flattened(right)
    return bool(np.linalg.norm(one - other) <= 10 * (part * np.linalg.norm(other) + 2e-3))
