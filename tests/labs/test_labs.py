"""The labs as a whole: what a child can see, and what comes back from it."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from attnlabs.grading import sandbox
from attnlabs.inside import cells
from attnlabs.inside.fingerprints import alike, fingerprint, same

INSIDE = Path(cells.__file__).parent


def test_a_child_sees_no_answers(box_files):
    inside = {f"attnlabs/inside/{path.name}" for path in INSIDE.glob("*.py")}
    empty = {f"{name}/__init__.py" for name in ("attnbook", "attnlabs", "bookkit")}
    assert box_files == inside | empty | {"attnlabs/check.py"}


@pytest.fixture
def box_files():
    with sandbox.box() as folder:
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_only_plain_numbers_come_back():
    good = safetensors.torch.save({"0/0": torch.ones(2)})
    assert sandbox.results(good)["0/0"].tolist() == [1, 1]
    for bad in (b"\x80\x04K\x01.", b"\xff" * 100, good[:-1], b"{}" * 9):
        assert sandbox.results(bad) == {}


def frame(name, blob):
    head = {"name": name, "status": "ok", "bytes": len(blob), "seconds": 1}
    return json.dumps(head).encode() + b"\n" + blob


def test_a_disturbed_channel_loses_what_comes_after_it_only():
    sent = frame("a", b"{}\n") + b"rubbish" + frame("b", b"{}\n")
    assert list(sandbox.replies(sent)) == ["a"]
    for bad in (b"[1]\n", b"{}{}\n{}", b"\x80", b"[" * 100_000):
        found = sandbox.replies(frame("a", bad) + frame("b", b"{}\n"))
        assert list(found) == ["a", "b"] and found["a"].note == {}


def test_fingerprints_of_equal_results_are_alike_and_others_are_not():
    one = (np.linspace(-1, 1, 12).reshape(3, 4),)
    near, far = (one[0] + 1e-6,), (one[0].copy(),)
    far[0][2, 1] += 0.01
    assert same(one, near) and alike(fingerprint(one), fingerprint(near))
    assert not same(one, far) and not alike(fingerprint(one), fingerprint(far))
    assert not alike(fingerprint(one), fingerprint((one[0].T.copy(),)))
    nan = (np.where(one[0] > 0.9, np.nan, one[0]),)
    assert same(nan, nan) and not alike(fingerprint(one), fingerprint(nan))


NOTEBOOK = """
import torch
from math import *
table = {}
def helper(x):
    return table[x]
while True:
    pass
table["a"] = 1
print(helper)
def wanted(x):
    return helper(x)
unrelated = 1 / 0
def wanted(x):
    ...
"""


def test_a_function_takes_along_what_it_needs_and_nothing_else():
    tree, wrong = cells.statements([("code", NOTEBOOK), ("code", "1 +"), ("markdown", "1 +")])
    chosen = [cells.ast.unparse(one) for one in cells.needed(tree, "wanted")]
    assert [text.split("\n")[0] for text in chosen] == [
        "from math import *",
        "table = {}",
        "def helper(x):",
        "table['a'] = 1",
        "def wanted(x):",
    ]
    assert len(wrong) == 1 and "SyntaxError" in wrong[0][1]


def test_a_syntax_error_is_told_where_the_function_should_be():
    _, wrong = cells.statements([("code", "def wanted(x):\n    return (x")])
    assert "is not Python: SyntaxError" in cells.why_missing(wrong, "wanted")
    assert cells.why_missing(wrong, "other") == "no cell defines other."


def test_written_answers_are_found_below_their_heading():
    pairs = [("markdown", "### Question 7 · why (2 points)\nText."), ("markdown", "Because.")]
    pairs += [("code", "x = 1"), ("markdown", "## Hand in"), ("markdown", "bye")]
    assert cells.answer(pairs, 7).split() == ["Text.", "Because.", "x", "=", "1"]


def test_headings_of_ones_own_or_translated_lose_no_answer():
    pairs = [("markdown", "## Question 7 · why (2 points)"), ("markdown", "# Answer\nBecause")]
    pairs += [("markdown", "### Also\nof this."), ("markdown", "## Question 8 · so (1 point)")]
    pairs += [("markdown", "## Hand in")]
    assert cells.answer(pairs, 7) == "\n\n# Answer\nBecause\n\n### Also\nof this."
    pairs[0] = "markdown", "## Frage 7"
    assert "Because" in cells.answer(pairs, 7) and "no heading of question 7" in cells.answer(
        pairs, 7
    )
    assert cells.answer([("code", "x = 1")], 7) == ""
