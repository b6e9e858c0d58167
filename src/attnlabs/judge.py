"""What is wrong with the answers to one question, said in a sentence or two."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from attnlabs import errors, own
from attnlabs.inside.fingerprints import (
    Fingerprint,
    Outcome,
    Result,
    alike,
    beside,
    fingerprint,
    near,
    same,
)
from attnlabs.nearly import MISTAKES, nearly
from attnlabs.question import Case, Sheet
from attnlabs.turned import turned

# Mistakes that any function can have, beside those that its question knows
GENERAL = {
    "random": "asked twice with the same arguments it gives different answers: is there dropout in "
    "it, another random number, or something that it keeps from call to call?",
    "in-place": "it changes an argument in place; work on a copy, such as `x.clone()`",
    "gradient": "its result has no gradient, or not all of it, towards what is trained: `.data`, "
    "`.detach()`, `.item()`, `torch.tensor(…)`, numpy and overwritten tensors lose it",
    **MISTAKES,
}
SLOPES = 0.05  # how far a gradient may be from the right one, in parts of its length
PART = 0.5  # of the points, for right numbers with one of the last two


@dataclass(frozen=True)
class Verdict:
    """The share of the points (0 to 1), a sentence, and the names of the mistakes recognised."""

    share: float
    text: str
    mistakes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Effects:
    """What calls did besides: places of arguments that they changed, and for each plain case the
    gradients towards those that are trained (None where nobody has taken them)."""

    changed: Sequence[int] = ()
    slopes: Sequence[Outcome] | None = None


@np.errstate(all="ignore")
def judge(
    sheet: Sheet,
    results: Sequence[Outcome],
    random: bool = False,
    say: Callable[[str], str] = errors.quoted,
    effects: Effects = Effects(),  # it cannot be changed
    private: bool = False,
) -> Verdict:
    """Compare one result per case, arrays or a sentence about an error, with the sheet.

    `random`: the function does not answer twice alike. `say` puts an error into words. If what the
    function was asked is `private`, nothing is said that it can have chosen, such as a shape.
    """
    if sheet.own:
        return of_one_student(sheet, results, random, say)
    verdict = by_numbers(sheet, results, random, say, private)
    mistake, words = besides(sheet, results, effects)
    if not mistake:
        return verdict
    head = "the numbers are right, but" if verdict.share == 1 else f"{verdict.text} Besides,"
    text = f"{head} {words}"
    return Verdict(PART * verdict.share, text, (*verdict.mistakes, mistake))


def besides(sheet: Sheet, results: Sequence[Outcome], effects: Effects) -> tuple[str, str]:
    """What a function does wrong beside its numbers: the mistake's name, and a sentence."""
    if effects.changed:
        names = dict.fromkeys(f"`{sheet.arguments[place]}`" for place in effects.changed)
        what = f"argument {listed(names)}" if len(names) == 1 else f"arguments {listed(names)}"
        copy = f"{next(iter(names)).strip('`')}.clone()"
        return "in-place", f"it changes its {what} in place; work on a copy, such as `{copy}`."
    plain = [n for n, case in enumerate(sheet.cases) if not case.robust]
    if all(right_one(sheet, n, results[n]) for n in plain):
        for number, found in enumerate(effects.slopes or ()):
            if words := lost(sheet, number, found):
                return "gradient", words
    return "", ""


def lost(sheet: Sheet, number: int, found: Outcome) -> str:
    """A sentence if the gradients of a plain case are not those of its numbers."""
    right: Sequence[Fingerprint] = sheet.slopes[number]
    why = "`.data`, `.detach()`, `.item()`, `torch.tensor(…)` and numpy lose it."
    if isinstance(found, str) or len(found) != len(right):
        return f"its gradient cannot be taken: {why} So does a tensor that is overwritten later."
    names = [f"`{sheet.arguments[place]}`" for place in sheet.trained]
    none = [name for name, part in zip(names, found, strict=True) if not part.size]
    if none:
        return f"its result has no gradient towards {listed(dict.fromkeys(none))}: {why}"
    sums = [near((part,), one, SLOPES) for part, one in zip(found, right, strict=True)]
    if sheet.learnt:
        pairs = zip(found, sheet.learnt[number], strict=True)
        numbers = [beside((part,), (one,), SLOPES) for part, one in pairs]
        sums = [fits and there for fits, there in zip(sums, numbers, strict=True)]
    other = [name for name, fits in zip(names, sums, strict=True) if not fits]
    if other:
        return f"its result has lost a part of its gradient towards {listed(other)}: {why}"
    return ""


