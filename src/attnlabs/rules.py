"""What a question rules out, `Question.banned`: torch's own softmax where it is to be written.

Who uses it has right numbers. The lecturer is told, and decides; the student is told that.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any

from attnlabs.inside.dependencies import bare, breaks, mentions, uses


def words(rule: str) -> str:
    """What somebody did who broke a rule."""
    if "." in rule:
        return f"calls {rule}"
    return rule if rule.startswith("without ") else f"uses torch's {rule}"


def told(broken: Sequence[str]) -> str:
    """What a student is told of it, as a sentence that stands behind another."""
    if not broken:
        return ""
    first = broken[0]
    what = f"it {words(first)}, which is ruled out here"
    if first.startswith("without "):
        what = f"it does not use `{first.removeprefix('without ')}`, which it should be made with"
    return f" But {what}: whoever grades decides about the points."


def broken(function: Callable[..., Any], banned: Collection[str]) -> list[str]:
    """Which rules a function breaks, as its code and that of the functions it calls say. Nothing if
    its code is not at hand."""
    trees, names, of_torch = written(function) if banned else ([], set(), set())
    if not trees:
        return []
    found = breaks(trees, function.__name__, banned) | (of_torch & set(banned))
    named = {bare(rule) for rule in found}
    other = {bare(name) for name in of_torch | mentions(trees)} - named  # such as torch.nn.Softmax
    found |= {rule for rule in banned if bare(rule) in other}
    unused = {rule for rule in banned if rule.startswith("without ") and rule[8:] not in names}
    return sorted(found | unused)


def written(function: Callable[..., Any]) -> tuple[list[ast.stmt], set[str], set[str]]:
    """The code of a function and of those of the same notebook that it calls, the names in it, and
    what torch calls those of them that are torch's."""
    trees: list[ast.stmt] = []
    names: set[str] = set()
    torchs: set[str] = set()
    waiting: list[Any] = [function]
    known: set[int] = set()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, FunctionType) or id(one) in known:
            continue
        known.add(id(one))
        with suppress(Exception):
            part = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            trees += part
            for name in set().union(*map(uses, part)):
                behind = one.__globals__.get(name)
                names.add(name)
                if str(getattr(behind, "__module__", "")).startswith("torch"):
                    torchs.add(str(getattr(behind, "__name__", "")))
                waiting += [behind] if getattr(behind, "__globals__", 0) is one.__globals__ else []
    return trees, names, torchs
