"""Training: one loop, short enough to read aloud, and the schedules and losses that go with it."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam, Optimizer

from attnbook.training.history import History, NonFiniteLoss
from attnbook.training.plan import Evaluate, Limit, Plan, Schedule, Whole
from attnbook.training.run import Run

__all__ = [
    "History",
    "NonFiniteLoss",
    "constant",
    "cosine",
    "parameters",
    "token_loss",
    "train",
    "trapezoid",
]


# fmt: off
def train(
    model: nn.Module, sampler: Callable[[torch.Generator], Any], loss: Callable[[Any, Any], Any], *,
    steps: Whole, lr: int | float = 1e-3, optimizer: Optimizer | None = None,
    schedule: Schedule | None = None, clip: Limit = 1.0, seed: Whole = 0,
    evaluate: Evaluate | None = None, every: Whole = 100, seconds: Limit = None,
    checkpoint: str | Path | None = None, precision: Callable[[], Any] = nullcontext,
    progress: bool = True,
) -> History:
    """Improve `model` by `steps` small steps downhill, and return the `History` of them.

    `sampler(generator)` draws a batch, `loss(model, batch)` turns it into one number.
    `optimizer` is Adam with rate `lr` unless one is passed; `schedule(step)` multiplies its
    rate; a gradient longer than `clip` is shortened to it. Every `every` steps, and at the
    end, `evaluate(model)` is recorded and the file `checkpoint` written: the same call then
    resumes. `seconds` limits the time spent on steps. Ctrl-C ends it after the current step.
    """
    plan = Plan(steps, schedule or constant(), seed, clip, every, seconds, evaluate, checkpoint,
                progress)
    optimizer = optimizer or Adam(model.parameters(), lr=lr)
    with Run(model, optimizer, plan) as run:
        while run.goes_on():                    # evaluates and saves when it is time
            batch = run.to_device(sampler(run.generator))
            with precision():                   # on a GPU: here.autocast
                value = loss(model, batch)
            optimizer.zero_grad()
            value.backward()
            norm = clip_grad_norm_(model.parameters(), clip or math.inf)
            run.check_finite(value, norm)       # before any weight changes
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
        done = min(1.0, (step - warmup) / max(1, steps - warmup - 1))
        return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2

    return factor


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


def token_loss(
    logits: Float[Tensor, "*batch V"],
    targets: Int[Tensor, "*batch"],
    mask: Bool[Tensor, "*batch"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """How surprised the model is by a true token, on average, in nats.

    The cross-entropy of `logits` with `targets`, over the places where `mask` is True. With label
    `smoothing` the target is a mixture: the true token, and this share of all tokens alike (Szegedy
    et al. 2016, section 7).
    """
    if logits.shape[:-1] != targets.shape or (mask is not None and mask.shape != targets.shape):
        shapes = ", ".join(
            f"{name} {tuple(tensor.shape)}"
            for name, tensor in {"logits": logits, "targets": targets, "mask": mask}.items()
            if tensor is not None
        )
        raise ValueError(f"shapes do not fit: {shapes}; logits have one axis more, V")
    if mask is not None:
        logits, targets = logits[mask], targets[mask]
    if targets.numel() == 0:
        raise ValueError("no token to take the loss of: the mask is False everywhere")
    return nn.functional.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), label_smoothing=smoothing
    )


def parameters(model: nn.Module) -> int:
    """How many numbers training may change; a tensor shared by two modules counts once."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
