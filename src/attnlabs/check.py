"""`check("attend", attend)` in a student's notebook: right, or what is wrong and where to look.

Knows arguments and fingerprints (`probes.py`), no answers. It never raises.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import CodeType, FrameType
from typing import Any

from attnlabs import errors, own, rules
from attnlabs.inside.effects import changed
from attnlabs.inside.fingerprints import Outcome, outcome, same
from attnlabs.inside.leniency import in_one_precision, uncompiled
from attnlabs.judge import Effects, judge
from attnlabs.probes import sheets
from attnlabs.question import Sheet, copies, gradients

SECONDS = 0.8
# What an untouched stub looks like when compiled, with and without a docstring
STUBS = {
    next(c.co_code for c in compile(text, "", "exec").co_consts if hasattr(c, "co_code"))
    for text in ("def stub(): ...", "def stub():\n    'Words.'\n    ...")
}


def check(name: object, function: object, student: str = "") -> None:
    """Say in one or two sentences whether `function` answers the question called `name`.

    `student` is whose copy of the lab it is, for copies that differ.
    """
    name = name if type(name) is str else type(name).__name__  # anything else may raise when shown
    try:
        print(f"{name}: {sentence(name, function, student)}")
    except BaseException as error:  # whatever is passed in here, the notebook goes on
        print(f"{name}: the check could not finish ({type(error).__name__}).")


def check_for(student: object) -> Callable[..., None]:
    """The check for the copy of one student."""
    return partial(check, student=str(student))


def sentence(name: str, function: object, student: str = "") -> str:
    """What `check` prints."""
    known = sheets(student)
    if name not in known:
        return f"there is no such question; there are {', '.join(known)}."
    code = getattr(function, "__code__", None)
    if function is ... or function is None:
        return "not yet implemented."
    if not callable(function):
        return f"a function is needed, not {type(function).__name__}."
    if code is not None and code.co_code in STUBS and empty(code):
        return "not yet implemented."
    return tried(known[name], function)


def empty(code: CodeType) -> bool:
    """A body that is `...` at most: no names, and no constants but a docstring and then None."""
    constants = code.co_consts
    return (
        not code.co_names
        and all(isinstance(c, str | None) for c in constants[:2])
        and (constants[-1] is None and len(constants) <= 2)
    )


def tried(sheet: Sheet, function: Callable[..., Any]) -> str:
    """What is to be said of a function after it was called on all cases of a question."""
    with uncompiled():
        return said_of(sheet, function)


def said_of(sheet: Sheet, function: Callable[..., Any]) -> str:
    """The same, of a function that runs as it is written."""
    deadline = time.monotonic() + SECONDS
    first = called(sheet, function, deadline)
    if isinstance(first, Late):  # the first call may have loaded a library: once more
        deadline = time.monotonic() + SECONDS
        first = called(sheet, function, deadline)
    if isinstance(first, Late):
        return f"on the case “{first}” it takes too long; is there an endless loop?"
    if isinstance(first, str):
        return first
    if sheet.own:
        return own.said(sheet.own, sheet.student, first, function)
    done = effects(sheet, function, deadline)
    verdict = judge(sheet, first, effects=done)
    again = called(sheet, function, deadline) if verdict.share < 1 else first
    if isinstance(again, list) and not all(map(equal, first, again)):
        verdict = judge(sheet, first, random=True, effects=done)
    ruled_out = rules.broken(function, sheet.banned) if verdict.share else []
    return verdict.text + rules.told(ruled_out)


def effects(sheet: Sheet, function: Any, deadline: float) -> Effects:
    """What a function (or what stands in its place) does beside its answers, as far as there is
    time to see it."""
    places: set[int] = set()
    slopes = None
    with suppress(BaseException), no_longer_than(deadline - time.monotonic()):
        for case in sheet.cases:
            given = list(copies(case.arguments))
            with suppress(Exception):
                in_one_precision(function, given)
            places |= changed(given, case.arguments)
        slopes = gradients(function, sheet.cases, sheet.trained)
    return Effects(sorted(places), slopes)


def called(
    sheet: Sheet, function: Callable[..., Any], deadline: float
) -> "list[Outcome] | str | Late":
    """What a function answers to all cases; a sentence that says all, or Late with the case."""
    results: list[Outcome] = []
    for case in sheet.cases:
        try:
            with no_longer_than(deadline - time.monotonic()):
                result = outcome(function, copies(case.arguments))
        except Late:
            return Late(case.name)
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        if isinstance(result, str) and result.startswith("NotImplementedError"):
            return "not yet implemented."
        if result == errors.NOTHING:
            return errors.NO_RETURN
        results.append(result)
    return results


def equal(one: Outcome, other: Outcome) -> bool:
    """Is it the same answer? Errors are not compared: a message may name an address."""
    return isinstance(one, str) or isinstance(other, str) or same(one, other)


class Late(BaseException):
    """The time is up. Not an Exception, so that a student's `except Exception` lets it pass."""


def loading(frame: FrameType | None) -> bool:
    """Is a library being loaded by what was called? Half of one would stay for all later cells.

    The first optimizer of a notebook loads torch's compiler, which may take longer than a check.
    """
    while frame is not None and "attnlabs" not in str(frame.f_globals.get("__name__")):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def no_longer_than(seconds: int | float) -> Iterator[None]:
    """Raise Late in here after some seconds, where the system has a clock that can interrupt."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def late(_: int, frame: FrameType | None) -> None:
        if not loading(frame):
            raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01), 0.05)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # the clock may strike in the line above, and must not go on in the notebook
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
