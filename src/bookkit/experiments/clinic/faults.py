"""Eight faults of a training run: what each changes, which instrument gives it away, the cure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bookkit.experiments.clinic.recipe import Recipe


@dataclass(frozen=True)
class Fault:
    """One fault. `title` is the diagnosis; `change` is what it does to the settings of a healthy
    `Recipe`, and `variants` are other strengths of it. `tells` names the reading that gives it
    away, `sign` says what to see there, and `cure` what to do."""

    title: str
    change: Mapping[str, Any]
    variants: tuple[Mapping[str, Any], ...]
    tells: str
    sign: str
    cure: str

    def recipe(self, variant: int = 0, healthy: Recipe | None = None) -> Recipe:
        """A recipe with this fault: as in the book for 0, else the variant of that number."""
        all_of = (self.change, *self.variants)
        if not 0 <= variant < len(all_of):
            raise ValueError(f"{self.title} has variants 0 to {len(all_of) - 1}, not {variant}")
        return replace(healthy or Recipe(), **all_of[variant])


FAULTS: dict[str, Fault] = {
    "rate-high": Fault(
        "learning rate too high",
        {"rate": 0.1},
        ({"rate": 0.06}, {"rate": 0.15}),
        "update",
        "Steps of several per cent of the weights; the stream grows, the heads narrow, and the "
        "loss stays high.",
        "Divide the rate by 3 until the loss at a fixed step no longer falls.",
    ),
    "rate-low": Fault(
        "learning rate too low",
        {"rate": 1e-4},
        ({"rate": 5e-5}, {"rate": 2e-4}),
        "update",
        "Steps a tenth as long as the healthy ones, a thousandth of the weights; all else is calm, "
        "only slow.",
        "Multiply the rate by 3 until the loss gets worse, then go back one.",
    ),
    "no-warm-up": Fault(
        "post-norm without warm-up",
        {"norm": "post", "warmup": 0, "rate": 0.02},
        ({"norm": "post", "warmup": 0, "rate": 0.025}, {"norm": "post", "warmup": 1, "rate": 0.02}),
        "dead",
        "The first, full-sized steps kill a third of the units; the loss stays at the baseline.",
        "Warm up, or put the norm before each part.",
    ),
    "loud-start": Fault(
        "first weights too large",
        {"scale": 8.0},
        ({"scale": 6.0}, {"scale": 12.0}),
        "loss",
        "The first loss is far above ln V, the stream is loud and the heads have decided already.",
        "Draw the weights with the standard deviation of a published recipe.",
    ),
    "shifted-mask": Fault(
        "mask lets the next token through",
        {"leak": "mask"},
        ({"leak": "mask", "rate": 2e-3}, {"leak": "mask", "warmup": 60}),
        "in use",
        "Both losses fall below every honest baseline, and the prefix loss rises.",
        "tril(0) instead of tril(1), and a test that changes a later token.",
    ),
    "same-target": Fault(
        "target not shifted",
        {"leak": "target"},
        ({"leak": "target", "rate": 2e-3}, {"leak": "target", "warmup": 60}),
        "in use",
        "The loss is near zero after a few dozen steps, and attention never had to move.",
        "Compare position t with token t + 1; decode one batch and read it.",
    ),
    "never-zeroed": Fault(
        "gradients never set to zero",
        {"zeroed": False},
        ({"zeroed": False, "rate": 2e-3}, {"zeroed": False, "rate": 4e-3}),
        "gradient",
        "The norm never falls below the clipping threshold of 1: each step drags all earlier "
        "gradients along.",
        "optimizer.zero_grad() before each backward pass.",
    ),
    "too-little-text": Fault(
        "too little training text",
        {"characters": 1500},
        ({"characters": 1000}, {"characters": 2500}),
        "held out",
        "The training loss keeps falling while the held-out loss turns and rises.",
        "More text; else dropout, weight decay, a smaller model, or stop at the lowest point.",
    ),
}


def drawn(student: str, patients: int = 4) -> list[tuple[str, int]]:
    """The patients of one student: names of different faults and a variant of each, by a hash.

    The same student always gets the same ones, so nothing has to be stored.
    """
    if not 1 <= patients <= len(FAULTS):
        raise ValueError(f"1 to {len(FAULTS)} patients can be drawn, not {patients}")

    def number(word: str) -> int:
        digest = hashlib.sha256(f"clinic/{student}/{word}".encode()).digest()
        return int.from_bytes(digest[:8], "big")

    names = sorted(FAULTS, key=number)[:patients]
    return [(name, number(f"{name}/variant") % (1 + len(FAULTS[name].variants))) for name in names]
