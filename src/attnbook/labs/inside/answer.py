"""What a child process does for one question of a submission. It knows no answers.

Everything here shares its process with the student's code and can be changed by it. So nothing
here decides anything: it hands over numbers, and who holds the answers compares.
"""

import __future__

import ast
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import safetensors.torch
import torch

from attnbook.labs.inside import cells
from attnbook.labs.inside.dependencies import binds, mentions
from attnbook.labs.inside.fingerprints import arrays

Tensors: TypeAlias = Mapping[str, torch.Tensor]

LONGEST = 20_000  # letters of a written answer
LASTING = __future__.annotations.compiler_flag  # once imported, it holds for the whole notebook


def answer(question: Mapping[str, Any], tensors: Tensors, raw: bytes) -> bytes:
    """The reply to one question, as bytes."""
    return written(question, raw) if "written" in question else code(question, tensors, raw)


def written(question: Mapping[str, Any], raw: bytes) -> bytes:
    """The written answers, or what is wrong with the file."""
    try:
        pairs = cells.read(raw)
        tree, wrong = cells.statements(pairs)
    except Exception as error:
        return json.dumps({"error": f"not a notebook ({type(error).__name__})"}).encode()
    answers = {str(n): cells.answer(pairs, n)[:LONGEST] for n in question["written"]}
    note = {"answers": answers, "statements": len(tree), "broken": [text for _, text in wrong[:5]]}
    note["students"] = cells.signed(tree)[:5]
    return json.dumps(note).encode()


def code(question: Mapping[str, Any], tensors: Tensors, raw: bytes) -> bytes:
    """Run the question's part of the notebook, then its function on every case."""
    name = question["name"]
    tree, wrong = cells.statements(cells.read(raw))
    shown = {text for text in question["given"] if cells.only_shows(text)}
    part = [s for s in cells.needed(tree, name) if plain(s) not in shown]
    own = [statement for statement in part if name in binds(statement)]
    if not own:
        return reply({}, missing=cells.why_missing(wrong, name))
    if all(map(cells.is_stub, own)):
        return reply({}, missing="not yet implemented.")
    names, trouble = executed(part)
    function: Any = names.get(name)
    notes: list[str] = []
    results: dict[str, torch.Tensor] = {}
    for number, case in enumerate(question["cases"]):
        try:
            results |= as_tensors(number, function(*arguments(case, tensors)))
            notes.append("")
        except BaseException as error:
            notes.append(short(error))
    used = set(operations(function, arguments(question["cases"][0], tensors), question["banned"]))
    written = [statement for statement in part if plain(statement) not in question["given"]]
    used |= (mentions(written) | unused(part, question["banned"])) & set(question["banned"])
    there = set().union(*map(binds, part))
    calls = [other for other in question["others"] if other in there]
    return reply(results, notes=notes, trouble=trouble, used=sorted(used), calls=calls)


def plain(statement: ast.stmt) -> str:
    """The statement's text without comments; nothing if it is too deep to be written down."""
    try:
        return ast.unparse(statement)
    except RecursionError:
        return ""


def unused(part: Sequence[ast.stmt], banned: Collection[str]) -> set[str]:
    """Which of "without attend" and the like is true: that name is not used at all."""
    there = set().union(*map(binds, part))
    return {rule for rule in banned if rule.startswith("without ") and rule[8:] not in there}


def executed(part: Sequence[ast.stmt]) -> tuple[dict[str, Any], list[str]]:
    """The names that the statements define, and what those that failed said."""
    names: dict[str, Any] = {"__name__": "__main__"}
    trouble: list[str] = []
    flags = 0
    for statement in part:
        try:
            code = compile(ast.Module([statement], []), "notebook", "exec", flags)
            flags |= code.co_flags & LASTING
            exec(code, names)
        except BaseException as error:
            trouble.append(f"line {statement.lineno} of its cell: {short(error)}")
    return names, trouble[:3]


def arguments(case: Sequence[Any], tensors: Tensors) -> list[Any]:
    """Fresh copies of a case's arguments."""
    return [tensors[a].clone() if isinstance(a, str) else a for a in case]


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def as_tensors(number: int, value: Any) -> dict[str, torch.Tensor]:
    """Results as tensors of plain numbers, named after their case and place."""
    parts = enumerate(arrays(value))
    return {f"{number}/{place}": torch.from_numpy(part.copy()) for place, part in parts}


def reply(results: dict[str, torch.Tensor], **note: Any) -> bytes:
    blob = safetensors.torch.save(results) if results else b""
    return json.dumps(note).encode() + b"\n" + blob


def operations(
    function: Callable[..., Any], arguments: Sequence[Any], banned: Collection[str]
) -> list[str]:
    """Which of the banned operations of torch run when the function is called once more."""
    if not banned:
        return []
    try:
        # without kineto, which takes a second to start
        with torch.autograd.profiler.profile(use_kineto=False) as profile:
            function(*arguments)
        names = {event.name.removeprefix("aten::") for event in profile.function_events}
        return sorted(names & set(banned))
    except BaseException:
        return []
