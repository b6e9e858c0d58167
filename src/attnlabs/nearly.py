"""What is wrong with an answer that is nearly right, whatever the question is.

Its numbers stand in another shape, its rows have another sum, one way leads from it to what is
right, or it is right in one case and stops in another, which has more axes, other lengths or one
argument less.
"""

from collections.abc import Callable, Sequence

import torch

from attnlabs import turned
from attnlabs.inside.fingerprints import Outcome
from attnlabs.question import Case, Sheet

MISTAKES = {
    "axis-of-one": "the numbers are right, but an axis of length 1 is too many or missing",
    "row-sums": "each row of weights is right but for its sum: is a number added to the sum that "
    "divides?",
    "optional": "it stops where its last argument is left out, and so None",
    "axes": "it is right with one number of axes only: count axes from the end (−1 is the last)",
    "lengths": "it is right with some lengths only: is a length written down as a number, or are "
    "two taken for the same that were equal there?",
    "other-axis": "an axis of the result has the length of another one: was the wrong one kept, "
    "joined or cut?",
    "axis-missing": "an axis of the result is missing",
    "axis-left": "the result has an axis that should be gone",
    **turned.MISTAKES,
}


def nearly(
    sheet: Sheet,
    results: Sequence[Outcome],
    passed: Sequence[bool],
    right: Callable[[int, Outcome], bool],
    seen: str,
    private: bool = False,
) -> tuple[str, str]:
    """The mistake's name and a sentence, or two empty ones. `right` says it of one case's result,
    `seen` is what is said of the first case that fails."""
    plain = [n for n, case in enumerate(sheet.cases) if not case.robust]
    failed = [n for n in plain if not passed[n]]
    if not failed:
        return "", ""
    where = f"on the case “{sheet.cases[failed[0]].name}”"
    if all(right(n, without_ones(results[n], sheet.shapes[n])) for n in failed):
        return (
            "axis-of-one",
            f"{where} {of_ones(results[failed[0]], sheet.shapes[failed[0]], private)}",
        )
    weights = sheet.measure == "weights" or "axis" in sheet.mistakes
    if weights and all(right(n, with_sums_of_one(results[n])) for n in failed):
        return "row-sums", f"{where} {MISTAKES['row-sums']}"
    for name, words in (
        turned.turned(sheet, results, failed, right),
        turned.left(sheet, results, failed),
    ):
        if name and "the scale measured" in seen:
            return name, seen
        if name and misshapen(results[failed[0]], sheet.shapes[failed[0]]):
            return name, f"{seen} {words[:1].upper()}{words[1:]}"
        if name:
            return name, f"{where} {words}"
    name, words = in_shape(sheet, results, failed)
    if not name:
        name, words = elsewhere(sheet, results, failed, [n for n in plain if passed[n]])
    if not name and (part := turned.in_part(sheet, results, failed))[0]:
        return part[0], f"{seen} {part[1][:1].upper()}{part[1][1:]}"
    return name, f"{seen.split(' Hint: ')[0]} {words}".rstrip() if name else ""


def without_ones(result: Outcome, shapes: Sequence[Sequence[int]]) -> Outcome:
    """The result in the shape that is due, if only axes of length 1 tell them apart."""
    if isinstance(result, str) or len(result) != len(shapes):
        return ""
    if [longer(part.shape) for part in result] != [longer(shape) for shape in shapes]:
        return ""
    return tuple(part.reshape(shape) for part, shape in zip(result, shapes, strict=True))


def longer(shape: Sequence[int]) -> list[int]:
    return [length for length in shape if length != 1]


def of_ones(result: Outcome, shapes: Sequence[Sequence[int]], private: bool) -> str:
    """What is said of the first part that has another shape."""
    pairs = zip(lengths(result), map(list, shapes), strict=True)
    found, due = next((one, other) for one, other in pairs if one != other)
    much = "too many" if len(found) > len(due) else "missing"
    much = "in another place" if len(found) == len(due) else much
    shown = "" if private else f" {tuple(found)}"
    shape = f"the numbers are right, but not their shape{shown}, expected {tuple(due)}"
    return f"{shape}: an axis of length 1 is {much}."


def with_sums_of_one(result: Outcome) -> Outcome:
    """The result with each row of its last part, the weights, divided by its sum, and so what was
    made with these weights."""
    if isinstance(result, str) or result[-1].dtype == bool or not result[-1].ndim:
        return ""
    sums = result[-1].sum(-1, keepdims=True)
    if not ((result[-1] >= 0).all() and (sums > 0).all()):
        return ""
    try:
        return tuple(part / sums for part in result)
    except ValueError:
        return ""


