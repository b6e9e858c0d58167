"""The small transformer that readers train in their browser, and its four ruins, with the module.

    python results/train_here.py            # all runs, resumed one by one: ten minutes on one core
    python results/train_here.py --steps 20 --out somewhere.json    # to try it out

Question: what do the healthy run and each ruin show within 300 steps, so that the page may say it?
Model: `llama` of two blocks, width 32, two heads, with a plain ReLU network of 128 and no biases;
16 windows of 32 characters of Shakespeare a step, AdamW at 0.03 after 30 steps of warm-up, clipping
at 1, weight decay 0.1. Each ruin changes one setting: ten times the rate; no warm-up; a causal mask
that is off by one; targets that are the inputs. Two seeds each; the rate was chosen beforehand,
because at 0.02 two runs without warm-up fell behind by nothing.

Read every 20 steps: "own", the loss of 64 held-out windows by the run's own code, and "used", the
loss where only the past is given (with the wrong mask the windows are cut after 8, 16, 24 and 32
characters). What counts: the healthy run must be below a table of pairs after 300 steps with every
seed, or the page may not say so; a ruin has a symptom if it is apart from the healthy run by more
than 0.1 nats with every seed after 20 or after 300 steps. What has none will be said to have none.
"""

import argparse
import gzip
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from attnbook import device
from attnbook.data.text import Characters, windows
from attnbook.feedforward import MLP
from attnbook.losses import token_loss
from attnbook.models.llama import llama
from attnbook.provenance import provenance, write
from attnbook.transformer import LanguageModel, initialise, normal

SOURCE = Path(__file__).parents[1] / "src" / "bookkit"
STORE = SOURCE / "runs" / "train_here.json"
T, B, WIDTH, HEADS, DEPTH, HIDDEN = 32, 16, 32, 2, 2, 128
STEPS, EVERY, SEEDS, WINDOWS, CUTS = 300, 20, range(2), 64, (8, 16, 24, 32)
RATE, WARMUP, CLIP, DECAY, BETAS = 0.03, 30, 1.0, 0.1, (0.9, 0.99)
RUINS: dict[str, dict[str, Any]] = {
    "none": {},
    "rate": {"rate": 10 * RATE},
    "warmup": {"warmup": 0},
    "mask": {"leak": "mask"},
    "target": {"leak": "target"},
}
Tokens = Int[Tensor, " N"]


def texts() -> tuple[str, str]:
    """What the page trains on, and what is held out."""
    packed = (SOURCE / "explore" / "shakespeare.txt.gz").read_bytes()
    train, held = gzip.decompress(packed).decode("ascii").split("\0")
    return train, held


class Shifted(LanguageModel):
    """A language model whose causal mask is off by one: each position sees the next token, too."""

    def forward(self, tokens: Tensor, *_: Any, **__: Any) -> Tensor:
        n = tokens.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril(1)  # not tril(0)
        return self.lm_head(self.body(self.embed(tokens), mask=mask))


def build(V: int, leak: str = "") -> LanguageModel:
    """The model before its first step."""
    network = partial(MLP, WIDTH, HIDDEN, nn.ReLU(), bias=False)
    model = llama(V, WIDTH, DEPTH, HEADS, network=network)
    std = 0.02 * math.sqrt(768 / WIDTH)  # GPT-2's, for this width
    initialise(model, partial(normal, depth=DEPTH, std=std), embedding_std=std)
    return Shifted(model.embed, model.body, model.lm_head) if leak == "mask" else model


def held_out(tokens: Tokens) -> Int[Tensor, "W T1"]:
    """64 windows and the character behind each, as far from each other as the text allows."""
    apart = (len(tokens) - T - 1) // (WINDOWS - 1)
    return torch.stack([tokens[n * apart : n * apart + T + 1] for n in range(WINDOWS)])


@torch.no_grad()
def examine(model: LanguageModel, held: Tensor, leak: str) -> tuple[float, float]:
    """The loss by the run's own code, and with only the past given."""
    x, y = held[:, :-1], held[:, 1:]
    logits = model(x)
    own, used = token_loss(logits, x if leak == "target" else y), token_loss(logits, y)
    if leak == "mask":
        parts = [token_loss(model(x[:, :t])[:, -1], y[:, t - 1]) for t in CUTS]
        used = torch.stack(parts).mean()
    return own.item(), used.item()


def train(seed: int, steps: int, rate: float = RATE, warmup: int = WARMUP, leak: str = "") -> Any:
    """One run: held-out losses every 20 steps, and the gradient's norm at each."""
    characters = Characters("".join(texts()))
    tokens, held = (characters.encode(part) for part in texts())
    torch.manual_seed(seed)
    model, draw = build(len(characters), leak), torch.Generator().manual_seed(seed)
    optimizer = AdamW(model.parameters(), rate, BETAS, weight_decay=DECAY)
    sampler, rows = windows(tokens, T, B), held_out(held)
    found: dict[str, list[float]] = {"own": [], "used": [], "norm": []}
    for step in range(steps + 1):
        if step % EVERY == 0:
            for name, value in zip(("own", "used"), examine(model, rows, leak), strict=True):
                found[name].append(round(value, 4))
        if step == steps:
            break
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / max(1, warmup))
        x, y = sampler(draw)
        loss = token_loss(model(x), x if leak == "target" else y)
        optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if step % EVERY == 0:
            found["norm"].append(round(norm.item(), 4))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=STORE)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    here = device.choose(0)
    draft = Path(__file__).parent / f"{given.out.stem}.draft"
    runs = json.loads(draft.read_text()) if draft.exists() else {}
    for seed in SEEDS:
        for name, change in RUINS.items():
            if f"{name}/{seed}" not in runs:
                runs[f"{name}/{seed}"] = train(seed, given.steps, **change)
                write(draft, runs)
                print(name, seed, [runs[f"{name}/{seed}"]["used"][i] for i in (0, -1)], flush=True)
    write(given.out, {"every": EVERY, "runs": runs, "provenance": provenance(here)})
    draft.unlink()


if __name__ == "__main__":
    main()
