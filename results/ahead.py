"""Drafts from the book's model's own hidden state, by the clock: chapter 17.

    python results/ahead.py            # resumed run by run
    python results/ahead.py 0/ 1/      # only those whose names begin so

Two drafts start from the last hidden state, which the checking call has left behind: four heads
(`Heads`), and one multi-token block that is applied again and again (`ChainDraft`). Each is trained
for 150 steps of 8 windows of 64 tokens of documentation while the model stays as it is; five
seeds, nothing was tuned. In each run the model writes four texts of 60 tokens after prompts of 64
that it never saw, in turns without a draft (plain cache), with the table of counts, with the copy,
with the heads and with the block. Stored for each text: calls, proposed and kept tokens; seconds of
the whole, and of the proposing alone. Seconds are those of the processor, one thread, so that they
do not count what other programs did meanwhile. Each greedy text equals the plain one.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm
from attnbook.data import text
from attnbook.feedforward import SwiGLU
from attnbook.generate.multi_token import (
    ChainDraft,
    Heads,
    HeadsDraft,
    MultiToken,
    MultiTokenModel,
    Watched,
    heads_loss,
    multitoken_loss,
)
from attnbook.generate.sampling import generate, greedy, sample, temperature
from attnbook.generate.speculative import (
    Copy,
    Drafted,
    NGrams,
    Propose,
    after,
    certain,
    speculative,
)
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.shipped.language import load
from attnbook.train.loop import cosine, train
from attnbook.transformer import LanguageModel

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "ahead.json"
SEEDS, LENGTHS, STEPS, HEADS = range(5), (1, 2, 4), 150, 4
TEXTS, PROMPT, TOKENS = 4, 64, 60
WAYS = {"greedy": certain, "drawn": after(temperature(1.0))}
PLAIN, DRAFTS = "no draft", ("table of counts", "copy", "heads", "block")
Batch = tuple[Tensor, Tensor]
Part = TypeVar("Part", bound=nn.Module)


@cache
def target() -> LanguageModel:
    """The book's model; nothing here trains it."""
    return load().model.requires_grad_(False)


@cache
def tokens_of(part: str) -> Tensor:
    """Documentation: what was trained on, or what the model never saw."""
    return load().encode(getattr(text.load("python-docs"), part))[0]


@cache
def table() -> NGrams:
    """Strings of up to four tokens, counted in the training text."""
    return NGrams(tokens_of("train"), 1024, 4)


def fitted(made: Part, loss: Callable[[Part, Batch], Tensor], seed: int) -> None:
    """Train a draft on the documentation, as all of them are."""
    windows = text.windows(tokens_of("train"), 64, 8)
    plan: dict[str, Any] = {"schedule": cosine(STEPS, STEPS // 10, 0.05), "progress": False}
    train(made, windows, loss, steps=STEPS, lr=2e-3, seed=seed, **plan)
    made.eval()


def whole(batch: Batch) -> Tensor:
    """The window with the token after it."""
    return torch.cat((batch[0], batch[1][:, -1:]), 1)


@cache
def heads(seed: int) -> Heads:
    """Four heads, trained."""
    torch.manual_seed(seed)
    last = target().lm_head
    assert isinstance(last, nn.Linear)
    made = Heads(last, HEADS)
    fitted(made, lambda made, batch: heads_loss(target(), made, whole(batch)), seed)
    return made


@cache
def block(seed: int) -> MultiToken:
    """A block as those of the model, trained to see two tokens ahead."""
    torch.manual_seed(seed)
    attention = MultiHeadAttention(256, 4, rotate=Rotary(64), bias=False)
    inside = Block(PreNorm(attention, RMSNorm(256)), PreNorm(SwiGLU(256, 640), RMSNorm(256)))
    made = MultiToken(256, inside, *(RMSNorm(256) for _ in range(3)))
    both = MultiTokenModel(target(), made)
    fitted(both, lambda both, batch: multitoken_loss(both, whole(batch), 1.0), seed)
    return made


class Timed:
    """A draft, and how long it took to propose."""

    def __init__(self, propose: Propose):
        self.propose, self.seconds = propose, 0.0

    def __call__(self, tokens: Tensor, K: int, generator: torch.Generator | None) -> Drafted:
        begin = time.process_time()
        drafted = self.propose(tokens, K, generator)
        self.seconds += time.process_time() - begin
        return drafted


def proposer(name: str, way: str, seed: int) -> tuple[nn.Module, Propose]:
    """A draft of the given kind, and the model as it needs it."""
    if name in ("copy", "table of counts"):
        return target(), Copy(1024, 2) if name == "copy" else table()
    watched = Watched(target())
    if name == "heads":
        return watched, HeadsDraft(watched, heads(seed), WAYS[way])
    return watched, ChainDraft(watched, block(seed), 1024, WAYS[way])


def alone(start: Tensor, way: str, dice: torch.Generator) -> Tensor:
    """The text without a draft."""
    choose = greedy if way == "greedy" else sample(temperature(1.0), generator=dice)
    return generate(target(), start[None], TOKENS, choose)[0]


@cache
def greedily(i: int) -> Tensor:
    """The greedy text without a draft."""
    return alone(begun(i), "greedy", torch.Generator())


def begun(i: int) -> Tensor:
    """A beginning that the model never saw."""
    return tokens_of("validation")[i * 600 : i * 600 + PROMPT]


def one(name: str, way: str, K: int, seed: int, i: int) -> dict[str, Any]:
    """One text, with what it took."""
    start = begun(i)
    dice = torch.Generator().manual_seed(i)
    if name == PLAIN:
        begin = time.process_time()
        alone(start, way, dice)
        return {"calls": TOKENS, "seconds": round(time.process_time() - begin, 5)}
    model, propose = proposer(name, way, seed)
    timed = Timed(propose)
    begin = time.process_time()
    run = speculative(model, timed, start, TOKENS, K, WAYS[way], dice)
    seconds = round(time.process_time() - begin, 5)
    assert way == "drawn" or torch.equal(run.tokens, greedily(i))
    counted = {what: getattr(run, what) for what in ("calls", "proposed", "kept")}
    return {**counted, "seconds": seconds, "proposing": round(timed.seconds, 5)}


def compared(way: str, K: int, seed: int) -> dict[str, Any]:
    """All drafts in turns, text by text: by draft and by what was counted a list over the texts."""
    names = (PLAIN, *DRAFTS)
    for name in names:
        one(name, way, K, seed, 0)  # warm
    found = [{name: one(name, way, K, seed, i) for name in names} for i in range(TEXTS)]
    return {
        name: {what: [text[name][what] for text in found] for what in found[0][name]}
        for name in names
    }


def work() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each run's name, and what makes it."""
    for seed, way, K in product(SEEDS, WAYS, LENGTHS):
        yield f"{seed}/{way}/{K}", partial(compared, way, K, seed)


def stored(path: Path) -> dict[str, Any]:
    """The runs that there are."""
    return json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=[""], help="beginnings of names of runs")
    parser.add_argument("--out", type=Path, default=STORE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    here = provenance(device.choose(0))
    for name, make in work():
        if name not in stored(options.out) and name.startswith(tuple(options.names)):
            found = make()
            sums = {draft: sum(run["calls"]) for draft, run in found.items()}
            print(name, sums, flush=True)
            write(options.out, {"runs": stored(options.out) | {name: found}, "provenance": here})


if __name__ == "__main__":
    main()