def elsewhere(
    sheet: Sheet, results: Sequence[Outcome], failed: Sequence[int], passed: Sequence[int]
) -> tuple[str, str]:
    """The name, and what is said of a case that stops or has another shape, where others do not."""
    if not all(misshapen(results[n], sheet.shapes[n]) for n in failed):
        return "", ""
    if not passed:
        return ("lengths", ALWAYS) if always_as_long(sheet, results, failed) else ("", "")
    first = sheet.cases[failed[0]]
    given = [len(sheet.cases[n].arguments) for n in passed]
    if isinstance(results[failed[0]], str) and min(given) > len(first.arguments):
        left = sheet.arguments[len(first.arguments)]
        return "optional", f"Where `{left}` is given it is right; where it is left out, it is None."
    like = min(passed, key=lambda n: len(other_axes(sheet.cases[n], first)))
    other, differ = sheet.cases[like], other_axes(sheet.cases[like], first)
    if differ:
        more = f"`{sheet.arguments[differ[0]]}` has another number of axes"
        words = "count axes from the end, −1 and −2, as any number may stand in front (`.mT` "
        words += "exchanges the last two, `.T` turns all round)."
        return "axes", f"The case “{other.name}”, where {more}, is right: {words}"
    words = "is one written down as a number, or are two taken for the same that are equal there?"
    return "lengths", f"The case “{other.name}”, which has other lengths, is right: {words}"


def in_shape(sheet: Sheet, results: Sequence[Outcome], failed: Sequence[int]) -> tuple[str, str]:
    """The name, and what can be said of a part whose shape is wrong in all cases that fail."""
    whole = [n for n in failed if not isinstance(results[n], str)]
    found, due = [lengths(results[n]) for n in whole], [sheet.shapes[n] for n in whole]
    if not whole or whole[0] != failed[0] or {len(one) for one in found} != {len(due[0])}:
        return "", ""
    for part in range(len(due[0])):
        pairs = [(one[part], other[part]) for one, other in zip(found, due, strict=True)]
        cases = [
            sheet.cases[n] for n, (one, other) in zip(whole, pairs, strict=True) if one != other
        ]
        pairs = [(one, other) for one, other in pairs if one != other]
        if not pairs:
            continue
        if all(len(one) < len(other) for one, other in pairs):
            return "axis-missing", ""
        if all(len(one) > len(other) for one, other in pairs):
            return (
                "axis-left",
                "An axis is left over: is a sum, a mean or a choice along it missing?",
            )
        if any(len(one) != len(other) for one, other in pairs):
            continue
        if all(sorted(one) == sorted(other) for one, other in pairs):
            return "", ""
        for axis in range(-min(len(one) for one, _ in pairs), 0):
            more = {one[axis] - other[axis] for one, other in pairs}
            along = f"along axis {axis}".replace("-", "−")
            if more == {-1}:
                return (
                    "right-one-too-few",
                    f"One is missing {along}: is the first or the last left out?",
                )
            if more == {1}:
                return (
                    "right-one-too-many",
                    f"There is one too many {along}, at the beginning or the end.",
                )
            if 0 not in more:
                long = [one[axis] for one, _ in pairs]
                if other := like(sheet, cases, long):
                    axis_of = f"Axis {axis} of the result".replace("-", "−")
                    return (
                        "other-axis",
                        f"{axis_of} is as long as {other}: which axis belongs there?",
                    )
    return "", ""


def like(sheet: Sheet, cases: Sequence[Case], long: Sequence[int]) -> str:
    """The axis of an argument that is as long as this in all cases."""
    for place in range(min(len(case.arguments) for case in cases)):
        for axis, lengths_of in turned.axes_of([case.arguments[place] for case in cases]):
            if lengths_of == [*long]:
                return f"axis {axis} of `{sheet.arguments[place]}`".replace("-", "−")
    return ""


ALWAYS = "An axis is as long in all cases, whatever the arguments: is a number written down there?"


def misshapen(result: Outcome, shapes: Sequence[Sequence[int]]) -> bool:
    """Has it stopped, or the wrong shape?"""
    return isinstance(result, str) or lengths(result) != [list(shape) for shape in shapes]


def lengths(result: Outcome) -> list[list[int]]:
    return [] if isinstance(result, str) else [list(part.shape) for part in result]


def always_as_long(sheet: Sheet, results: Sequence[Outcome], failed: Sequence[int]) -> bool:
    """Does an axis have one wrong length where different ones are due?"""
    whole = [n for n in failed if not isinstance(results[n], str)]
    found, due = [lengths(results[n]) for n in whole], [sheet.shapes[n] for n in whole]
    if len(found) < 2 or {len(one) for one in found} != {len(due[0])}:
        return False
    for part in range(len(due[0])):
        shapes = [(one[part], other[part]) for one, other in zip(found, due, strict=True)]
        if any(len(one) != len(other) for one, other in shapes):
            continue
        for axis in range(min(len(one) for one, _ in shapes)):
            is_so, should = zip(*((one[axis], other[axis]) for one, other in shapes), strict=True)
            if len(set(is_so)) == 1 and len(set(should)) > 1:
                return True
    return False


def other_axes(one: Case, other: Case) -> list[int]:
    """Places of the arguments that have more or fewer axes in one case than in the other."""
    pairs = enumerate(zip(one.arguments, other.arguments, strict=False))
    return [place for place, (a, b) in pairs if axes(a) != axes(b)]


def axes(argument: object) -> int:
    return argument.dim() if isinstance(argument, torch.Tensor) else 0
