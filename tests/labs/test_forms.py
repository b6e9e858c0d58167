"""Right answers in all the ways in which a notebook may hold them."""

import json
import textwrap

import pytest
import safetensors.torch
import torch

from attnlabs.inside import answer

ANSWER = "def scores(q, k):  # is this right?\n    return q @ k.mT / q.shape[-1] ** 0.5\n"
FRIENDLY = {
    "magics": "%timeit 3\nfiles = !ls\nt = %time 3\nint?\n?int\n" + ANSWER,
    "a cell that is captured": "%%capture\n" + ANSWER,
    "indented": textwrap.indent(ANSWER, "    "),
    "Windows": ANSWER.replace("\n", "\r\n"),
    "tabs": ANSWER.replace("    ", "\t"),
    "later annotations": "from __future__ import annotations\n"
    + ANSWER.replace("k)", "k: Sequence[Nowhere]) -> Nothing"),
    "global": "def start():\n    global root\n    root = 0.5\nstart()\n"
    + ANSWER.replace("0.5", "root"),
    "a method": f"class Mine:\n{textwrap.indent(ANSWER, '    ')}\nscores = Mine.scores",
    "stub below": ANSWER + "def scores(q, k):\n    'Words.'\n    pass",
    "stub that raises": ANSWER + "def scores(q, k):\n    raise NotImplementedError('later')",
}


@pytest.mark.parametrize("name", FRIENDLY)
def test_right_answers_run_in_whatever_form_a_notebook_takes_them(name):
    """In this process: these are no enemies."""
    cells = [{"cell_type": "code", "source": source} for source in ("import torch", FRIENDLY[name])]
    tensors = {"q": torch.ones(2, 4), "k": torch.eye(3, 4)}
    question = {"name": "scores", "cases": [["q", "k"]], "given": [], "banned": [], "others": []}
    question |= {"trained": [], "plain": []}
    line, _, found = answer.code(
        question, tensors, json.dumps({"cells": cells}).encode()
    ).partition(b"\n")
    assert json.loads(line)["notes"] == [""]
    assert safetensors.torch.load(found)["0/0"].tolist() == [[0.5, 0.5, 0.5]] * 2
