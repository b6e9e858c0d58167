"""Drafts for the book's language model, and what a second predicted token changes: chapter 7.

    python results/drafts.py           # resumed run by run

**kept**: the book's model writes four texts of 48 tokens from beginnings that it never saw,
greedily and drawn at temperature 1, with each draft, one token ahead and up to four. Stored:
proposed and kept tokens, calls. One draft is a module of `attnbook.generate.multi_token`, trained
for 150 steps on the documentation while the model itself stays as it is.

**beside**: character models of two layers, trained from the start with and without such a module
beside the loss (weight 0.3), five seeds each: held-out loss of the next character after as many
steps. Nothing was tuned.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm
from attnbook.data import text
from attnbook.feedforward import SwiGLU
from attnbook.generate.multi_token import (
    MultiToken,
    MultiTokenDraft,
    MultiTokenModel,
    multitoken_loss,
)
from attnbook.generate.sampling import generate, temperature
from attnbook.generate.speculative import Copy, NGrams, after, certain, speculative
from attnbook.losses import token_loss
from attnbook.models.llama import llama
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.shipped.language import load
from attnbook.train.loop import cosine, train

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "drafts.json"
SEEDS, TOKENS, STARTS = range(5), 48, range(0, 30_000, 7_500)
WAYS = {"greedy": certain, "drawn": after(temperature(1.0))}
DRAFTS = ("table of counts", "copy", "second token")
Batch = tuple[Tensor, Tensor]
AHEAD = {"table of counts": (1, 4), "copy": (1, 4), "second token": (1,)}


def head(width: int, heads: int, hidden: int) -> MultiToken:
    """One block that looks one token further."""
    rotate = Rotary(width // heads)
    attention = MultiHeadAttention(width, heads, rotate=rotate, bias=False)
    attention_and_norm = PreNorm(attention, RMSNorm(width))
    block = Block(attention_and_norm, PreNorm(SwiGLU(width, hidden), RMSNorm(width)))
    return MultiToken(width, block, RMSNorm(width), RMSNorm(width), RMSNorm(width))


@cache
def trained_ahead() -> MultiTokenModel:
    """The book's model, frozen, with a module that was trained to see two tokens ahead."""
    book = load("book-lm")
    torch.manual_seed(0)
    model = MultiTokenModel(book.model.requires_grad_(False), head(256, 4, 640))
    windows = text.windows(book.encode(text.load("python-docs").train)[0], 64, 8)

    def loss(model: MultiTokenModel, batch: Batch) -> Tensor:
        return multitoken_loss(model, torch.cat((batch[0], batch[1][:, -1:]), 1), 1.0)

    schedule = cosine(150, 15, 0.05)
    train(model, windows, loss, steps=150, lr=2e-3, schedule=schedule, progress=False)
    return model.eval()


@cache
def table() -> NGrams:
    """Strings of up to four tokens, counted in the training text."""
    return NGrams(load("book-lm").encode(text.load("python-docs").train)[0], 1024, 4)


def proposer(name: str, way: str) -> MultiTokenDraft | Copy | NGrams:
    """A draft of the given kind."""
    if name == "second token":
        return MultiTokenDraft(trained_ahead(), WAYS[way])
    return Copy(1024, 2) if name == "copy" else table()


def kept(name: str, way: str, K: int) -> dict:
    """What became of the drafts in four texts."""
    book, held_out = load("book-lm"), text.load("python-docs").validation
    propose = proposer(name, way)
    found: dict[str, list[int]] = {"proposed": [], "kept": [], "calls": []}
    for i in STARTS:
        start = book.encode(held_out[i : i + 300])[0]
        dice = torch.Generator().manual_seed(i)
        run = speculative(book.model, propose, start, TOKENS, K, WAYS[way], dice)
        if way == "greedy":
            assert torch.equal(run.tokens, generate(book.model, start[None], TOKENS)[0])
        for key, values in found.items():
            values.append(getattr(run, key))
    return found


def beside(ahead: bool, seed: int) -> float:
    """The held-out loss of a small model, trained with or without a second token."""
    docs = text.load("python-docs")
    letters = docs.characters
    inputs, targets = text.consecutive(letters.encode(docs.validation), 64)
    torch.manual_seed(seed)
    model = llama(len(letters), width=48, depth=2, heads=4, hidden=128)
    whole = MultiTokenModel(model, head(48, 4, 128)) if ahead else model

    def loss(whole: nn.Module, batch: Batch) -> Tensor:
        if not isinstance(whole, MultiTokenModel):
            return token_loss(whole(batch[0]), batch[1])
        return multitoken_loss(whole, torch.cat((batch[0], batch[1][:, -1:]), 1))

    windows = text.windows(letters.encode(docs.train), 64, 12)
    schedule = cosine(200, 15, 0.05)
    train(whole, windows, loss, steps=200, lr=5e-3, schedule=schedule, seed=seed, progress=False)
    with torch.no_grad():
        return token_loss(model.eval()(inputs), targets).item()


def work() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each run's name, and what makes it."""
    for way in WAYS:
        for name in DRAFTS:
            for K in AHEAD[name]:
                yield f"kept/{way}/{name}/{K}", partial(kept, name, way, K)
    for ahead in (False, True):
        for seed in SEEDS:
            yield f"beside/{'two' if ahead else 'one'}/{seed}", partial(beside, ahead, seed)


def main() -> None:
    torch.set_num_threads(1)
    runs = json.loads(STORE.read_text("utf-8"))["runs"] if STORE.exists() else {}
    for name, make in work():
        if name not in runs:
            runs[name] = make()
            print(name, runs[name], flush=True)
            write(STORE, {"runs": runs, "provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
