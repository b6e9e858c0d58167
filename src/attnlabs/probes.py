"""What the students' checks know, stored: arguments, and fingerprints instead of answers.

One file per lab: its choices, and for each question the cases and a sheet for all ways to decide
what concerns it.
"""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from attnbook import files
from attnlabs import variants
from attnlabs.question import Argument, Case, Choices, Question, Sheet, drawn, sheet

FOLDER = Path(__file__).parent
SEED = 2026
FIELDS = ["right", "shapes", "known", "mistakes", "measure", "shifts", "banned", "also"]
FIELDS += ["arguments", "trained", "slopes"]


@cache
def sheets(student: str = "") -> dict[str, Sheet]:
    """What the checks of all labs know, by the name of the question, as a student has them."""
    known: dict[str, Sheet] = {}
    for path in sorted(FOLDER.glob("*.probes.gz")):
        stored = json.loads(gzip.decompress(path.read_bytes()))
        options = variants.drawn(stored["lab"], stored["choices"], student)
        for name, question in stored["questions"].items():
            fields = question["sheets"][key(options, question["choices"])]
            cases = [unpacked(case) for case in question["cases"]]
            known[name] = Sheet(cases, student=student, **fields)
    return known


def key(options: Mapping[str, str], concerning: Sequence[str]) -> str:
    """The options that concern a question, as one word."""
    return ", ".join(options[choice] for choice in concerning)


def unpacked(case: Mapping[str, Any]) -> Case:
    """A case as it was before `packed_case`."""
    return Case(**(dict(case) | {"arguments": tuple(map(tensor, case["arguments"]))}))


def tensor(stored: Any) -> Argument:
    """An argument as it was stored: a tensor by its type, shape and numbers, or one number."""
    if isinstance(stored, int | float):
        return stored
    read = torch.tensor(stored["numbers"], dtype=getattr(torch, stored["dtype"]))
    return read.reshape(stored.get("shape", read.shape))


def store(path: Path, lab: int | str, compared: Mapping[str, Question], choices: Choices) -> Path:
    """Store the probes of some questions under the lab's number or name."""
    stored: dict[str, Any] = {
        "lab": lab,
        "choices": {choice: list(options) for choice, options in choices.items()},
        "questions": {name: packed(name, each, choices) for name, each in compared.items()},
    }
    text = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    files.store(path, gzip.compress(text.encode(), mtime=0))
    return path


def packed(name: str, question: Question, choices: Choices) -> dict[str, Any]:
    """A question's cases, and its sheets without answers, as JSON."""
    concerning = variants.concerning(choices, name)
    cases = [] if question.private else draw(question)
    sheets = {}
    for options in variants.every({choice: choices[choice] for choice in concerning}):
        made = sheet(question, cases, variants.flips(choices, options, name))
        # Infinite numbers have no place in JSON
        assert all(math.isfinite(n) for _, prints in made.known for p in prints for n in p)
        made.known = [] if question.quiet else made.known
        fields = {field: getattr(made, field) for field in FIELDS}
        sheets[key(options, concerning)] = fields | ({"own": made.own} if made.own else {})
    stored = [packed_case(case) for case in cases]
    return {"choices": concerning, "cases": stored, "sheets": sheets}


def draw(question: Question) -> list[Case]:
    """A question's cases, with arguments exactly as they are stored."""
    return [unpacked(packed_case(case)) for case in drawn(question, SEED)]


def packed_case(case: Case) -> dict[str, Any]:
    """A case as JSON, without the lot that is grading's alone."""
    kept = {name: value for name, value in vars(case).items() if name != "lot"}
    return kept | {"arguments": [numbers(argument) for argument in case.arguments]}


def numbers(argument: Argument) -> Any:
    """An argument as JSON: a tensor's type and numbers, anything else as it is."""
    if not isinstance(argument, torch.Tensor):
        return argument
    kept = argument.tolist() if argument.dtype == torch.bool else argument.double().tolist()
    stored = {"dtype": str(argument.dtype).removeprefix("torch."), "numbers": rounded(kept)}
    # An empty list does not say how wide the rows are that it has none of
    return stored if argument.numel() else stored | {"shape": list(argument.shape)}


def rounded(values: Any) -> Any:
    """Numbers, in lists of any depth, to four places."""
    if isinstance(values, list):
        return [rounded(value) for value in values]
    return values if isinstance(values, bool) else round(values, 4)
