"""The model that a reader builds in chapter 7, trained by the chapter's own cells to its end.

    python results/own_model.py          # all runs, resumed leg by leg
    python results/own_model.py bytes    # ends after the first

`bytes`: 4,000 steps on characters. `pieces`: 4,000 steps on the tokens of the page's merges, and
`pieces 1000`: as many as 1,000, with the learning rate falling to 0 there.
What is run is the source of the notebook's cells: the tokeniser, the model, its start, its loop,
its measure and its writing. The page itself takes the first 300 steps on characters and 150 on
tokens. Stored: bits per byte of the held-out part and what the model writes at temperature 0.8, at
the start and after each leg; the training loss, a mean for each hundred steps; seconds of one
processor core, of training alone. One seed, one learning rate, nothing tuned but the first weights.
"""

import argparse
import ast
import contextlib
import hashlib
import io
import json
import math
import re
import statistics
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import torch
from torch import nn
from torch.nn import functional as F

from attnbook import device
from attnbook.data import text
from attnbook.provenance import provenance, write

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "book" / "07-language-models.ipynb"
STORE = ROOT / "src" / "bookkit" / "runs" / "own_model.json"
CELLS = (
    *("bpe-merge", "bpe-learn", "bpe-code", "bpe-real", "gpt-block", "gpt"),
    *("mine-start", "mine-train", "mine-says", "mine-pieces"),
)
RUNS = {"bytes": 4000, "pieces": 4000, "pieces 1000": 1000}  # steps
LEGS = (0, 300, 600, 1000, 1500, 2000, 2500, 3000, 3500, 4000)
MEAN = 100  # steps that share one number of training loss


def sources() -> list[str]:
    """The chapter's cells, in order; a KeyError names one that is not there."""
    cells = {cell["id"]: cell["source"] for cell in nbformat.read(PAGE, 4).cells}
    return [cells[name] for name in CELLS]


def fingerprint(cells: list[str]) -> str:
    """What the cells compute, comments and layout apart."""
    trees = [ast.dump(ast.parse(source)) for source in cells]
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def page() -> dict[str, Any]:
    """The names that the cells define, before the first step."""
    names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "math": math, "re": re}
    names |= {"Counter": Counter, "pairwise": pairwise}
    names |= {"docs": text.load("python-docs"), "here": device.choose(0)}
    with contextlib.redirect_stdout(io.StringIO()):
        for source in sources():
            exec(source, names)  # the project's own page
    return names


class Kind:
    """One of the two ways to cut the text, with all that a run on it needs."""

    def __init__(self, names: dict[str, Any], kind: str):
        self.names, characters = names, names["docs"].characters
        self.steps = RUNS[kind]
        if kind == "bytes":
            self.tokens, self.new = names["characters"], names["new_characters"]
            self.sizes, self.start = names["ones"], names["line_end"]
            self.decode = lambda tokens: characters.decode(torch.tensor(tokens))
        else:
            self.tokens, self.new = names["pieces"], names["new_pieces"]
            self.sizes, self.start = names["sizes"], ord("\n")
            self.decode = lambda tokens: names["decode"](tokens, names["merges"])
        self.per_byte = len(self.tokens) / len(names["docs"].train) / math.log(2)

    def begin(self) -> tuple[Any, Any]:
        """A model and its optimizer, before the first step."""
        return self.names["begin"](len(self.sizes))

    def bits(self, model: Any) -> float:
        """Held-out bits per byte."""
        return round(self.names["held_out_bits"](model, self.new, self.sizes), 4)

    def train(self, model: Any, optimizer: Any, *leg: int) -> list[float]:
        """The training loss of each step, in bits per byte."""
        losses = self.names["train"](model, optimizer, self.tokens, *leg, self.steps)
        return [loss * self.per_byte for loss in losses]


def long(of: Kind, checkpoint: Path) -> dict[str, Any]:
    """One training to its end; the checkpoint holds the legs that are done."""
    model, optimizer = of.begin()
    found: dict[str, Any] = {"legs": [], "training": []}
    if checkpoint.exists():
        held = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
        found = held["found"]
    for first, last in zip((0, *LEGS), LEGS, strict=False):
        if last > of.steps or (found["legs"] and last <= found["legs"][-1]["step"]):
            continue
        began = time.process_time()
        losses = of.train(model, optimizer, first, last)
        spent = round(time.process_time() - began, 1)
        for at in range(0, last - first, MEAN):
            mean = round(statistics.fmean(losses[at : at + MEAN]), 4)
            found["training"].append([first + at + MEAN // 2, mean])
        written = of.decode(of.names["says"](model, of.start, 600))
        leg = {"step": last, "bits": of.bits(model), "seconds": spent, "text": written}
        found["legs"].append(leg)
        print(last, leg["bits"], found["training"][-1:], spent, flush=True)
        held = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "found": found}
        torch.save(held, checkpoint)
    return found


def stored() -> dict[str, Any]:
    """The runs of these very cells that are in the store."""
    if not STORE.exists():
        return {}
    held = json.loads(STORE.read_text("utf-8"))
    return held["runs"] if held["cells"] == fingerprint(sources()) else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "last", nargs="?", choices=RUNS, default=[*RUNS][-1], help="go up to this run"
    )
    last, names = parser.parse_args().last, page()
    for run in [*RUNS][: [*RUNS].index(last) + 1]:
        if run in stored():
            continue
        checkpoint = ROOT / "results" / f"own_model.{run.replace(' ', '-')}.checkpoint"
        found = long(Kind(names, run), checkpoint)
        about = {"cells": fingerprint(sources()), "provenance": provenance(device.choose(0))}
        write(STORE, {"runs": stored() | {run: found}} | about)
        checkpoint.unlink()


if __name__ == "__main__":
    main()
