"""How surprised is a published model by text, beside the book's own and a table of counts?

    ATTNBOOK_GEMMA=folder python results/real/bits.py

Question. Bits per byte of three texts, of which the published model has surely read two and nobody
has read the third: the held-out documentation and plays, and chapters of this book. Is it as often
right as it says? And does more text before a token still help beyond the window of 512?
Budget. 1,800 tokens of each text in windows of 256, for both models; chapters of this book in two
rows of 1,600 tokens for the places.
Baselines. The book's model; counts of up to six characters in what the book's model was taught.
Nothing found. Calibration: in no tenth does what was said differ by 0.05 from what came. Places:
tokens from 512 on cost no less than those from 256 to 511.
"""

import hashlib
import math
from collections import Counter
from functools import cache, partial
from itertools import pairwise
from typing import Any

import torch
from prose import prose
from real_model import Studied, begin, body, both, finish, gemma, losses, rounded

from attnbook.data import text
from bookkit.results.protocol import Study
from bookkit.results.statistics import interval

STUDY = Study(
    name="bits",
    question="How surprised is a published model, and is it as often right as it says?",
    budget="1,800 tokens of each of three texts; two rows of 1,600",
    reporting_seeds=range(1),
    baselines=("book-lm", "counts of up to six characters"),
    no_gain="tokens from 512 on cost no less than those from 256 to 511",
)
T, WINDOWS, ROWS, LONG = 256, 7, 2, 1600
ORDER = 6  # characters of a count, the one that is told included
BINS = 10


@cache
def texts() -> dict[str, str]:
    """The three texts: the held-out parts, and prose that nobody has read.

    In the stored run the book's model passed over the one `·` in it, for which it had no token then
    (2.356 bits for a byte); `book_bytes.py` taught its tokenizer to spell it (2.370).
    """
    docs, plays = text.load("python-docs").validation, text.load("shakespeare").validation
    return {"documentation": docs[:20_000], "plays": plays[:20_000], "this book": prose()}


@torch.no_grad()
def read(studied: Studied, name: str) -> dict[str, Any]:
    """Bits per byte in windows that know nothing of each other, and for each token the chance of
    the likeliest one and whether it came."""
    ids = torch.tensor(studied.tokens(texts()[name]))[: WINDOWS * T + 1]
    rows, told = ids[:-1].view(-1, T), ids[1:].view(-1, T)
    start = torch.tensor(studied.start, dtype=torch.long).expand(len(rows), -1)
    x = body(studied.model, torch.cat((start, rows), 1))[:, len(studied.start) :].flatten(0, 1)
    nats, bins = 0.0, torch.zeros(BINS, 3)
    for some, right in zip(x.split(64), told.flatten().split(64), strict=True):
        logp = studied.model.lm_head(some).log_softmax(-1)
        nats -= logp.gather(1, right[:, None]).sum().item()
        top, which = logp.max(-1)
        place = (top.exp() * BINS).long().clamp(max=BINS - 1)
        for column, values in enumerate((torch.ones(len(top)), top.exp(), (which == right) * 1.0)):
            bins[:, column].index_add_(0, place, values)
    size = len(studied.tokenizer.decode(ids[1:].tolist()).encode())
    return {
        "bits per byte": round(nats / size / math.log(2), 4),
        "bytes per token": round(size / told.numel(), 3),
        "bins": [[int(n), round(p, 3), round(hits, 1)] for n, p, hits in bins.tolist()],
    }


@cache
def counts() -> list[Counter[str]]:
    """How often each run of 1 to 6 characters stands in the documentation and the plays that the
    book's model was taught."""
    taught = text.load("python-docs").train + text.load("shakespeare").train
    return [Counter(taught[i : i + n] for i in range(len(taught) - n + 1)) for n in range(1, 7)]


def by_counts(name: str) -> float:
    """Bits per byte of a table of counts: each order leans on a shorter one (Witten–Bell)."""
    table, told = counts(), texts()[name][:8000]
    letters = sum(table[0].values())
    kinds = [Counter(run[:-1] for run in one) for one in table]
    total = 0.0
    for i in range(ORDER, len(told)):
        p = 1 / 1000
        for n in range(ORDER):
            before = told[i - n : i]
            seen = table[n - 1][before] if n else letters
            new = kinds[n][before]
            if seen:
                p = (table[n][before + told[i]] + new * p) / (seen + new)
        total -= math.log2(p)
    return round(total / len(told[ORDER:].encode()), 4)


def places() -> dict[str, Any]:
    """Nats of a token by how many stand before it, in rows of chapters, with intervals."""
    studied = gemma()
    ids = torch.tensor(studied.tokens(prose()))
    assert len(ids) >= ROWS * LONG
    start = torch.tensor(studied.start, dtype=torch.long).expand(ROWS, -1)
    found = losses(studied.model, torch.cat((start, ids[: ROWS * LONG].view(ROWS, -1)), 1), 1)
    edges = (0, 16, 64, 256, 512, 1024, LONG)
    parts = {f"{a} to {b - 1}": found[:, a:b].flatten() for a, b in pairwise(edges)}
    ends = {name: interval(x.tolist()) for name, x in parts.items()}
    return {name: rounded(torch.tensor([e.mean, e.low, e.high]), 3) for name, e in ends.items()}


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {
        studied.name: {
            name: runs.get(f"{studied.name}/{name}", partial(read, studied, name))
            for name in texts()
        }
        for studied in both()
    }
    found["counts"] = {
        name: runs.get(f"counts/{name}", partial(by_counts, name)) for name in texts()
    }
    found["places"] = runs.get("places", places)
    found["sha256 of the chapters"] = hashlib.sha256(prose().encode()).hexdigest()
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
