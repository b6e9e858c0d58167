"""Lab 12's family of language models: what one is, what its training costs, and the training.

A decoder for characters whose width and depth are free; all else is fixed. Compute is counted in
floating-point operations, never in seconds, so that every machine has the same budget.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW

from attnbook.data import text

HEAD, T, BATCH = 16, 64, 8  # channels of a head, tokens of a window, windows of a step
STEP = BATCH * T  # tokens of a step
FLOOR, BETAS, DECAY, CLIP = 0.1, (0.9, 0.99), 0.1, 1.0
EVALUATED = 512  # held-out windows
LAST = 4  # characters whose embeddings are added up


@dataclass(frozen=True)
class Run:
    """One training run: width C, number of blocks, highest learning rate, steps and seed."""

    width: int
    layers: int
    rate: int | float
    steps: int
    seed: int = 0

    @property
    def tokens(self) -> int:
        """Tokens that are read, some of them more than once."""
        return self.steps * STEP


@dataclass(frozen=True)
class Trained:
    """The loss of the first batch before the first step, and that on held-out text after the last;
    nats per character."""

    first: float
    loss: float


def matrices(width: int, layers: int, V: int) -> int:
    """Parameters N that multiply: the blocks' matrices, 12 C² each, and the output layer's C V."""
    return 12 * layers * width**2 + width * V


def flops(run: Run, V: int) -> int:
    """Operations of a run: 6 N for each token, and 12 C T in each block for scores and averages."""
    each = 6 * matrices(run.width, run.layers, V) + 12 * run.layers * run.width * T
    return each * run.tokens


class Block(nn.Module):
    """Attention to what came before, then a network of two layers; both add to the stream."""

    def __init__(self, C: int, layers: int):
        super().__init__()
        self.heads = C // HEAD
        self.norm1, self.norm2 = nn.RMSNorm(C), nn.RMSNorm(C)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C, bias=False)
        self.up, self.down = nn.Linear(C, 4 * C, bias=False), nn.Linear(4 * C, C, bias=False)
        for layer, gain in ((self.qkv, 1.0), (self.up, 1.0), (self.out, 2.0), (self.down, 2.0)):
            size = layer.weight.shape[1] * (gain * layers if gain > 1 else 1.0)
            nn.init.normal_(layer.weight, std=1 / math.sqrt(size))

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """The stream after this block."""
        B, t, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, t, 3, self.heads, HEAD).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(B, t, C))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """Logits of the next character at each position of a window of at most 64."""

    def __init__(self, width: int, layers: int, V: int):
        super().__init__()
        self.tokens = nn.Embedding(LAST * V, width)  # a table for each of the last characters
        self.places = nn.Embedding(T, width)
        self.blocks = nn.Sequential(*(Block(width, layers) for _ in range(layers)))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, V, bias=False)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.5)
        nn.init.normal_(self.head.weight, std=0.5 / math.sqrt(width))

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """(B, T) to (B, T, V)."""
        V, t = self.head.weight.shape[0], ids.shape[1]
        last = [F.pad(ids, (far, 0))[:, :t] + far * V for far in range(LAST)]
        x = self.tokens(torch.stack(last)).sum(0) + self.places.weight[:t]
        return self.head(self.norm(self.blocks(x)))


def letters(part: str) -> str:
    """Small letters, with one space in place of all else."""
    return re.sub("[^a-z]+", " ", part.lower()).strip()


WORLDS: dict[str, Callable[[str], str]] = {
    "letters": letters,
    "forwards": lambda part: part,
    "backwards": lambda part: part[::-1],
}


@cache
def corpus(world: str) -> tuple[Int[Tensor, " N"], Int[Tensor, " M"], int]:
    """Characters to train on, characters held out, and V, how many kinds there are.

    `world` is one of `WORLDS`: Python's documentation, read in one of several ways.
    """
    if world not in WORLDS:
        raise ValueError(f"there is no text {world!r}; there are {', '.join(WORLDS)}")
    docs = text.load("python-docs")
    parts = [WORLDS[world](part) for part in (docs.train, docs.validation)]
    known = text.Characters("".join(parts))
    return known.encode(parts[0]), known.encode(parts[1]), len(known)


def factor(step: int, steps: int) -> float:
    """The share of the highest rate: up over a twentieth of the steps, then half a cosine down."""
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    along = (step - warm) / max(1, steps - warm)
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * along))


def begun(world: str, run: Run) -> tuple[Model, torch.Generator]:
    """The model before the first step, and the random numbers that draw its batches."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        model = Model(run.width, run.layers, corpus(world)[2])
    return model, torch.Generator().manual_seed(run.seed)


def batch_loss(model: nn.Module, known: Tensor, dice: torch.Generator) -> Float[Tensor, ""]:
    """The mean loss of 8 windows at random places."""
    starts = torch.randint(len(known) - T, (BATCH, 1), generator=dice)
    windows = known[starts + torch.arange(T + 1)]
    return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def first_loss(world: str, run: Run) -> float:
    """The loss of the first batch before the first step: a run's seed and size show in it."""
    model, dice = begun(world, run)
    return batch_loss(model, corpus(world)[0], dice).item()


def train(world: str, run: Run) -> Trained:
    """Train a run: AdamW, warm-up and half a cosine, gradients clipped at norm 1."""
    known, (model, dice), first = corpus(world)[0], begun(world, run), math.nan
    groups = [
        {"params": [w for w in model.parameters() if w.dim() > 1], "weight_decay": DECAY},
        {"params": [w for w in model.parameters() if w.dim() < 2], "weight_decay": 0.0},
    ]
    optimiser = AdamW(groups, lr=float(run.rate), betas=BETAS, fused=True)
    for step in range(run.steps):
        for group in optimiser.param_groups:
            group["lr"] = run.rate * factor(step, run.steps)
        loss = batch_loss(model, known, dice)
        first = loss.item() if step == 0 else first
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
    return Trained(first, held_out(model, world))


@torch.no_grad()
def held_out(model: nn.Module, world: str) -> float:
    """Mean loss of 512 windows of the held-out text, nats per character."""
    ids = corpus(world)[1]
    starts = torch.linspace(0, len(ids) - T - 1, EVALUATED).long()[:, None]
    windows = ids[starts + torch.arange(T + 1)]
    losses = [F.cross_entropy(model(p[:, :-1]).mT, p[:, 1:]).item() for p in windows.split(64)]
    return sum(losses) / len(losses)
