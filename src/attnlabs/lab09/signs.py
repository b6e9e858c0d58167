"""What a run shows that has a fault: to say of a wrong diagnosis what speaks against it."""

from collections.abc import Callable
from dataclasses import dataclass

from attnlabs.lab09.faults import WELL
from attnlabs.lab09.training import Found


@dataclass(frozen=True)
class Sign:
    """`test` tells of a run's readings whether it shows the sign that `words` describes."""

    test: Callable[[Found], bool]
    words: str


def cannot_write_what_it_predicts(found: Found) -> bool:
    """The loss is near zero, and what is written is hardly better than chance."""
    return found["loss"][-1] < 0.2 and found["in use"][-1] > 2.5


SIGNS: dict[str, tuple[Sign, ...]] = {
    "healthy": (
        Sign(
            lambda f: f["in use"][-1] <= WELL,
            "a healthy run writes well in the end; look at this one's loss in use",
        ),
    ),
    "rate-high": (
        Sign(
            lambda f: f["update"][0] > 0.05,
            "with too high a rate even the first step, the shortest of the warm-up, is several per "
            "cent of the weights; look at this one's first update",
        ),
    ),
    "rate-low": (
        Sign(
            lambda f: max(f["update"]) < 0.007,
            "too low a rate makes every step short beside the weights; look at this one's updates",
        ),
        Sign(
            lambda f: f["loss"][0] < 4,
            "a low rate has done nothing before the first step; look at this one's first loss",
        ),
    ),
    "decay-strong": (
        Sign(
            lambda f: f["stream"][-1] < 0.7 * f["stream"][0],
            "weights that decay make the stream quieter and quieter; look at this one's stream",
        ),
    ),
    "loud-start": (
        Sign(
            lambda f: f["loss"][0] > 4,
            "weights that are too large show in the first loss, far above ln V = 2.77; look at "
            "this one's",
        ),
    ),
    "shifted-mask": (
        Sign(
            cannot_write_what_it_predicts,
            "who sees the next letter has a loss near zero and cannot write; look at this one's "
            "loss beside its loss in use",
        ),
        Sign(
            lambda f: f["loss"][3] > 0.5,
            "to use a leak in the mask, attention has to learn where to look: the loss needs "
            "its time to fall; look how soon this one's is near zero, and at the entropy",
        ),
    ),
    "same-target": (
        Sign(
            cannot_write_what_it_predicts,
            "who is asked for what it is given has a loss near zero and cannot write; look at "
            "this one's loss beside its loss in use",
        ),
        Sign(
            lambda f: f["loss"][3] < 0.5,
            "to copy its input a model needs no attention and a few dozen steps; look how long "
            "this one's loss takes, and at the entropy",
        ),
    ),
    "never-zeroed": (
        Sign(
            lambda f: f["loss"][0] < 4,
            "old gradients have done nothing before the first step; look at this one's first loss",
        ),
        Sign(
            lambda f: min(f["gradient"]) > 1,
            "gradients that pile up have a norm that never falls below the clipping threshold of "
            "1; look at this one's",
        ),
        Sign(
            lambda f: f["stream"][-1] > f["stream"][0],
            "gradients that pile up keep pushing the same way, and the stream grows; look at this "
            "one's stream",
        ),
    ),
    "too-little-text": (
        Sign(
            lambda f: f["held out"][-1] - f["loss"][-1] > 0.7,
            "too little text makes training loss and held-out loss part; look at this one's two "
            "curves",
        ),
    ),
}


def against(claimed: str, found: Found) -> str:
    """What speaks against a diagnosis: the first sign of it that the run does not show, or ""."""
    return next((sign.words for sign in SIGNS[claimed] if not sign.test(found)), "")
