"""What the students' checks know, stored: arguments, and fingerprints instead of answers."""

import gzip
import json
import math
from functools import cache
from pathlib import Path

import torch

from attnbook.labs.question import Case, Sheet, drawn, sheet

FOLDER = Path(__file__).parent
SEED = 2026
FIELDS = ["right", "shapes", "known", "mistakes", "measure", "shifts", "banned"]


@cache
def sheets():
    """Everything that the checks of all labs know, by the name of the question."""
    found = {}
    for path in sorted(FOLDER.glob("*.probes.gz")):
        for name, stored in json.loads(gzip.decompress(path.read_bytes())).items():
            found[name] = Sheet([unpacked(case) for case in stored.pop("cases")], **stored)
    return found


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
    path = folder / f"lab{lab.number:02}.probes.gz"
    stored = {name: packed(draw(question)) for name, question in lab.compared.items()}
    text = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def draw(question):
    """The sheet of a question on arguments exactly as they are stored."""
    cases = [unpacked(packed_case(case)) for case in drawn(question, SEED)]
    return sheet(question, cases)


def packed(sheet):
    """A sheet without its answers, as JSON. Infinite numbers have no place in that."""
    assert all(math.isfinite(n) for _, prints in sheet.known for p in prints for n in p)
    fields = {name: getattr(sheet, name) for name in FIELDS}
    return {"cases": [packed_case(case) for case in sheet.cases], **fields}


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
