"""What the students' checks know, stored: arguments, and fingerprints instead of answers.

One file a lab: its choices, and for each question the cases and a sheet for all ways to decide
what concerns it.
"""

import gzip
import json
import math
from functools import cache
from pathlib import Path

import torch

from attnbook.labs import variants
from attnbook.labs.question import Case, Sheet, drawn, sheet

FOLDER = Path(__file__).parent
SEED = 2026
FIELDS = ["right", "shapes", "known", "mistakes", "measure", "shifts", "banned"]


@cache
def sheets(student=""):
    """What the checks of all labs know, by the name of the question, as a student has them."""
    found = {}
    for path in sorted(FOLDER.glob("*.probes.gz")):
        stored = json.loads(gzip.decompress(path.read_bytes()))
        options = variants.drawn(stored["lab"], stored["choices"], student)
        for name, question in stored["questions"].items():
            fields = question["sheets"][key(options, question["choices"])]
            found[name] = Sheet([unpacked(case) for case in question["cases"]], **fields)
    return found


def key(options, concerning):
    """The options that concern a question, as one word."""
    return ", ".join(options[choice] for choice in concerning)


def unpacked(case):
    return Case(**(case | {"arguments": tuple(map(tensor, case["arguments"]))}))


def tensor(stored):
    """An argument as it was stored: a tensor by its type, shape and numbers, or one number."""
    if isinstance(stored, int | float):
        return stored
    read = torch.tensor(stored["numbers"], dtype=getattr(torch, stored["dtype"]))
    return read.reshape(stored.get("shape", read.shape))


def write(lab, folder=FOLDER):
    """Store the probes of a lab, so that `check` knows its questions."""
    return store(folder / f"lab{lab.number:02}.probes.gz", lab.number, lab.compared, lab.choices)


def store(path, lab, compared, choices):
    """Store the probes of some questions under the lab's number or name."""
    stored = {
        "lab": lab,
        "choices": {choice: list(options) for choice, options in choices.items()},
        "questions": {name: packed(name, one, choices) for name, one in compared.items()},
    }
    text = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def packed(name, question, choices):
    """A question's cases, and its sheets without answers, as JSON."""
    concerning = variants.concerning(choices, name)
    cases = draw(question)
    found = {}
    for options in variants.every({choice: choices[choice] for choice in concerning}):
        one = sheet(question, cases, variants.flips(choices, options, name))
        # Infinite numbers have no place in JSON
        assert all(math.isfinite(n) for _, prints in one.known for p in prints for n in p)
        found[key(options, concerning)] = {field: getattr(one, field) for field in FIELDS}
    cases = [packed_case(case) for case in cases]
    return {"choices": concerning, "cases": cases, "sheets": found}


def draw(question):
    """A question's cases, with arguments exactly as they are stored."""
    return [unpacked(packed_case(case)) for case in drawn(question, SEED)]


def packed_case(case):
    return vars(case) | {"arguments": [numbers(argument) for argument in case.arguments]}


def numbers(argument):
    if not isinstance(argument, torch.Tensor):
        return argument
    kept = argument.tolist() if argument.dtype == torch.bool else argument.double().tolist()
    stored = {"dtype": str(argument.dtype).removeprefix("torch."), "numbers": rounded(kept)}
    # An empty list does not say how wide the rows are that it has none of
    return stored if argument.numel() else stored | {"shape": list(argument.shape)}


def rounded(values):
    if isinstance(values, list):
        return [rounded(value) for value in values]
    return values if isinstance(values, bool) else round(values, 4)
