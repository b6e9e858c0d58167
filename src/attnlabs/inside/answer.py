"""What a child process does for one question of a submission. It knows no answers.

Everything here shares its process with the student's code and can be changed by it. So nothing
here decides anything: it hands over numbers, and who holds the answers compares.
"""

import __future__

import ast
import hashlib
import importlib
import json
import keyword
import linecache
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import safetensors.torch
import torch

from attnlabs.inside import cells
from attnlabs.inside.dependencies import binds, breaks, mentions, of_libraries, reached, uses
from attnlabs.inside.effects import slopes
from attnlabs.inside.fingerprints import Result, arrays, same
from attnlabs.inside.leniency import eager, in_one_precision

Tensors: TypeAlias = Mapping[str, torch.Tensor]

LEAST_OWN = 400  # letters of code, below which two may have written the same
# What a function that computes does not need, and one that looks for answers does
LOOKS_AROUND = {"attnlabs", "attnbook", "bookkit", "gc", "inspect", "ctypes", "importlib"}
LOOKS_AROUND |= {"_getframe", "_current_frames", "f_back", "f_locals", "f_globals", "settrace"}
LOOKS_AROUND |= {"__globals__", "__import__", "__builtins__", "__dict__", "__subclasses__"}
LOOKS_AROUND |= {"exec", "eval", "globals", "locals", "vars", "sys"}
# What an answer is made of; of other modules a person is told, be they libraries or ways out
COMPUTES = {"torch", "numpy", "math", "cmath", "random", "statistics", "fractions", "decimal"}
COMPUTES |= {"itertools", "functools", "collections", "operator", "heapq", "bisect", "copy", "re"}
COMPUTES |= {"typing", "types", "dataclasses", "enum", "abc", "numbers", "string", "struct"}
COMPUTES |= {"contextlib", "warnings", "time", "json", "pickle", "io", "os", "pathlib", "tqdm"}
COMPUTES |= {"jaxtyping", "matplotlib", "__future__"}
# A text, or a name that is not taken out of an object
WORD = re.compile(
    r"(?P<text>\w*(?:\"\"\".*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"))"
    r"|(?<![\w.])[^\W\d]\w*",
    re.DOTALL,
)
LONGEST = 20_000  # letters of a written answer
FILE = "notebook"  # what the files of its cells are called in errors
LASTING = __future__.annotations.compiler_flag  # once imported, it holds for the whole notebook
AGAIN = 1.0  # seconds that all cases may take if they are to be tried a second time


def answer(question: Mapping[str, Any], tensors: Tensors, raw: bytes) -> bytes:
    """The reply to one question, as bytes."""
    if "written" in question:
        return written(question, raw)
    if "part" in question:
        return importlib.import_module("attnlabs.inside.parts").answer(question, raw)
    if "list" in question:
        return listed(question, raw)
    if "slopes" in question:
        return learnt(question, tensors, raw)
    return code(question, tensors, raw)


def written(question: Mapping[str, Any], raw: bytes) -> bytes:
    """The written answers and why functions are missing, or what is wrong with the file.

    No code of the student has run where this is said, so it is what the file says.
    """
    try:
        pairs = cells.read(raw)
        tree, wrong = cells.statements(pairs)
    except Exception as error:
        return json.dumps({"error": type(error).__name__}).encode()
    answers = {str(n): cells.answer(pairs, n)[:LONGEST] for n in question["written"]}
    note = {"answers": answers, "statements": len(tree), "broken": [text for _, text in wrong[:5]]}
    functions = question.get("functions", ())
    missing = {name: cells.missing(tree, wrong, name) for name in functions}
    there = {name: reached(cells.needed(tree, name), name) for name in functions}
    calls = {name: sorted(set(functions) & there[name]) for name in functions}
    note |= {"students": cells.signed(tree)[:5], "missing": missing, "calls": calls}
    note["unknown"] = {name: cells.unknown(tree, name)[:2] for name in functions}
    given, rules = question.get("given", []), question.get("banned", {})
    note["used"] = {name: used(tree, name, given, rules[name]) for name in rules}
    own = sorted(text for text in map(plain, tree) if text not in given)
    if sum(map(len, own)) >= LEAST_OWN:
        note["own"] = checksum(own)
        note["form"] = checksum(sorted(map(nameless, own)))
    return json.dumps(note).encode()