def listed(names: Iterable[str]) -> str:
    """Names as in a sentence: `q`, `k` and `v`."""
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last


def by_numbers(
    sheet: Sheet,
    results: Sequence[Outcome],
    random: bool,
    say: Callable[[str], str],
    private: bool,
) -> Verdict:
    """The verdict on the numbers alone."""
    prints = [fingerprint(result) for result in results]
    passed = [right_one(sheet, n, result) for n, result in enumerate(results)]
    if all(passed):
        return Verdict(1.0, f"right: all {len(passed)} cases pass.")
    plain = [n for n, case in enumerate(sheet.cases) if not case.robust]
    counted = plain if not all(passed[n] for n in plain) else range(len(passed))
    total = sum(case.weight for case in sheet.cases)
    share = sum(sheet.cases[n].weight for n in counted if passed[n]) / total
    failed = [n for n in counted if not passed[n]]
    if random:
        return Verdict(share, GENERAL["random"], ("random",))
    wrong, where = recognised(sheet, prints, passed, plain)
    right = partial(right_one, sheet)
    if len(wrong) == 2:  # one is the simpler explanation
        every = [n for n, fine in enumerate(passed) if not fine]
        name, words = turned(sheet, results, every, right)
        if name and name != "right-factor":
            return Verdict(share, words, (name,))
    if wrong:
        text = named(sheet, wrong, results if not (private and where) else [])
        return Verdict(share, (f"on the case “{where}” " if where else "") + text, wrong)
    text = seen(sheet, failed[0], results, say, private)
    name, words = nearly(sheet, results, passed, right, text, private)
    return Verdict(share, words or text, (name,) if name else ())


def of_one_student(
    sheet: Sheet, results: Sequence[Outcome], random: bool, say: Callable[[str], str]
) -> Verdict:
    """The verdict where what is right is the student's alone."""
    if random:
        return Verdict(0.0, GENERAL["random"], ("random",))
    if all(isinstance(result, str) for result in results):
        return Verdict(0.0, own.stopped(sheet.own, say(str(results[0]))))
    share, mistakes, text = own.judged(sheet.own, sheet.student, results, sheet.cases)
    return Verdict(share, text, mistakes)


def right_one(sheet: Sheet, n: int, result: Outcome) -> bool:
    """Does one case pass? The student's check and the grading ask the same, on other numbers."""
    if isinstance(result, str):
        return False
    if not sheet.answers:
        return any(near(result, right[n]) for right in (sheet.right, *sheet.also))
    known = zip((sheet.right, *sheet.also), (sheet.answers, *sheet.alternatives), strict=True)
    return any(
        same(result, answers[n]) or (near(result, right[n]) and beside(result, answers[n]))
        for right, answers in known
    )


def recognised(
    sheet: Sheet, prints: Sequence[Fingerprint], passed: Sequence[bool], plain: Sequence[int]
) -> tuple[tuple[str, ...], str]:
    """The fewest mistakes that explain all cases, else all plain ones, else one that fails."""
    everywhere: Sequence[int] = range(len(prints))
    first = next(n for n, fine in enumerate(passed) if not fine)
    for cases, where in ((everywhere, ""), (plain, ""), ([first], sheet.cases[first].name)):
        if all(passed[n] or not prints[n] for n in cases):
            continue
        for wrong, known in sheet.known:
            if all(alike(prints[n], known[n]) for n in cases):
                return tuple(wrong), where
    return (), ""


def named(sheet: Sheet, wrong: Sequence[str], results: Sequence[Outcome]) -> str:
    """The mistakes in words, with the scale that was measured if it is one of them."""
    sentences = [sheet.mistakes[name] for name in wrong]
    head = "consistent with: " if len(wrong) == 1 else "consistent with two mistakes at once: "
    measured = scale(sheet, results) if results and set(wrong) & set(sheet.shifts) else None
    tail = ""
    if measured is not None:
        tail = f" (the scale measured is {measured:.3g}, expected {due(sheet):.3g})"
    return head + "; and ".join(sentences) + tail + "."


def due(sheet: Sheet) -> float:
    """What the dot products of the first case are to be multiplied by."""
    return 1 / math.sqrt(torch.as_tensor(sheet.cases[0].arguments[0]).shape[-1])


