"""What would make an answer right: a sign, a factor, an axis, an end, whatever the question is.

Each way back is tried on all plain cases that fail. What is said is true of the numbers, so it
holds however they came about.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch

from attnlabs.inside.fingerprints import Fingerprint, Outcome, Result, fingerprint, same
from attnlabs.question import Argument, Case, Sheet

Turn: TypeAlias = Callable[..., Any]  # from one array to another
Way: TypeAlias = tuple[str, str, Turn]  # a mistake's name, what is said of the numbers, the way
Right: TypeAlias = Callable[[int, Outcome], bool]

# Mistakes that any function can have, as the lecturer's table explains them
MISTAKES = {
    "right-results-order": "the results are right, but they stand in another order",
    "right-negated": "the numbers are right but for the sign",
    "right-logarithms": "these are the logarithms of the right numbers",
    "right-exponentials": "these are e to the power of the right numbers",
    "right-roots": "these are the square roots of the right numbers",
    "right-squares": "these are the squares of the right numbers",
    "right-complements": "these are 1 minus the right numbers",
    "right-inverses": "these are 1 over the right numbers",
    "right-true-false": "the result is right as yes and no, but no tensor of booleans",
    "right-axes-exchanged": "the numbers are right, but axes are exchanged",
    "right-other-shape": "the numbers are right and in the right order, but in another shape",
    "right-reversed": "the numbers are right, but in reverse order along an axis",
    "right-moved": "the numbers are right, but moved by one place along an axis",
    "right-one-too-many": "there is one too many along an axis",
    "right-one-too-few": "one is missing along an axis",
    "right-not-summed": "the numbers are right once they are added up along an axis",
    "right-not-averaged": "the numbers are right once their mean is taken",
    "right-factor": "the numbers are right but for a factor",
    "right-absolute": "these are the right numbers without their signs",
    "right-softmaxed": "this is a softmax of the right numbers",
    "right-normalised": "these are the right numbers, each over the sum of its row",
    "right-summed": "this is the sum of the right numbers",
    "right-averaged": "this is the mean of the right numbers",
    "right-largest": "this is the place of the largest of the right numbers",
    "right-only-first": "this is the first of the right numbers alone",
    "right-only-last": "this is the last of the right numbers alone",
    "right-in-part": "the first or the last of the result is right alone, or all but one of these",
}
EACH: list[Way] = [
    ("right-negated", "right but for the sign", np.negative),
    ("right-logarithms", "the logarithms of the right ones", np.exp),
    ("right-exponentials", "e to the power of the right ones", np.log),
    ("right-roots", "the square roots of the right ones", np.square),
    ("right-squares", "the squares of the right ones", np.sqrt),
    ("right-complements", "1 minus the right ones", partial(np.subtract, 1.0)),
    ("right-inverses", "1 over the right ones", np.reciprocal),
]
ENDS: list[tuple[str, Callable[[int], np.ndarray]]] = [
    ("only the first is right", lambda T: np.arange(T) == 0),
    ("only the last is right", lambda T: np.arange(T) == T - 1),
    ("all are right but the first", lambda T: np.arange(T) > 0),
    ("all are right but the last", lambda T: np.arange(T) < T - 1),
]
CUT = {"first": slice(1, None), "last": slice(None, -1)}
FEW = 4  # numbers; of fewer, a factor explains any


def turned(
    sheet: Sheet, results: Sequence[Outcome], failed: Sequence[int], right: Right
) -> tuple[str, str]:
    """A name and a sentence if all cases that fail become right in one way, or two empty ones."""
    whole = given(results, failed)
    if not whole or not whole[0]:
        return "", ""
    count = len(whole[0])
    for places in itertools.permutations(range(count)) if count > 1 else ():
        orders = [tuple(one[k] for k in places) for one in whole if len(one) == count]
        if len(orders) == len(whole) and all(map(right, failed, orders)):
            return "right-results-order", f"{MISTAKES['right-results-order']}."
    for which, parts in lots(count, "the numbers are", "result {} is"):
        due = [sheet.shapes[n][parts[0]] for n in failed if parts[0] < len(sheet.shapes[n])]
        if len(due) < len(failed):
            return "", ""
        for name, words, turn in [*EACH, *placed(whole[0][parts[0]].ndim, len(due[0]))]:
            if all(map(right, failed, [applied(one, turn, parts) for one in whole])):
                return name, f"{which} {words}."
        shaped = [
            applied(one, partial(reshaped, shape=shape), parts)
            for one, shape in zip(whole, due, strict=True)
        ]
        if all(map(right, failed, shaped)):
            return (
                "right-other-shape",
                f"{which} right and in the right order, but in another shape.",
            )
    return factor(sheet, whole, failed, right)


def given(results: Sequence[Outcome], failed: Sequence[int]) -> list[Result]:
    """The results of these cases; none if one has stopped."""
    whole = [results[n] for n in failed]
    found = [one for one in whole if not isinstance(one, str)]
    return found if len(found) == len(whole) else []


def lots(count: int, every: str, each: str) -> Iterator[tuple[str, Sequence[int]]]:
    """All results at once, then each by itself, with words for them."""
    yield every, range(count)
    for n in range(count) if count > 1 else ():
        yield each.format(n + 1), [n]


def applied(result: Result, turn: Turn, parts: Sequence[int]) -> Outcome:
    """The result after this way in these parts; nothing where it cannot be gone."""
    try:
        with np.errstate(all="ignore"):
            return tuple(
                np.asarray(turn(part)) if k in parts else part for k, part in enumerate(result)
            )
    except (ValueError, IndexError, TypeError):
        return ""


def along(axis: int) -> str:
    return f"along axis {axis}".replace("-", "−")


def placed(found: int, due: int) -> Iterator[Way]:
    """Ways back that move numbers to other places, or take some away."""
    yield (
        "right-true-false",
        "right as yes and no, but a tensor of booleans is asked for",
        as_booleans,
    )
    for one, other in itertools.combinations(range(-found, 0), 2):
        words = f"right, but axes {one} and {other} are exchanged".replace("-", "−")
        yield "right-axes-exchanged", words, partial(np.swapaxes, axis1=one, axis2=other)
    for one, other in itertools.permutations(range(-found, 0), 2):
        words = f"right, but what is axis {one} belongs at axis {other}".replace("-", "−")
        yield "right-axes-exchanged", words, partial(np.moveaxis, source=one, destination=other)
    for axis in range(-found, 0):
        where = along(axis)
        yield "right-reversed", f"right, but in reverse order {where}", partial(np.flip, axis=axis)
        for shift, end in (
            (1, "the first one stands at the end"),
            (-1, "the last one stands in front"),
        ):
            words = f"right, but all moved by one place {where}: {end}"
            yield "right-moved", words, partial(np.roll, shift=shift, axis=axis)
        for end, kept in CUT.items() if found == due else ():
            words = f"right, but there is one too many {where}: the {end} one"
            yield "right-one-too-many", words, partial(cut, axis=axis, kept=kept)
        if found == due + 1:
            yield "right-not-summed", f"right once added up {where}", partial(np.sum, axis=axis)
            yield (
                "right-not-averaged",
                f"right once the mean is taken {where}",
                partial(np.mean, axis=axis),
            )
    if found and not due:
        yield "right-not-averaged", "right once the mean of all is taken", np.mean
        yield "right-not-summed", "right once all are added up", np.sum


def reshaped(part: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return part.reshape(shape)


def as_booleans(part: np.ndarray) -> np.ndarray:
    if part.dtype == bool or not np.isin(part, (0, 1)).all():
        raise ValueError
    return part.astype(bool)


def cut(part: np.ndarray, axis: int, kept: slice) -> np.ndarray:
    return np.moveaxis(np.moveaxis(part, axis, 0)[kept], 0, axis)


def factor(
    sheet: Sheet, whole: Sequence[Result], failed: Sequence[int], right: Right
) -> tuple[str, str]:
    """Whether all numbers of a case are a multiple of the right ones, and what the factor is."""
    used = [measured(one, sheet.right[n]) for one, n in zip(whole, failed, strict=True)]
    if not all(used):
        return "", ""
    divided = [
        tuple(np.asarray(part / size) for part in one)
        for one, size in zip(whole, used, strict=True)
    ]
    if not all(map(right, failed, divided)):
        return "", ""
    enough = any(sum(part.size for part in one) >= FEW for one in whole)
    for what, lengths in known(sheet, [sheet.cases[n] for n in failed]):
        for words, power in (
            ("{} times too large", 1.0),
            ("too small by {}", -1.0),
            ("too large by the root of {}", 0.5),
            ("too small by the root of {}", -0.5),
        ):
            fits_all = np.allclose(used, np.array(lengths) ** power, rtol=2e-3)
            if fits_all and (enough or len({*lengths}) > 1):
                said = words.format(what)
                return "right-factor", f"the numbers are right but for a factor: they are {said}."
    return (
        ("right-factor", "the numbers of each case are right but for a factor.")
        if enough
        else ("", "")
    )


def measured(result: Result, right: Fingerprint) -> float:
    """The factor between two results, read off their fingerprints; 0 if their forms differ."""
    own = fingerprint(result)
    if len(own) != len(right) or own[:1] != right[:1] or any(p.dtype == bool for p in result):
        return 0.0
    one, other = np.array(own[1:]), np.array(right[1:])
    square = float((other * other).sum())
    return float((one * other).sum()) / square if square else 0.0


def known(sheet: Sheet, cases: Sequence[Case]) -> Iterator[tuple[str, list[float]]]:
    """Numbers that a function may divide by: lengths of axes, and arguments that are numbers."""
    for place in range(min(len(case.arguments) for case in cases)):
        arguments = [case.arguments[place] for case in cases]
        name = f"`{sheet.arguments[place]}`"
        numbers = [float(one) for one in arguments if isinstance(one, int | float) and one > 0]
        if len(numbers) == len(cases):
            yield name, numbers
        for axis, lengths in axes_of(arguments):
            if min(lengths) > 0 and max(lengths) > 1:
                yield (
                    f"the length of axis {axis} of {name}".replace("-", "−"),
                    [*map(float, lengths)],
                )


def axes_of(arguments: Sequence[Argument]) -> Iterator[tuple[int, list[int]]]:
    """The axes, counted from the end, that an argument has in all cases, with their lengths."""
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    if len(tensors) == len(arguments):
        for axis in range(-min(one.dim() for one in tensors), 0):
            yield axis, [one.shape[axis] for one in tensors]


def left(sheet: Sheet, results: Sequence[Outcome], failed: Sequence[int]) -> tuple[str, str]:
    """What was made of the right numbers, where these are known: some are lost, and no way leads
    back."""
    whole, answers = given(results, failed), given(sheet.answers, failed if sheet.answers else ())
    if not whole or not answers:
        return "", ""
    for which, parts in lots(len(answers[0]), "the right numbers", "result {}"):
        for name, words, turn in lost(min(one[parts[0]].ndim for one in answers)):
            if all(map(same, whole, [applied(one, turn, parts) for one in answers])):
                return name, f"{words.format(which)}."
    return "", ""


def lost(ndim: int) -> Iterator[Way]:
    """Ways on which numbers are lost."""
    yield "right-absolute", "this is {} without their signs", np.abs
    if ndim:
        yield "right-softmaxed", "this is a softmax of {}, along the last axis", softmax
        yield "right-normalised", "this is {}, each over the sum of its row", over_sum
    for axis in range(-ndim, 0):
        where = along(axis)
        yield "right-summed", f"this is {{}}, added up {where}", partial(np.sum, axis=axis)
        yield "right-averaged", f"this is the mean of {{}} {where}", partial(np.mean, axis=axis)
        yield (
            "right-largest",
            f"this is the place of the largest of {{}} {where}",
            partial(top, axis=axis),
        )
        for place, end in ((0, "first"), (-1, "last")):
            take = partial(np.take, indices=place, axis=axis)
            yield f"right-only-{end}", f"of {{}} this is the {end} {where} alone", take
        for end, kept in CUT.items():
            words = f"this is {{}}, but the {end} one {where} is missing"
            yield "right-one-too-few", words, partial(cut, axis=axis, kept=kept)
    if ndim:
        yield "right-averaged", "this is the mean of {}", np.mean
        yield "right-summed", "this is the sum of {}", np.sum


def softmax(x: np.ndarray) -> np.ndarray:
    return over_sum(np.exp(x - x.max(-1, keepdims=True)))


def over_sum(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / x.sum(-1, keepdims=True))


def top(x: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(x.argmax(axis), dtype=np.float64)


def in_part(sheet: Sheet, results: Sequence[Outcome], failed: Sequence[int]) -> tuple[str, str]:
    """Along which axis an end alone is right, or all but an end, where the answers are known."""
    whole, answers = given(results, failed), given(sheet.answers, failed if sheet.answers else ())
    pairs = list(zip(whole, answers, strict=True)) if answers and whole else []
    if any([a.shape for a in one] != [b.shape for b in other] for one, other in pairs):
        return "", ""
    found = []
    for k in range(len(pairs[0][0]) if pairs else 0):
        tables = [fits(one[k], other[k]) for one, other in pairs]
        which = f"result {k + 1}" if len(pairs[0][0]) > 1 else "the result"
        for axis in range(-min(table.ndim for table in tables), 0):
            lines = [[bool(part.all()) for part in np.moveaxis(t, axis, 0)] for t in tables]
            for words, due in ENDS:
                if (
                    all(line == due(len(line)).tolist() for line in lines)
                    and max(map(len, lines)) > 1
                ):
                    found.append((axis, f"{along(axis)} of {which} {words}."))
                    break
    return ("right-in-part", min(found)[1]) if found else ("", "")


def fits(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.isclose(one, other, rtol=1e-3, atol=1e-4)
