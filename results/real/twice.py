"""Does a published model copy what it has read, from how far, and which of its layers carry it?

    ATTNBOOK_GEMMA=folder python results/real/twice.py

Question. A passage is read, then other text, then the passage again: how much cheaper is it the
second time, up to which distance, and what is left if the three layers without a window get one?
Budget. Four passages of 50 tokens, of this book's chapters and of random tokens, with 0 to 1,200
tokens of documentation between the copies; the book's model, which has read 256 tokens at a time,
with 0 to 150.
Baselines. The first reading; the passage after the same text without the first copy.
Nothing found. The second reading is within 0.1 nats of the passage that was not read before.
"""

from functools import partial
from typing import Any

import torch
from prose import prose
from real_model import Studied, begin, book, finish, gemma, losses
from torch import Tensor

from attnbook.data import text
from attnbook.masks import local
from bookkit.results.protocol import Study

STUDY = Study(
    name="twice",
    question="How far back does a published model copy, and by which layers?",
    budget="four passages of 50 tokens of two kinds at five distances",
    reporting_seeds=range(1),
    baselines=("the first reading", "the passage after other text alone"),
    no_gain="the second reading costs within 0.1 nats of what it costs unread",
)
PASSAGES, L = 4, 50
BETWEEN = {"gemma": (0, 150, 400, 700, 1200), "book-lm": (0, 50, 100, 150)}
WINDOW = 512


def passages(studied: Studied, kind: str) -> Tensor:
    """Four passages of 50 tokens: from chapters of this book, or random, each token once."""
    if kind == "random":
        dice = torch.Generator().manual_seed(0)
        low, high = studied.ordinary
        drawn = [torch.randperm(high - low, generator=dice)[:L] + low for _ in range(PASSAGES)]
        return torch.stack(drawn)
    ids = torch.tensor(studied.tokens(prose()))
    return torch.stack([ids[n * len(ids) // PASSAGES :][:L] for n in range(PASSAGES)])


def between(studied: Studied, many: int) -> Tensor:
    """Tokens of documentation, the same for each passage."""
    ids = studied.tokens(text.load("python-docs").validation[: 8 * many + 100])
    assert len(ids) >= many
    return torch.tensor(ids[:many], dtype=torch.long).expand(PASSAGES, -1)


def read_again(studied: Studied, kind: str, distance: int) -> dict[str, float]:
    """Nats of a token of the passage in the second reading and if it was not read before."""
    once, filler = passages(studied, kind), between(studied, distance)
    start = torch.tensor(studied.start, dtype=torch.long).expand(PASSAGES, -1)
    again = torch.cat((start, once, filler, once), 1)
    alone = torch.cat((start, filler, once), 1)
    found = {}
    for name, tokens in (("again", again), ("not read before", alone)):
        found[name] = losses(studied.model, tokens, tokens.shape[1] - L + 1).mean().item()
    if not distance:
        found["first"] = losses(studied.model, again[:, : L + len(studied.start)], 2).mean().item()
    return {name: round(nats, 4) for name, nats in found.items()}


def windows_everywhere(studied: Studied, kind: str, distance: int) -> float:
    """The second reading, with the window of the other layers on those that have none."""
    whole = [layer for layer in studied.layers if layer.pattern is None]
    for layer in whole:
        layer.pattern = local(WINDOW)
    try:
        return read_again(studied, kind, distance)["again"]
    finally:
        for layer in whole:
            layer.pattern = None


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {"full layers": []}
    for studied in (gemma(), book()):
        found[studied.name] = {}
        for kind in ("prose", "random"):
            found[studied.name][kind] = {
                str(distance): runs.get(
                    f"{studied.name}/{kind}/{distance}",
                    partial(read_again, studied, kind, distance),
                )
                for distance in BETWEEN[studied.name]
            }
    found["full layers"] = [n for n, layer in enumerate(gemma().layers) if layer.pattern is None]
    found["windows everywhere"] = {
        str(distance): runs.get(
            f"windows/{distance}", partial(windows_everywhere, gemma(), "random", distance)
        )
        for distance in (0, 400, 700)
    }
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
