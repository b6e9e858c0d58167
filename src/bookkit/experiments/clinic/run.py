"""A run of the clinic: trained by its recipe, its instruments read every eighth step."""

import math
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW, Optimizer

from attnbook.data import text
from attnbook.losses import token_loss
from attnbook.train.loop import cosine
from attnbook.transformer import LanguageModel
from bookkit.experiments.clinic import readings
from bookkit.experiments.clinic.recipe import CONTEXT, Recipe, batches, build, targets

STEPS, EVERY, CLIP, DECAY, BETAS = 241, 8, 1.0, 0.1, (0.9, 0.99)
HELD_OUT = 48  # windows
Found = dict[str, list[float]]


def matrices(model: LanguageModel) -> list[nn.Parameter]:
    """The weight matrices of the blocks."""
    return [weight for weight in model.body.parameters() if weight.dim() > 1]


def update_ratio(before: list[Tensor], after: list[nn.Parameter]) -> float:
    """How long one step is beside the weights it changes, ‖ΔW‖ / ‖W‖: the median of matrices."""
    return median(
        ((new.detach() - old).norm() / old.norm()).item()
        for old, new in zip(before, after, strict=True)
    )


def examine(recipe: Recipe, seed: int = 0, steps: int = STEPS, until: int | None = None) -> Found:
    """Train by the recipe; each instrument's readings at steps 0, 8, 16, …

    To those of `readings.read` are added: "loss", of the step's own batch; "gradient", its norm
    before clipping; "update", `update_ratio`; "rate". The run ends at the first loss that is not
    finite, or after `until` of its `steps`.
    """
    docs = text.load("python-docs")
    tokens = docs.characters.encode(docs.train)
    held = text.consecutive(docs.characters.encode(docs.validation), CONTEXT)
    batch = held[0][:HELD_OUT], held[1][:HELD_OUT]
    model, draw = build(recipe, len(docs.characters), seed), torch.Generator().manual_seed(seed)
    sampler, factor = batches(recipe, tokens), cosine(steps, recipe.warmup)
    optimizer = AdamW(model.parameters(), recipe.rate, BETAS, weight_decay=DECAY)
    found: Found = {}
    for step in range(steps if until is None else until):
        reading = step % EVERY == 0
        now = readings.read(model.eval(), recipe, batch) if reading else {}
        before = [weight.detach().clone() for weight in matrices(model)] if reading else []
        rate = recipe.rate * factor(step)
        optimizer.param_groups[0]["lr"] = rate
        loss, norm = one_step(model.train(), recipe, optimizer, sampler(draw))
        if not math.isfinite(loss + norm):
            break
        if reading:
            now |= {"loss": loss, "gradient": norm, "rate": rate}
            now["update"] = update_ratio(before, matrices(model))
            for name, value in now.items():
                found.setdefault(name, []).append(value)
    return found


def one_step(
    model: LanguageModel, recipe: Recipe, optimizer: Optimizer, batch: tuple[Tensor, Tensor]
) -> tuple[float, float]:
    """One training step; the loss of its batch, and the gradient's norm before clipping."""
    x, y = batch
    loss = token_loss(model(x), targets(recipe, x, y))
    if recipe.zeroed:
        optimizer.zero_grad()
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), CLIP)
    if norm.isfinite():
        optimizer.step()
    return loss.item(), norm.item()
