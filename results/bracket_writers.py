"""Text with brackets, written by a network and by a table of counts: the stored lines of chapter 1.

    python results/bracket_writers.py    # a quarter of an hour

An LSTM learns to predict each next character of the "mixed" text of `attnbook.data.brackets`
(brackets close after 0 to 40 letters): 2,000 steps of Adam, windows of 64, batches of 64, one rate,
two seeds. Another has short lessons first: of its 2,000 steps 1,000 are on text whose brackets
close after at most 5 letters. (That this works was seen with seed 0 before it was written down
here.) The table of counts is that of chapter 1: strings of up to 8 characters in 5,000 windows. All
then write, drawing each character from their own probabilities; the table falls back on a shorter
window where a longer one was never counted. Of the brackets that they close, how many are of the
kind that is open?
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.data.brackets import CHARACTERS, CLOSED, OPEN, brackets
from attnbook.losses import parameters, token_loss
from attnbook.provenance import provenance, write
from attnbook.recurrent import LSTMCell, language_model
from attnbook.train.loop import cosine, train

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "bracket_writers.json"
WIDTH, RATE, SEEDS = 128, 0.01, (0, 1)
LESSONS = {  # letters inside a bracket, at most, and steps
    "LSTM": ((40, 2000),),
    "LSTM, short lessons first": ((5, 1000), (40, 1000)),
}
WINDOWS, N, LINES, LENGTH, SHOWN = 5000, 8, 200, 200, 2

Table = dict[str, Counter[str]]


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the next character, in nats."""
    return token_loss(model(batch[0])[0], batch[1])


def network(seed: int, lessons: Sequence[tuple[int, int]]) -> dict:
    """An LSTM after its lessons: its loss on held-out windows, and what it wrote."""
    docs = text.load("python-docs")
    torch.manual_seed(seed)
    model = language_model(LSTMCell, len(CHARACTERS), WIDTH)
    for n, (far, steps) in enumerate(lessons):
        sampler, schedule = brackets(docs.train, far=far), cosine(steps, 50)
        train(
            model,
            sampler,
            loss,
            steps=steps,
            lr=RATE,
            schedule=schedule,
            seed=seed + 100 * n,
            progress=False,
        )
    held_out = brackets(docs.validation, B=300)(torch.Generator().manual_seed(99))
    with torch.no_grad():
        nats = round(loss(model, held_out).item(), 4)
    start = CHARACTERS.encode(" ").expand(LINES, 1)
    drawn = model.sample(start, LENGTH, torch.Generator().manual_seed(seed))
    lines = [CHARACTERS.decode(row) for row in drawn]
    return {"loss": nats, "parameters": parameters(model)} | judged(lines)


def counted(n: int = N) -> Table:
    """After each string of up to n - 1 characters: how often which one followed."""
    sample = brackets(text.load("python-docs").train, B=WINDOWS)
    followed: Table = defaultdict(Counter)
    for row in map(CHARACTERS.decode, sample(torch.Generator().manual_seed(0))[0]):
        for i in range(len(row)):
            for k in range(min(n - 1, i) + 1):
                followed[row[i - k : i]][row[i]] += 1
    return followed


def from_table(followed: Table, seed: int) -> dict:
    """What the table wrote."""
    draw, lines = random.Random(seed), []
    for _ in range(LINES):
        line = " "
        for _ in range(LENGTH):
            seen = next(line[-k:] for k in range(N - 1, 0, -1) if line[-k:] in followed)
            line += draw.choices(list(followed[seen]), list(followed[seen].values()))[0]
        lines.append(line[1:])
    return judged(lines)


def closings(line: str) -> list[tuple[int, bool]]:
    """For each bracket that closes an open one: how far back it opened, and is it the same kind?"""
    found, opened = [], None
    for i, c in enumerate(line):
        if c in OPEN:
            opened = i
        elif c in CLOSED and opened is not None:
            found.append((i - opened, OPEN.index(line[opened]) == CLOSED.index(c)))
            opened = None
    return found


def judged(lines: list[str]) -> dict:
    """Shares of closed brackets that fit: opened in the table's window, before it; two lines."""
    every = [each for line in lines for each in closings(line)]

    def share(asked: Callable[[int], bool]) -> float:
        right = [fits for steps, fits in every if asked(steps)]
        return round(sum(right) / len(right), 4)

    near, far = share(lambda steps: steps < N), share(lambda steps: steps >= N)
    return {"near": near, "far": far, "brackets": len(every), "lines": lines[:SHOWN]}


def main() -> None:
    torch.set_num_threads(1)
    here = device.choose(0)
    table = counted()
    found = {"table": [from_table(table, seed) for seed in SEEDS]}
    for name, lessons in LESSONS.items():
        found[name] = [network(seed, lessons) for seed in SEEDS]
    for name, runs in found.items():
        for run in runs:
            print(name, run)
    write(STORE, found | {"provenance": provenance(here)})


if __name__ == "__main__":
    main()
