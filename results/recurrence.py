"""What a memory of fixed size holds, what it can count, and what a few full layers add to it.

    python results/recurrence.py                      # all studies, resumed run by run
    python results/recurrence.py --only recall        # one of them

Recall (`bookkit.experiments.recalling`): 400 steps of 32 lists of 64 pairs; each name once, or 16
names that return with new numbers. Counting (`attnbook.data.counting`): 600 steps of 64 sequences
of 32 bits, asked at up to 256. Later (`attnbook.data.recall.later`): four blocks of width 32, 400
steps of 32 texts with 8 pairs, a gap of 20 words and 8 questions; windows of 4. Adam with a cosine;
each model has its own learning rate for each task, the best of three by what is measured with seed
9. Then five other seeds."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.data import recall
from attnbook.data.counting import counting
from attnbook.feedforward import MLP
from attnbook.losses import token_loss
from attnbook.masks import And, causal, local
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.recurrence.delta import delta_chunks
from attnbook.recurrence.layer import unit
from attnbook.train.loop import cosine, train
from attnbook.transformer import Embed, LanguageModel
from bookkit.experiments import recalling

Run = list[float]  # right answers
Measure = Callable[[float, int], Run]  # of a rate and a seed
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "recurrence.json"
SEEDS, TUNE = range(5), 9
ASKED = (32, 64, 128, 256)  # bits
RECALL_RATES, RATES = (0.01, 0.03, 0.1), (0.003, 0.01, 0.03)


class Counter(nn.Module):
    """The delta rule and nothing else: each bit has its keys, values and strengths.

    A bit is written `writes` times in a row; a hidden layer reads the answer.
    """

    def __init__(self, modulus: int, largest: float, writes: int = 1, D: int = 8):
        super().__init__()
        self.largest, self.writes = largest, writes
        self.k, self.v = (nn.Parameter(torch.randn(2, writes, D)) for _ in "kv")
        self.strength = nn.Parameter(torch.zeros(2, writes))
        self.q = nn.Parameter(torch.randn(D))
        self.read = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, modulus))

    def forward(self, bits: Tensor) -> Tensor:
        k, v = (part[bits].flatten(1, 2) for part in (unit(self.k), self.v))
        beta = self.largest * (4 * self.strength[bits].flatten(1)).sigmoid()
        y, _ = delta_chunks(unit(self.q).expand_as(k), k, v, beta)
        return self.read(y[:, self.writes - 1 :: self.writes])


class LSTM(nn.Module):
    """A recurrent network whose step is not linear."""

    def __init__(self, modulus: int, width: int = 16):
        super().__init__()
        self.embed, self.cell = nn.Embedding(2, width), nn.LSTM(width, width, batch_first=True)
        self.read = nn.Linear(width, modulus)

    def forward(self, bits: Tensor) -> Tensor:
        return self.read(self.cell(self.embed(bits))[0])


class Windowed(nn.Module):
    """Attention that sees the last few positions, whatever mask it is given."""

    def __init__(self, attention: nn.Module, reach: int):
        super().__init__()
        self.attention, self.mask = attention, And(causal, local(reach))

    def forward(
        self, x: Tensor, mask: object = None, cache: object = None, positions: object = None
    ) -> Tensor:
        return self.attention(x, mask=self.mask)


def stack(mixers: Sequence[nn.Module], width: int, V: int, answers: int) -> LanguageModel:
    """A language model with one block for each mixer, that says one of `answers`."""
    blocks = [
        Block(PreNorm(mixer, RMSNorm(width)), PreNorm(MLP(width, 2 * width), RMSNorm(width)))
        for mixer in mixers
    ]
    body = Stack(blocks, RMSNorm(width))
    return LanguageModel(Embed(V, width), body, nn.Linear(width, answers))


def attention(width: int, heads: int, window: int | None = None) -> nn.Module:
    full = MultiHeadAttention(width, heads, rotate=Rotary(width // heads))
    return full if window is None else Windowed(full, window)


COUNTERS: dict[str, Callable[[int], nn.Module]] = {
    "attention": lambda modulus: stack([attention(16, 2)], 16, 2, modulus),
    "LSTM": LSTM,
    "delta, strength to 1": lambda modulus: Counter(modulus, 1.0),
    "delta, strength to 2": lambda modulus: Counter(modulus, 2.0),
    "delta to 2, written twice": lambda modulus: Counter(modulus, 2.0, writes=2),
}
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "F": lambda: attention(32, 4),
    "w": lambda: attention(32, 4, window=4),
}
COUNTED_BY = {
    2: ("attention", "LSTM", "delta, strength to 1", "delta, strength to 2"),
    3: ("LSTM", "delta, strength to 2", "delta to 2, written twice"),
}
STACKS = ("FFFF", "wwww", "wwwF")


def at_recall(task: str, look: str, D: int, rate: float, seed: int) -> Run:
    """Right answers by pairs read."""
    returning = task == "returning"
    model = recalling.fit(look, seed, D, returning, lr=rate)
    found = recalling.right(model, recalling.unseen(returning))
    return [round(x, 4) for x in found]


def at_counting(modulus: int, counter: str, rate: float, seed: int, steps: int = 600) -> Run:
    """Right answers at the last eight of each number of bits."""
    torch.manual_seed(seed)
    model = COUNTERS[counter](modulus)
    sampler = partial(counting(32, modulus), B=64)
    plan: dict[str, Any] = {"steps": steps, "lr": rate, "schedule": cosine(steps, steps // 20)}

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        return token_loss(model(batch[0]), batch[1])

    train(model, sampler, loss, seed=seed, progress=False, **plan)
    bits, counts = counting(max(ASKED), modulus)(torch.Generator().manual_seed(99), 128)
    with torch.no_grad():
        correct = (model(bits).argmax(-1) == counts).float().mean(0)
    return [round(correct[n - 8 : n].mean().item(), 4) for n in ASKED]


def at_later(kinds: str, rate: float, seed: int, steps: int = 400) -> Run:
    """Right answers to all questions."""
    torch.manual_seed(seed)
    model = stack([LAYERS[kind]() for kind in kinds], 32, recall.V, recall.KINDS)
    sampler = partial(recall.later(), B=32)
    plan: dict[str, Any] = {"steps": steps, "lr": rate, "schedule": cosine(steps, steps // 20)}

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        tokens, answers, asked = batch
        return token_loss(model(tokens)[:, asked], answers[:, asked])

    train(model, sampler, loss, seed=seed, progress=False, **plan)
    tokens, answers, asked = recall.later()(torch.Generator().manual_seed(99), 256)
    with torch.no_grad():
        said = model(tokens)[:, asked].argmax(-1)
    return [round((said == answers[:, asked]).float().mean().item(), 4)]


def groups() -> Iterator[tuple[str, str, Measure, Sequence[float]]]:
    """Each comparison: study, model, what measures it, its rates."""
    for task in ("once", "returning"):
        for look in recalling.LOOKS:
            yield "recall", f"{task}/{look}", partial(at_recall, task, look, 16), RECALL_RATES
    for modulus, counters in COUNTED_BY.items():
        for counter in counters:
            yield "counting", f"{modulus}/{counter}", partial(at_counting, modulus, counter), RATES
    for kinds in STACKS:
        yield "later", kinds, partial(at_later, kinds), RATES


class Runs:
    """What was measured so far, kept in a file; a run that is there is not measured again."""

    def __init__(self, draft: Path):
        self.draft = draft
        self.found = json.loads(draft.read_text()) if draft.exists() else {}

    def get(self, key: str, compute: Callable[[], Run]) -> Run:
        if key not in self.found:
            self.found[key] = compute()
            write(self.draft, self.found)
            print(key, self.found[key][-1], flush=True)
        return self.found[key]


def judged(key: str, run: Run) -> Run:
    """By what a rate is chosen: recall after all pairs; else all that was measured, in order."""
    return run[-1:] if key.startswith("recall/") else run


def compare(runs: Runs, key: str, measure: Measure, rates: Sequence[float]) -> dict[str, object]:
    """The rate that was best with the seed for tuning, and what five other seeds reach with it."""
    tried = {rate: runs.get(f"{key}/{rate}/{TUNE}", partial(measure, rate, TUNE)) for rate in rates}
    rate = max(rates, key=lambda rate: judged(key, tried[rate]))
    seeds = [runs.get(f"{key}/{rate}/{seed}", partial(measure, rate, seed)) for seed in SEEDS]
    return {"rate": rate, "tried": {str(r): run for r, run in tried.items()}, "seeds": seeds}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    studies = ("recall", "counting", "later")
    parser.add_argument("--only", choices=studies, help="measure this one and store nothing yet")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    runs, found = Runs(Path(__file__).parent / "recurrence.draft"), {}
    for study, name, measure, rates in groups():
        if only in (None, study):
            found[f"{study}/{name}"] = compare(runs, f"{study}/{name}", measure, rates)
    if only:
        return
    write(STORE, {"compared": found, "provenance": provenance(device.choose(0))})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
