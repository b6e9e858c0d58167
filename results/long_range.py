"""Parity and recall: what networks learn of each, rates tuned. The stored tables of chapter 12.

    python results/long_range.py           # resumed run by run

Recall (`attnbook.data.marked`): forty tokens, one symbol is marked, a question at the end; 250
steps of 32 sequences, four networks of about 3,700 parameters; judged with the mark 1 to 8 tokens
back (near) and 28 to 39 (far). Parity (`attnbook.data.counting`): 20 bits behind a begin token,
after each bit whether the ones so far are odd; batches of 64, a recurrent network after 300 steps,
a transformer after 300 and after 2,000; judged after the last of 10, 20 and 100 bits.

Each network gets the best of three learning rates in each task, chosen by the loss on held-out
sequences with a seed of its own; then five other seeds. Adam, warm-up, half a cosine.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.data.counting import counting
from attnbook.data.marked import MARKS, answered, marked
from attnbook.feedforward import MLP
from attnbook.losses import parameters, token_loss
from attnbook.masks import causal
from attnbook.models.llama import llama
from attnbook.norms import LayerNorm
from attnbook.positions import Alibi, Rotary
from attnbook.provenance import provenance, write
from attnbook.recurrent import Layer, LSTMCell, RNNCell, language_model
from attnbook.train.loop import cosine, train

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "long_range.json"
RATES, TUNED_WITH, SEEDS = (0.003, 0.01, 0.03), 100, range(5)
BITS = (10, 20, 100)


class Reader(nn.Module):
    """Embedding, body, one answer after the last token."""

    def __init__(self, width: int, body: nn.Module, causally: bool = False) -> None:
        super().__init__()
        self.embed, self.body, self.causally = nn.Embedding(2 * MARKS + 1, width), body, causally
        self.name = nn.LazyLinear(MARKS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = self.body(x, mask=causal) if self.causally else self.body(x)
        return self.name((x[0] if isinstance(x, tuple) else x)[:, -1])


def blocks(**parts: Any) -> Stack:
    """Two pre-norm blocks of width 12 with two heads."""

    def block() -> Block:
        attention, mlp = MultiHeadAttention(12, 2, **parts), MLP(12, 40)
        return Block(PreNorm(attention, LayerNorm(12)), PreNorm(mlp, LayerNorm(12)))

    return Stack([block() for _ in range(2)], LayerNorm(12))


def open_lstm() -> Layer:
    """An LSTM whose forget gates start open."""
    layer = Layer(LSTMCell(16, 21))
    nn.init.constant_(layer.cell.from_input.bias.chunk(4)[1], 4.0)
    return layer


def counter() -> nn.Module:
    """A causal transformer with rotary positions for bits behind a begin token."""
    return llama(3, width=16, depth=2, heads=2, hidden=43)


RECALL: dict[str, Callable[[], nn.Module]] = {
    "RNN": lambda: Reader(37, Layer(RNNCell(37, 37))),
    "LSTM, open": lambda: Reader(16, open_lstm()),
    "rotary": lambda: Reader(12, blocks(rotate=Rotary(6)), causally=True),
    "ALiBi": lambda: Reader(12, blocks(relative=Alibi(2)), causally=True),
}
PARITY: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "RNN": (lambda: language_model(RNNCell, 3, 54), 300),
    "attention, 300": (counter, 300),
    "attention, 2,000": (counter, 2000),
}
WORK = [*(("recall", name) for name in RECALL), *(("parity", name) for name in PARITY)]


def recalls(model: nn.Module, distances: range) -> float:
    """The share of right answers with the mark at one of these distances."""
    parts = [marked(torch.Generator().manual_seed(1000 + d), 25, 40, d) for d in distances]
    tokens, answer = (torch.cat(part) for part in zip(*parts, strict=True))
    return (model(tokens).argmax(-1) == answer).float().mean().item()


def recall(name: str, rate: float, seed: int) -> dict[str, float]:
    """One run of recall: the loss on held-out sequences, and the shares near and far."""
    torch.manual_seed(seed)
    model = RECALL[name]()
    model(torch.zeros(1, 2, dtype=torch.long))  # the last layer takes its size
    schedule = cosine(250, 10)
    plan: dict[str, Any] = {"lr": rate, "schedule": schedule, "seed": seed, "progress": False}
    train(model, partial(marked, B=32), answered, steps=250, **plan)
    with torch.no_grad():
        loss = answered(model, marked(torch.Generator().manual_seed(99), 1000)).item()
        near, far = recalls(model, range(1, 9)), recalls(model, range(28, 40))
    return {"loss": loss, "near": near, "far": far, "parameters": parameters(model)}


def strings(generator: torch.Generator, B: int = 64, T: int = 20) -> tuple[Tensor, Tensor]:
    """Bits behind a begin token (2), and the parity so far (0 at the begin token)."""
    bits, odd = counting(T)(generator, B)
    return F.pad(bits, (1, 0), value=2), F.pad(odd, (1, 0))


def logits(model: nn.Module, tokens: Tensor) -> Tensor:
    """What the model says of each position."""
    said = model(tokens)
    return said[0] if isinstance(said, tuple) else said


def parity_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Cross-entropy of the parity after each bit, nats."""
    return token_loss(logits(model, batch[0]), batch[1])


def parity(name: str, rate: float, seed: int) -> dict[str, float]:
    """One run of parity: the loss on held-out strings, and the shares after the last bit."""
    torch.manual_seed(seed)
    build, steps = PARITY[name]
    model, schedule = build(), cosine(steps, 20)
    plan: dict[str, Any] = {"lr": rate, "schedule": schedule, "seed": seed, "progress": False}
    train(model, strings, parity_loss, steps=steps, **plan)
    found: dict[str, float] = {"parameters": parameters(model)}
    with torch.no_grad():
        found["loss"] = parity_loss(model, strings(torch.Generator().manual_seed(99), 1000)).item()
        for T in BITS:
            tokens, odd = strings(torch.Generator().manual_seed(T), 300, T)
            right = logits(model, tokens)[:, -1].argmax(-1) == odd[:, -1]
            found[f"{T} bits"] = right.float().mean().item()
    return found


MEASURES = {"recall": recall, "parity": parity}


def best_rate(runs: dict[str, Any], task: str, name: str) -> float:
    """The learning rate with the lowest held-out loss."""
    return min(RATES, key=lambda rate: runs[f"{task}/{name}/{rate}/{TUNED_WITH}"]["loss"])


def main() -> None:
    torch.set_num_threads(1)
    runs = json.loads(STORE.read_text("utf-8"))["runs"] if STORE.exists() else {}

    def run(task: str, name: str, rate: float, seed: int) -> None:
        key = f"{task}/{name}/{rate}/{seed}"
        if key not in runs:
            found = MEASURES[task](name, rate, seed)
            runs[key] = {what: float(f"{value:.4g}") for what, value in found.items()}
            write(STORE, {"runs": runs, "provenance": provenance(device.choose(0))})
            print(key, runs[key], flush=True)

    for task, name in WORK:
        for rate in RATES:
            run(task, name, rate, TUNED_WITH)
        for seed in SEEDS:
            run(task, name, best_rate(runs, task, name), seed)


if __name__ == "__main__":
    main()
