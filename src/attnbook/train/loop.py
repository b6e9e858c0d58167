"""Training: one loop, short enough to read aloud, and the schedules and losses that go with it."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam, Optimizer

from attnbook.train.checkpoint import Checkpoint
from attnbook.train.run import (
    Callback,
    Evaluate,
    History,
    Limit,
    OverBudget,
    Plan,
    Run,
    Schedule,
    Whole,
)
from attnbook.train.strategy import SingleProcess


# fmt: off
def train(
    model: nn.Module, sampler: Callable[[torch.Generator], Any], loss: Callable[[Any, Any], Any], *,
    steps: Whole | None = None, lr: int | float = 1e-3, optimizer: Optimizer | None = None,
    schedule: Schedule | OverBudget | None = None, clip: Limit = 1.0, seed: Whole = 0,
    evaluate: Evaluate | None = None, every: Whole = 100, seconds: Limit = None,
    checkpoint: str | Path | Checkpoint | None = None, save_every: Whole | None = None,
    save_seconds: Limit = None, precision: Callable[[], Any] = nullcontext, accumulate: Whole = 1,
    strategy: SingleProcess | None = None, callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> History:
    """Take `steps` steps of gradient descent on the model, and return their `History`.

    `sampler(generator)` draws a batch, `loss(model, batch)` turns it into one number. `optimizer`
    is Adam with learning rate `lr` unless one is passed; `schedule(step)` multiplies the rate; a
    gradient longer than `clip` is shortened to it. Every `every` steps, and at the end,
    `evaluate(model)` is recorded and the file `checkpoint` written: the same call then resumes.
    `seconds` limits the time spent on steps. Ctrl-C ends it after the current step.

    For long runs: `accumulate` micro-batches per step, a `strategy` for several processes,
    checkpoints after `save_every` steps or `save_seconds`, and `callbacks`.
    """
    plan = Plan(steps, schedule or constant(), seed, clip, every, seconds, evaluate, checkpoint,
                progress, accumulate, save_every, save_seconds)
    optimizer = optimizer or Adam(model.parameters(), lr=lr)
    with Run(model, optimizer, plan, strategy, callbacks) as run:
        while run.goes_on():                          # evaluates and saves when it is time
            optimizer.zero_grad()
            for batch in run.micro_batches(sampler):  # one, unless gradients are accumulated
                with precision():                     # on a GPU: here.autocast
                    value = loss(model, batch)
                run.backward(value)
            norm = clip_grad_norm_(model.parameters(), clip or math.inf)
            run.record_loss(norm)                     # before any weight changes; on a GPU seldom
            optimizer.step()
            run.record()
    return run.history
# fmt: on


def constant() -> Schedule:
    """A schedule that leaves the rate alone."""
    return lambda step: 1.0


def cosine(steps: int, warmup: int = 0, floor: int | float = 0.1) -> Schedule:
    """A schedule: up in a straight line for `warmup` steps, then down half a cosine to `floor`.

    Loshchilov and Hutter 2017 (SGDR), equation 5, without restarts.
    """
    if not 0 <= warmup < steps:
        raise ValueError(f"warmup of {warmup} does not fit into {steps} steps")
    if not 0 <= floor <= 1:
        raise ValueError(f"floor is {floor}; a factor from 0 to 1 is needed")

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return cosine_decay(min(1.0, (step - warmup) / max(1, steps - warmup - 1)), floor)

    return factor


def cosine_decay(done: float, floor: int | float = 0.1) -> float:
    """Half a cosine from 1 to `floor`, at a share `done` of the way."""
    return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2


def trapezoid(steps: int, warmup: int = 0, decay: int | None = None) -> Schedule:
    """A schedule: up for `warmup` steps, full rate, and straight down to 0 over the last `decay`.

    Known as warm-up, stable, decay: WSD. The decay, a fifth of all steps unless given, may start
    from any point of the plateau, so one long run serves every budget. Hu et al. 2024 (MiniCPM),
    section 4.
    """
    decay = steps // 5 if decay is None else decay
    if min(warmup, decay) < 0 or warmup + decay > steps:
        raise ValueError(f"warmup of {warmup} and decay of {decay} do not fit into {steps} steps")

    def factor(step: int) -> float:
        return max(0.0, min(1.0, (step + 1) / max(1, warmup), (steps - step) / (decay + 1)))

    return factor


def linear_decay(done: float, share: float = 0.2) -> float:
    """1, and straight down to 0 over the last `share` of the way: a trapezoid's end."""
    return max(0.0, min(1.0, (1 - done) / share))
