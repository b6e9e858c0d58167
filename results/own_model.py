"""The model that a reader builds in chapter 7, trained by the chapter's own cells to its end.

    python results/own_model.py             # resumed leg by leg
    python results/own_model.py --legs 2    # ends after two legs; the same command goes on

What is run is the source of the notebook's cells: the model, its start, its loop, its measure and
its writing. The page itself takes the first leg. Stored at the start and after each leg: bits per
byte of the held-out part, and what the model writes at temperature 0.8. One seed, nothing tuned but
the first weights. `--text shakespeare` adds another text.
"""

import argparse
import ast
import hashlib
import json
import math
from collections.abc import Iterator
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
STORE = ROOT / "src" / "attnbook" / "runs" / "own_model.json"
CELLS = ("gpt-block", "gpt", "mine-start", "mine-train", "mine-says")
LEGS = (0, 300, 600, 1000, 1500, 2000, 2500, 3000, 3500, 4000)
TEXTS = ("python-docs", "shakespeare")  # the page shows the first


def sources() -> list[str]:
    """The chapter's cells, in order; a KeyError names one that is not there."""
    cells = {cell["id"]: cell["source"] for cell in nbformat.read(PAGE, 4).cells}
    return [cells[name] for name in CELLS]


def fingerprint(cells: list[str]) -> str:
    """What the cells compute, comments and layout apart."""
    trees = [ast.dump(ast.parse(source)) for source in cells]
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def page(corpus: str) -> dict[str, Any]:
    """The names that the cells define for this text, before the first step."""
    names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "math": math}
    names |= {"docs": text.load(corpus), "here": device.choose(0)}
    for source in sources():
        exec(source, names)  # the project's own page
    return names


def run(corpus: str, checkpoint: Path, left: Iterator[int]) -> list[dict[str, Any]]:
    """Bits and text after each leg; the checkpoint holds the legs that are done."""
    names, found = page(corpus), []
    mine, optimizer = names["mine"], names["optimizer"]
    if checkpoint.exists():
        held = torch.load(checkpoint, weights_only=True)
        mine.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
        found = held["found"]
    for first, last in zip((0, *LEGS), LEGS, strict=False):
        if last <= (found[-1]["step"] if found else -1):
            continue
        if next(left, None) is None:
            raise SystemExit("run again to go on")
        names["train"](first, last)
        bits = round(names["held_out_bits"](), 4)
        found.append({"step": last, "bits": bits, "text": names["says"](600)})
        print(corpus, last, bits, flush=True)
        held = {"model": mine.state_dict(), "optimizer": optimizer.state_dict(), "found": found}
        torch.save(held, checkpoint)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--legs", type=int, default=99, help="how many legs before it ends")
    parser.add_argument("--text", choices=TEXTS, default=TEXTS[0])
    options = parser.parse_args()
    runs: dict[str, Any] = {}
    if STORE.exists() and json.loads(STORE.read_text("utf-8"))["cells"] == fingerprint(sources()):
        runs = json.loads(STORE.read_text("utf-8"))["runs"]
    if options.text not in runs:
        checkpoint = ROOT / "results" / f"own_model.{options.text}.checkpoint"
        runs[options.text] = run(options.text, checkpoint, iter(range(options.legs)))
        about = {"cells": fingerprint(sources()), "provenance": provenance(device.choose(0))}
        write(STORE, {"runs": runs} | about)
        checkpoint.unlink()


if __name__ == "__main__":
    main()
