"""What is lost when a query sees few of the others, and who should choose them.

    python results/sparse.py                      # all studies, resumed run by run
    python results/sparse.py --only chosen        # one of them

Chosen: recall of 64 pairs (`bookkit.experiments.recalling`). Every model sees all pairs for the
first 200 steps and K of them for the other 200 and when it is tested: the last K, K drawn by
chance, those with the highest scores of its own, or those that an indexer names. The indexer learns
from the model's own weights. K is 8 and the indexer has 4 channels; of the indexer also K = 4 and
16, and 2 and 8 channels. Compressed: recall across a gap, as in `recurrence.py`, by four blocks
that see 4 positions one by one and the past in entries of 4 or 2 tokens each. Each model has its
own learning rate, the best of three by what is measured with seed 9; then five other seeds.
Windows: nats of a token by the book's language model, of tokens 128 to 255 of held-out windows, if
its layers see less than everything; nothing is trained."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import recurrence
import torch
from recurrence import RATES, RECALL_RATES, Measure, Run, Runs, at_later, compare
from torch import Tensor
from torch.nn import functional as F

from attnbook import device
from attnbook.attention import attend
from attnbook.data import text
from attnbook.data.recall import NAMES, T, pairs
from attnbook.efficient.compress import CompressedAttention
from attnbook.efficient.indexer import Indexer, best, indexer_loss, only
from attnbook.losses import token_loss
from attnbook.masks import And, Mask, causal, causal_mask, local, pattern_mask, prefix
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.shipped.language import load
from attnbook.train.loop import cosine, train
from bookkit.experiments import recalling

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "sparse.json"
STEPS = 400
COUNTS, CHANNELS = (4, 16), (2, 8)
PAST = causal_mask(T)


class Few(recalling.Recall):
    """A look at `count` of the pairs read so far, from the `begin`-th call of `loss` on.

    `choice` says which: "window", "chance", "own scores" or "indexer".
    """

    def __init__(self, choice: str, count: int, channels: int = 4, begin: int = 0, D: int = 16):
        super().__init__(recalling.exact, D)
        self.choice, self.count, self.begin, self.calls = choice, count, begin, 0
        self.indexer = Indexer(NAMES, 1, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.look_up(x)[0]

    def look_up(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The answers, and how far the indexer is from the attention that it chooses for."""
        names, numbers, asked = x.unbind(-1)
        q, k, v = self.to_q(asked), self.to_k(names), self.to_v(numbers)
        asked, names = (F.one_hot(part, NAMES).to(q) for part in (asked, names))
        scores = self.indexer(asked, self.indexer.keys(names))
        mask = self.chosen(scores.detach(), (q @ k.mT).detach())
        y, weights = attend(q, k, v, mask)
        return self.to_out(self.scale * y), indexer_loss(scores, weights[:, None], mask)

    def chosen(self, scores: Tensor, own: Tensor) -> Tensor:
        """Who may look at whom."""
        if self.calls < self.begin or self.choice == "everything":
            return PAST
        if self.choice == "window":
            return pattern_mask(And(causal, local(self.count)), T)
        ways = {"chance": torch.rand_like(scores), "own scores": own, "indexer": scores}
        return only(best(ways[self.choice], self.count, PAST), T)


def loss(model: Few, batch: recalling.Batch) -> Tensor:
    """Cross-entropy of the answers, and what trains the indexer."""
    answers, apart = model.look_up(batch[0])
    model.calls += 1
    return token_loss(answers, batch[1]) + apart * (model.choice == "indexer")


def at_chosen(choice: str, count: int, channels: int, rate: float, seed: int) -> Run:
    """Right answers by pairs read."""
    torch.manual_seed(seed)
    model = Few(choice, count, channels, begin=STEPS // 2)
    sampler = partial(pairs(), B=32)
    plan = cosine(STEPS)
    train(model, sampler, loss, steps=STEPS, lr=rate, schedule=plan, seed=seed, progress=False)
    return [round(x, 4) for x in recalling.right(model, recalling.unseen())]


def compressed(rate: int) -> CompressedAttention:
    """Four heads that share one vector of width 32 per near token and per entry."""
    return CompressedAttention(32, 4, 32, rate=rate, window=4, rotate=Rotary(32))


def groups() -> Iterator[tuple[str, str, Measure, Sequence[float]]]:
    """Each comparison: study, model, what measures it, its rates."""
    kinds = [("everything", T, 4)]
    kinds += [(choice, 8, 4) for choice in ("window", "chance", "indexer", "own scores")]
    kinds += [("indexer", K, 4) for K in COUNTS] + [("indexer", 8, n) for n in CHANNELS]
    for choice, K, channels in kinds:
        name = f"{choice}/{K}" + f"/{channels} channels" * (choice == "indexer")
        yield "chosen", name, partial(at_chosen, choice, K, channels), RECALL_RATES
    for rate in (4, 2):
        recurrence.LAYERS[str(rate)] = partial(compressed, rate)
        yield "compressed", f"{rate} in one", partial(at_later, 4 * str(rate)), RATES


@torch.no_grad()
def windows(count: int = 16) -> dict[str, float]:
    """Nats of a token in the second half of the windows on which the book's model was trained."""
    book = load("book-lm")
    tokens = book.encode(text.load("python-docs").validation)[0][: count * 256].view(count, 256)
    looks: dict[str, Mask | None] = {"everything": None}
    for R in (128, 64, 32, 16):
        looks[f"the last {R}"] = local(R)
        looks[f"the last {R - 4} and the first 4"] = local(R - 4) | prefix(4)
    found = {}
    for name, look in looks.items():
        logits = book.model(tokens, mask=look)[:, 127:-1]
        found[name] = round(token_loss(logits, tokens[:, 128:]).item(), 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    studies = ("chosen", "compressed")
    parser.add_argument("--only", choices=studies, help="measure this one and store nothing yet")
    chosen = parser.parse_args().only
    torch.set_num_threads(1)
    runs, found = Runs(Path(__file__).parent / "sparse.draft"), {}
    for study, name, measure, rates in groups():
        if chosen in (None, study):
            key = "recall/" * (study == "chosen") + f"{study}/{name}"
            found[f"{study}/{name}"] = compare(runs, key, measure, rates)
    if chosen:
        return
    stored = {"compared": found, "windows": windows(), "provenance": provenance(device.choose(0))}
    write(STORE, stored)
    runs.draft.unlink()


if __name__ == "__main__":
    main()
