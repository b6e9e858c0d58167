"""How many files of the package a call runs through, and how often it changes the file.

    python tools/walk.py

A stay is a longest run of calls of functions of one file; torch is left out. Who follows the code
opens a file at each stay, so `tests/core/test_walks.py` holds their number down.
"""

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import attnbook
from attnbook.generate.sampling import generate
from attnbook.models.gpt2 import gpt2

ROOT = f"{Path(attnbook.__file__).parent}/"


def walk(call: Callable[[], Any]) -> list[str]:
    """The file of each function of the package that is called, in order; one for each stay."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            files.append(frame.f_code.co_filename.removeprefix(ROOT))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return [file for file, _ in groupby(files)]


def walks() -> dict[str, list[str]]:
    """Through a GPT-2 of one block: a forward pass, and the generation of two tokens."""
    torch.manual_seed(0)
    model = gpt2(V=13, T=16, width=8, depth=1, heads=2).eval()
    tokens = torch.tensor([[1, 2, 3]])
    return {
        "forward": walk(lambda: model(tokens)),
        "two tokens": walk(lambda: generate(model, tokens, 2)),
    }


if __name__ == "__main__":
    for name, stays in walks().items():
        print(f"{name}: {len(set(stays))} files, {len(stays)} stays")
        print("   ", " → ".join(stays))
