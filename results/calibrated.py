"""Calibrated rounding of the book's language model: chapter 17, deeper.

    python results/calibrated.py            # resumed run by run

The linear maps of the blocks in 4, 3 and 2 bits, groups of 32; embedding and head stay. GPTQ and
AWQ, each with the largest weight of a group as its largest level (**largest**) and with scales that
cut a few weights off (**clipped**); beside them plain rounding with both scales. A calibration draw
is 32 windows of 256 tokens of training text, five draws; documentation, or plays (tiny
Shakespeare's training part, downloaded) as text of the wrong kind, or tokens drawn at random. Nats
per byte of held-out documentation and, at 3 bits clipped, of as many bytes of held-out plays.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnbook import device
from attnbook.data import text
from attnbook.provenance import provenance, write
from attnbook.quantise.gptq import best_clip, by_awq, by_gptq, by_nearest, calibrated, largest
from attnbook.shipped.language import load, nats_per_byte

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "calibrated.json"
DRAWS, GROUP, WINDOWS = range(5), 32, 32
SCALES = {"largest": largest, "clipped": best_clip}
WAYS = {"nearest": by_nearest, "GPTQ": by_gptq, "AWQ": by_awq}


@cache
def tokens(name: str) -> Tensor:
    """The training part of a text."""
    return load().encode(text.load(name).train)[0]


def draw(kind: str, windows: int, seed: int) -> Tensor:
    """Windows of 256 tokens: of a text, or of tokens drawn at random."""
    dice = torch.Generator().manual_seed(seed)
    if kind == "random":
        return torch.randint(1024, (windows, 256), generator=dice)
    return text.windows(tokens(kind), 256, windows)(dice)[0]


def loss(way: str, scale: str, bits: int, kind: str, windows: int, seed: int) -> dict[str, float]:
    """Nats per byte after rounding."""
    book = load()
    make = WAYS[way](bits, GROUP, SCALES[scale])
    calibrated(book.model.body.blocks, book.model.embed(draw(kind, windows, seed)), make)
    return judged(book, scale == "clipped" and bits == 3)


def judged(book: Any, both: bool) -> dict[str, float]:
    """Of held-out documentation, and of as many bytes of held-out plays if `both`."""
    docs = text.load("python-docs").validation
    texts = {"docs": docs}
    if both:
        texts["plays"] = text.load("shakespeare").validation[: len(docs)]
    return {
        name: round(nats_per_byte(book.model, book.tokenizer, words, 256), 5)
        for name, words in texts.items()
    }


def work() -> Iterator[tuple[str, Callable[[], dict[str, float]]]]:
    """Each run's name, and what makes it."""
    yield "32 bits", lambda: judged(load(), True)
    for bits in (3, 2, 4):
        for scale in SCALES:
            name = f"nearest/{scale}/{bits}"
            yield name, partial(loss, "nearest", scale, bits, "python-docs", 1, 0)
            for way in ("GPTQ", "AWQ"):
                yield from five(way, scale, bits, "python-docs", WINDOWS)
    for way in ("GPTQ", "AWQ"):
        yield from five(way, "clipped", 3, "shakespeare", WINDOWS)
    for windows in (1, 4, 128):
        yield from five("GPTQ", "clipped", 3, "python-docs", windows)
    yield from five("GPTQ", "clipped", 3, "random", WINDOWS)


def five(
    way: str, scale: str, bits: int, kind: str, windows: int
) -> Iterator[tuple[str, Callable[[], dict[str, float]]]]:
    """The draws of one setting."""
    for seed in DRAWS:
        name = f"{way}/{scale}/{bits}/{kind}/{windows}/{seed}"
        yield name, partial(loss, way, scale, bits, kind, windows, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=STORE)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    here = provenance(device.choose(0))
    for name, make in work():
        runs = json.loads(out.read_text("utf-8"))["runs"] if out.exists() else {}
        if name not in runs:
            runs[name] = make()
            print(name, runs[name], flush=True)
            write(out, {"runs": runs, "provenance": here})


if __name__ == "__main__":
    main()
