"""What do fewer bits cost a published model, by rounding, AWQ and GPTQ?

    ATTNBOOK_GEMMA=folder python results/real/quantised.py

Question. The maps of all blocks in 8, 4 and 3 bits with a scale for each group of 32 weights (the
table of tokens stays as it is): by how many nats per byte does text cost more?
Budget. 900 tokens of chapters of this book and 900 of documentation; four rows of 256 tokens of
other documentation calibrate.
Baselines. The model as it is (whose weights once had 4 to 5 bits); plain rounding.
Nothing found. AWQ and GPTQ lose as much as rounding does.
"""

import copy
from functools import partial
from typing import Any

import torch
from prose import prose
from real_model import begin, finish, gemma, losses

from attnbook.data import text
from attnbook.quantise.gptq import Make, by_awq, by_gptq, by_nearest, calibrated
from bookkit.results.protocol import Study

STUDY = Study(
    name="quantised",
    question="What do fewer bits cost a published model, by rounding, AWQ and GPTQ?",
    budget="900 tokens of each of two texts; 1,024 tokens calibrate",
    reporting_seeds=range(1),
    baselines=("the model as it is", "plain rounding"),
    no_gain="AWQ and GPTQ lose as much as rounding does",
)
GROUP, ROWS, T = 32, 3, 300
WAYS = {"rounding": by_nearest, "AWQ": by_awq, "GPTQ": by_gptq}
TRIED = [("rounding", 8), ("rounding", 4), ("GPTQ", 4), ("AWQ", 4)]
TRIED += [("rounding", 3), ("GPTQ", 3), ("AWQ", 3)]


def tokens_of(passage: str, rows: int, length: int) -> torch.Tensor:
    """Rows of a text, the start included: (rows, length + 1)."""
    studied = gemma()
    ids = torch.tensor(studied.tokens(passage))[: rows * length].view(rows, length)
    return torch.cat((torch.tensor(studied.start).expand(rows, -1), ids), 1)


def per_byte(model: Any) -> dict[str, float]:
    """Nats per byte of both texts."""
    docs = text.load("python-docs").validation[:8000]
    found = {}
    for name, passage in (("this book", prose()), ("documentation", docs)):
        tokens = tokens_of(passage, ROWS, T)
        size = sum(len(gemma().tokenizer.decode(row[1:].tolist()).encode()) for row in tokens)
        found[name] = round(losses(model, tokens).sum().item() / size, 4)
    return found


@torch.no_grad()
def tried(way: str, bits: int) -> dict[str, float]:
    """Nats per byte with the maps of all blocks in so many bits."""
    studied = gemma()
    blocks = studied.model.body.blocks
    studied.model.body.blocks = copy.deepcopy(blocks)
    make: Make = WAYS[way](bits, GROUP)
    docs = text.load("python-docs").train[:8000]
    try:
        x = studied.model.embed(tokens_of(docs, 4, 256))
        calibrated(studied.model.body.blocks, x, make)
        return per_byte(studied.model)
    finally:
        studied.model.body.blocks = blocks


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {"as it is": runs.get("as it is", lambda: per_byte(gemma().model))}
    for way, bits in TRIED:
        found[f"{bits} bits, {way}"] = runs.get(f"{bits}/{way}", partial(tried, way, bits))
    found["group"] = GROUP
    finish(STUDY, said, runs, {"nats per byte": found})


if __name__ == "__main__":
    main()