def scale(sheet: Sheet, results: Sequence[Outcome]) -> float | None:
    """What the dot products of the first case were multiplied by, read off by regression.

    None if the result is no multiple of the dot products.
    """
    case, result = sheet.cases[0], results[0]
    if isinstance(result, str):
        return None
    q, k = (torch.as_tensor(argument).double().numpy() for argument in case.arguments[:2])
    products = q @ np.swapaxes(k, -1, -2)
    try:
        read = result[-1] if sheet.measure == "weights" else result[0]
        if sheet.measure == "weights":  # log-weights are the scores plus a number for each row
            with np.errstate(all="ignore"):
                read = np.log(read) - np.log(read).mean(-1, keepdims=True)
            products = products - products.mean(-1, keepdims=True)
        used = (read * products).sum() / (products * products).sum()
        fits = np.allclose(read, used * products, atol=0.02 * np.abs(read).max())
    except (ValueError, TypeError, IndexError):
        return None
    return float(used) if fits else None


def seen(
    sheet: Sheet,
    n: int,
    results: Sequence[Outcome],
    say: Callable[[str], str] = errors.quoted,
    private: bool = False,
) -> str:
    """What can be said of a result without knowing how it came about."""
    case, shapes, result = sheet.cases[n], sheet.shapes[n], results[n]
    where = f"on the case “{case.name}”"
    if isinstance(result, str):
        words = say(result)
        return words if words == "not yet implemented." else f"{where} {words}"
    if len(result) != len(shapes):
        count = "too small" if len(result) < len(shapes) else "too large"
        count = count if private else str(len(result))
        return f"{where} the number of results is {count}, expected {len(shapes)}."
    for part, shape in zip(result, shapes, strict=True):
        if list(part.shape) != shape:
            found = compared(part.shape, shape) if private else str(tuple(part.shape))
            return (
                f"{where} the shape is {found}, expected {tuple(shape)}"
                f"{missed(part.shape, shape) or '.'}"
            )
    for part in result:
        if part.dtype != bool and np.isnan(part).any():
            rows = sorted(set(np.argwhere(np.isnan(part))[:, -2])) if part.ndim > 1 else []
            which = "a row" if private else f"row {rows[0]}" if rows else ""
            row = f"{which} became NaN" if len(rows) == 1 else "there are NaNs"
            return f"{where} {row}: look for 0 divided by 0, ∞ − ∞ or ∞ divided by ∞."
    words = about_weights(sheet, case, result, results, private)
    return f"{where} " + (words or "the numbers are wrong.")


def missed(shape: Sequence[int], due: Sequence[int]) -> str:
    """A hint at how a shape came about."""
    if len(shape) < len(due):
        return "; a sum, a mean or an index such as [0] takes an axis away."
    if len(shape) == len(due) and sorted(shape) == sorted(due):
        return "; are axes exchanged?"
    return ""


def compared(shape: Sequence[int], due: Sequence[int]) -> str:
    """What is wrong with a shape, without a number of it."""
    if len(shape) != len(due):
        return "one with fewer axes" if len(shape) < len(due) else "one with more axes"
    if sorted(shape) == sorted(due):
        return "that with axes exchanged"
    return "another one"


def about_weights(
    sheet: Sheet, case: Case, result: Result, results: Sequence[Outcome], private: bool
) -> str:
    """Properties that weights must have: hidden places are 0, rows sum to 1, the scale is right."""
    masks = [a for a in case.arguments if isinstance(a, torch.Tensor) and a.dtype == torch.bool]
    weights = result[-1]
    if masks and weights.dtype != bool and weights.shape[-2:] == tuple(masks[0].shape[-2:]):
        hidden = np.broadcast_to(~masks[0].numpy(), weights.shape)
        if np.abs(weights[hidden]).max(initial=0) > 1e-3:
            most = np.abs(weights[hidden]).max()
            amount = "a weight" if private else f"weight {most:.2f}"
            return f"a place that the mask hides has {amount}."
    if (sheet.measure == "weights" or "axis" in sheet.mistakes) and (weights >= 0).all():
        sums = weights.sum(-1)
        if np.abs(sums - 1).max() > 1e-3 and not case.robust:
            if private:
                return "a row of weights does not sum to 1."
            return f"a row of weights sums to {sums.ravel()[np.abs(sums - 1).argmax()]:.2f}, not 1."
    used = scale(sheet, results) if sheet.measure else None
    if used is not None and abs(used - due(sheet)) > 0.01 * due(sheet):
        size = "too small" if used < due(sheet) else "too large"
        size = size if private else f"{used:.3g}"
        return f"the scale measured is {size}, expected {due(sheet):.3g}."
    return ""