def checksum(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode(errors="replace")).hexdigest()


def nameless(text: str) -> str:
    """A statement with its names numbered in the order in which they come, without its texts."""
    numbers: dict[str, str] = {}

    def word(found: re.Match[str]) -> str:
        name = found[0]
        if found["text"]:
            return "''"
        return name if keyword.iskeyword(name) else numbers.setdefault(name, f"n{len(numbers)}")

    lines = WORD.sub(word, text).splitlines()
    return "\n".join(line for line in lines if line.strip() != "''")


def used(
    tree: Sequence[ast.stmt], name: str, given: Collection[str], banned: Sequence[str]
) -> list[str]:
    """What a function uses by name although the question forbids it, and what looks around in the
    process instead of computing. As the file says, before anything in it runs."""
    part = cells.needed(tree, name)
    mine = [statement for statement in part if plain(statement) not in given]
    names = set().union(*map(uses, mine))
    loaded = modules(mine)
    words = (mentions(mine) - {"eval"}) | names | loaded  # a model's eval() is another
    found = breaks(mine, name, banned) | unused(part, banned)
    around = words & LOOKS_AROUND | (loaded - COMPUTES) | computed(mine)
    around |= {name for name in of_libraries(mine) if name.startswith("_")} - {"__version__"}
    return sorted(found) + sorted(around - found)


def computed(statements: Sequence[ast.stmt]) -> set[str]:
    """What takes something out of an object under a name that only running tells."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    named = {"getattr": 1, "attrgetter": 0, "methodcaller": 0, "__getattribute__": -1}
    found = [(called_as(call), call.args) for call in calls]
    return {
        name
        for name, given in found
        if name in named
        and any(not isinstance(word, ast.Constant) for word in given[named[name] :])
    }


def called_as(call: ast.Call) -> str:
    """The last name of what is called: attrgetter, of `operator.attrgetter("a")`."""
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def modules(statements: Sequence[ast.stmt]) -> set[str]:
    """The first names of all modules that are imported."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def listed(question: Mapping[str, Any], raw: bytes) -> bytes:
    """The lines that `question["list"]` leaves out, and where a person finds them. Nothing runs."""
    part = belonging(question, raw)[0]
    lines = [
        f"`{plain(statement).splitlines()[0][:60]}` (cell {getattr(statement, 'cell', '?')})"
        for statement in cells.left_out(part, question["list"] == "strict")
    ]
    return json.dumps(lines[:5]).encode()


def belonging(
    question: Mapping[str, Any], raw: bytes
) -> tuple[list[ast.stmt], list[tuple[str, str]]]:
    """What a question needs of the notebook, without the lab's own lines; the unreadable cells."""
    tree, wrong = cells.statements(cells.read(raw))
    shown = {text for text in question["given"] if cells.only_shows(text)}
    part = cells.needed([s for s in tree if plain(s) not in shown], question["name"])
    out = cells.left_out(part, question["left"] == "strict") if "left" in question else []
    return [statement for statement in part if statement not in out], wrong


def code(question: Mapping[str, Any], tensors: Tensors, raw: bytes) -> bytes:
    """Run the question's part of the notebook, then its function on every case."""
    name, banned = question["name"], question["banned"]
    part, wrong = belonging(question, raw)
    if cells.missing(part, wrong, name):
        return reply({}, missing=True)
    functions = {name, *question["others"]}
    torch.compile = eager
    names, trouble = executed(part, functions, right_ones(question.get("right", {})))
    function: Any = names.get(name)
    results, note, seconds = tried(function, question["cases"], tensors)
    note["trouble"] = trouble
    if seconds < AGAIN:
        note["random"] = differs(function, question["cases"], tensors, results)
    ran = operations(function, arguments(question["cases"][0], tensors), banned)
    return reply(results, used=ran, **note)


