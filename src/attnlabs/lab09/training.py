"""A run of the ward: trained by its settings, its instruments read on the way."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import mean, median

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW, Optimizer

from attnlabs.lab09 import language
from attnlabs.lab09.model import CONTEXT, Inside, V, Weights, first_weights, logits
from attnlabs.lab09.settings import STEPS, Settings

EVERY, BATCH, CLIP, WINDOWS = 8, 16, 1.0, 32
GRID = 2.0**-16  # of gradients: far below those that count, far above a processor's last digits
Found = dict[str, list[float]]
READINGS = ("loss", "held out", "in use", "gradient", "update", "stream", "entropy", "dead")


def cross_entropy(output: Tensor, wanted: Tensor) -> Tensor:
    """The mean loss in nats of logits (…, V) and tokens (…)."""
    return F.cross_entropy(output.reshape(-1, V), wanted.reshape(-1))


def pair(windows: Tensor, shift: int) -> tuple[Tensor, Tensor]:
    """Inputs and what they are compared with: windows (B, T+1) as two tensors (B, T)."""
    return windows[:, :-1], windows[:, shift : shift + windows.shape[1] - 1]


def factor(step: int, warmup: int) -> float:
    """The share of the highest rate: up in a line, then down to a tenth along a cosine."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    left = (step - warmup) / max(1, STEPS - 1 - warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * left))


@torch.no_grad()
def read(w: Weights, s: Settings) -> dict[str, float]:
    """What the instruments show on held-out text; see `examine`."""
    inside, text = Inside(), language.tokens()[1][: WINDOWS * (CONTEXT + 1)]
    windows = text.view(WINDOWS, CONTEXT + 1)
    x, y = pair(windows, s.shift)
    found = {"held out": cross_entropy(logits(x, w, s.diagonal, inside), y).item()}
    places = (CONTEXT // 3, 2 * CONTEXT // 3, CONTEXT)
    last = [(logits(x[:, :t], w, s.diagonal)[:, -1], windows[:, t]) for t in places]
    found["in use"] = mean(cross_entropy(*each).item() for each in last)
    found["stream"] = inside.stream.square().mean().sqrt().item()
    spread = [torch.special.entr(a).sum(-1) / (a > 0).sum(-1).log() for a in inside.attention]
    found["entropy"] = mean(share[..., 8:].mean().item() for share in spread)
    idle = torch.cat([(a <= 0).flatten(0, 1).all(0) for a in inside.active])
    return found | {"dead": idle.double().mean().item()}


@cache
def examine(s: Settings, seed: int = 0, every: int = EVERY) -> Found:
    """Train by the settings; each instrument's readings at steps 0, 8, 16, … 144.

    "loss" is that of the step's own batch, "held out" that of other text by the run's own code,
    "in use" that of the next letter when only the past is given, all in nats; "gradient" the norm
    before clipping at 1; "update" the median of ‖ΔW‖ / ‖W‖ over the blocks' matrices; "stream" the
    root mean square of the last block's output; "entropy" that of the heads as a share of the
    highest possible; "dead" the share of units that are 0 for every letter. A run ends at the first
    loss that is not finite. `every` says after how many steps the instruments are read again.
    """
    w, numbers = first_weights(seed, s.scale), torch.Generator().manual_seed(seed)
    optimizer = AdamW(w.values(), s.rate, (0.9, 0.99), weight_decay=float(s.decay))
    found: Found = {name: [] for name in READINGS}
    for step in range(STEPS):
        now = read(w, s) if step % every == 0 else {}
        before = [value.detach().clone() for value in matrices(w)] if now else []
        optimizer.param_groups[0]["lr"] = s.rate * factor(step, s.warmup)
        loss, size = one_step(w, s, optimizer, numbers)
        if not math.isfinite(loss + size):
            break
        if now:
            now |= {"loss": loss, "gradient": size, "update": ratio(before, matrices(w))}
            for name, value in now.items():
                found[name].append(value)
    return found


def one_step(
    w: Weights, s: Settings, optimizer: Optimizer, numbers: torch.Generator
) -> tuple[float, float]:
    """One training step; the loss of its batch, and the gradient's norm before clipping."""
    text = language.tokens()[0][: s.characters]
    starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=numbers)
    x, y = pair(text[starts + torch.arange(CONTEXT + 1)], s.shift)
    loss = cross_entropy(logits(x, w, s.diagonal), y)
    if s.zeroed:
        optimizer.zero_grad()
    loss.backward()
    for value in w.values():
        to_grid(value.grad)
    size = clip_grad_norm_(w.values(), CLIP).item()
    if math.isfinite(size):
        optimizer.step()
    return loss.item(), size


def to_grid(gradient: Tensor | None) -> None:
    """Round to the grid, in place. Processors add up in different orders; over 145 steps of a run
    that swings, the last of sixteen digits would grow into the second one of its loss."""
    if gradient is not None:
        gradient.div_(GRID).round_().mul_(GRID)


def matrices(w: Weights) -> list[Tensor]:
    """The weight matrices of the blocks."""
    return [value for name, value in w.items() if "." in name]


def ratio(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """How long a step is beside the weights it changes: the median over the matrices."""
    pairs = zip(before, after, strict=True)
    return median(((new.detach() - old).norm() / old.norm()).item() for old, new in pairs)


def in_use(s: Settings, seed: int) -> float:
    """The loss in use at the last reading, in nats; infinite if the run did not last so long."""
    found = ends(s, seed)["in use"]
    return found[-1] if len(found) == 2 else math.inf


def ends(s: Settings, seed: int) -> Found:
    """The first and the last reading of a run, in half the time."""
    return examine(s, seed, STEPS - 1)
