"""Which options of a lab a student gets: a hash of the student's name decides.

So nothing has to be stored: the copy, the check in it and the grading each draw the same.
"""

import hashlib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping

from attnlabs.question import Choices

FORM = re.compile(r"[\w.@+-]{1,60}")


def drawn(lab: int | str, choices: Mapping[str, Collection[str]], student: str) -> dict[str, str]:
    """The option of each choice, {choice: option}; for nobody ("") always the first one.

    `lab` is the lab's number; `choices` has the options of each choice in their order.
    """
    return {
        choice: list(options)[place(lab, choice, student, len(options))]
        for choice, options in choices.items()
    }


def place(lab: int | str, choice: str, student: str, count: int) -> int:
    """A whole number below `count`."""
    digest = hashlib.sha256(f"{lab}/{choice}/{student}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % count if student else 0


def every(choices: Mapping[str, Collection[str]]) -> Iterator[dict[str, str]]:
    """All ways to take one option of each choice."""
    for options in itertools.product(*choices.values()):
        yield dict(zip(choices, options, strict=True))


def flips(choices: Choices, options: Mapping[str, str], name: str) -> dict[str, str]:
    """The mistakes that are right with these options in the question of that name, in words."""
    words: dict[str, str] = {}
    for choice, option in options.items():
        words |= choices[choice][option].flips.get(name, {})
    return words


def concerning(choices: Choices, name: str) -> list[str]:
    """The choices that change what is right in the question of that name."""
    return [
        choice
        for choice, options in choices.items()
        if any(name in option.flips for option in options.values())
    ]


def checked(student: str) -> str:
    """The student's name as it may stand in a notebook and in a file's name, or a ValueError."""
    if not FORM.fullmatch(student):
        raise ValueError(
            f"{student!r} cannot name a copy: letters, digits and . _ - @ + can, up to 60 of them"
        )
    return student


def replaced(text: str, choices: Choices, options: Mapping[str, str]) -> str:
    """A cell's text as it is with these options."""
    for choice, option in options.items():
        for old, new in choices[choice][option].text.items():
            text = text.replace(old, new)
    return text