def tried(
    function: Callable[..., Any], cases: Sequence[Sequence[Any]], tensors: Tensors
) -> tuple[dict[str, torch.Tensor], dict[str, Any], float]:
    """The results of all cases, and the arguments as they are afterwards; a note of what those that
    stopped said; how many seconds it took."""
    started, notes = time.monotonic(), []
    results: dict[str, torch.Tensor] = {}
    for number, case in enumerate(cases):
        given = arguments(case, tensors)
        try:
            results |= as_tensors(str(number), arrays(in_one_precision(function, given)))
            notes.append("")
        except BaseException as error:
            notes.append(short(error))
        left = [each for each in given if isinstance(each, torch.Tensor)]
        left = [each.new_zeros(0) if each.requires_grad else each for each in left]  # marked
        with suppress(Exception):
            results |= as_tensors(f"after/{number}", arrays(tuple(left)) if left else ())
    return results, {"notes": notes}, time.monotonic() - started


def learnt(question: Mapping[str, Any], tensors: Tensors, raw: bytes) -> bytes:
    """The gradients that training needs, as far as they can be taken, in a process of their own:
    a slow function has its numbers before."""
    part, _ = belonging(question, raw)
    torch.compile = eager
    functions = {question["name"], *question["others"]}
    names, _ = executed(part, functions, right_ones(question.get("right", {})))
    results: dict[str, torch.Tensor] = {}
    for number in question["plain"]:
        case = arguments(question["cases"][number], tensors)
        with suppress(BaseException):
            found = slopes(names[question["name"]], case, question["trained"])
            if not isinstance(found, str):
                results |= as_tensors(f"slopes/{number}", found)
    return reply(results)


def differs(
    function: Callable[..., Any],
    cases: Sequence[Sequence[Any]],
    tensors: Tensors,
    results: Mapping[str, torch.Tensor],
) -> bool:
    """Does the function answer otherwise when it is asked a second time?"""
    again = tried(function, cases, tensors)[0]
    return any(
        name in again
        and not name.startswith("after/")
        and again[name].shape == result.shape
        and not same((again[name].numpy(),), (result.numpy(),))
        for name, result in results.items()
    )


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


def right_ones(sources: Mapping[str, str]) -> dict[str, Any]:
    """Functions that take the place of the student's, each made of its own source."""
    found: dict[str, Any] = {}
    for name, source in sources.items():
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(source, names)
        found[name] = names[name]
    return found


def executed(
    part: Sequence[ast.stmt], functions: Collection[str], right: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The names that the statements define, and what those that failed said.

    `functions` stay functions: `scores = scores(q, k)`, tried out below, is not the answer. Those
    in `right` are these, whatever a statement says.
    """
    names: dict[str, Any] = {"__name__": "__main__", **right}
    trouble: list[str] = []
    flags = 0
    for statement in part:
        before = {name: names[name] for name in functions if callable(names.get(name))}
        try:
            code = compile(ast.Module([statement], []), listed_source(statement), "exec", flags)
            flags |= code.co_flags & LASTING
            exec(code, names)
        except BaseException as error:
            trouble.append(short(error))
        names |= {name: old for name, old in before.items() if not callable(names.get(name))}
        names |= {name: right[name] for name in binds(statement) & set(right)}
    return names, trouble[:3]


def listed_source(statement: ast.stmt) -> str:
    """A file's name for the statement's cell, under which its lines are found: `torch.jit.script`
    and all who ask `inspect` read the text of a function."""
    text, name = getattr(statement, "text", ""), f"{FILE} cell {getattr(statement, 'cell', 0)}"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    return name


def arguments(case: Sequence[Any], tensors: Tensors) -> list[Any]:
    """Fresh copies of a case's arguments."""
    return [tensors[a].clone() if isinstance(a, str) else a for a in case]


def short(error: BaseException) -> str:
    """An error in a line: `ValueError (line 3 of attend): the message`; the line is the cell's."""
    where, step = "", error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename.startswith(FILE):
            place = step.tb_frame.f_code.co_name
            where = f" (line {step.tb_lineno} of {'a cell' if place == '<module>' else place})"
        step = step.tb_next
    return f"{type(error).__name__}{where}: {str(error)[:200]}"


def as_tensors(case: str, parts: Result) -> dict[str, torch.Tensor]:
    """Results as tensors of plain numbers, named after their case and place."""
    named = enumerate(parts)
    return {f"{case}/{place}": torch.from_numpy(part.copy()) for place, part in named}


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
        events = [event.name.removeprefix("aten::") for event in profile.function_events]
        names = {name for event in events for name in (event, event.lstrip("_"))}
        return sorted(names & set(banned))
    except BaseException:
        return []
