"""Numbers that somebody passes in: checked, and refused in a sentence. Needs no torch."""

import math
import operator
from collections.abc import Mapping
from typing import Any


def check_int(name: str, value: Any, least: int) -> int:
    """`value` as an int of at least `least` (NumPy's integers are ints); ValueError otherwise."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"{name} is {value!r}; a whole number, {least} or more, is needed")
    return number


def check_positive(name: str, value: Any) -> float | None:
    """`value` as a float above 0; None, which means no limit, stays None. ValueError otherwise."""
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, (str, bool)) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not number > 0:
        raise ValueError(f"{name} is {value!r}; a number above 0, or None for no limit")
    return number


def check_same(what: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise a ValueError, `what` and the first three differences, unless what was stored (`there`)
    is what is needed (`here`)."""
    wrong = [
        f"{name} {there.get(name, 'absent')} there, {here.get(name, 'absent')} here"
        for name in {**there, **here}
        if there.get(name) != here.get(name)
    ]
    if wrong:
        more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"{what}: {'; '.join(wrong[:3])}{more}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it can be {', '.join(choices)}")
