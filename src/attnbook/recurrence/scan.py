"""Linear recurrences h_t = a_t h_{t−1} + b_t, all at once: T steps in log T rounds."""

import torch
from jaxtyping import Float
from torch import Tensor

Sequence = Float[Tensor, "*batch T D"]


def scan_loop(a: Sequence, b: Sequence, h: Float[Tensor, "*batch D"] | None = None) -> Sequence:
    """h_t = a_t h_{t−1} + b_t for each of D numbers apart, one step after the other.

    `h` is what there was before the first step: 0 unless given.
    """
    check_scan(a, b)
    h = torch.zeros_like(b[..., 0, :]) if h is None else h
    outputs = []
    for a_t, b_t in zip(a.unbind(-2), b.unbind(-2), strict=True):
        h = a_t * h + b_t
        outputs.append(h)
    return torch.stack(outputs, -2)


def scan(a: Sequence, b: Sequence, h: Float[Tensor, "*batch D"] | None = None) -> Sequence:
    """`scan_loop` in rounds: two steps are one of the same kind, (a₂ a₁) h + (a₂ b₁ + b₂).

    After a round each position has joined with the one 1, 2, 4, … before it, so ⌈log₂ T⌉ rounds
    reach all of the past. Hillis & Steele 1986; for recurrent networks Martin & Cundy 2018.
    """
    check_scan(a, b)
    if h is not None:
        b = torch.cat(((a[..., :1, :] * h[..., None, :] + b[..., :1, :]), b[..., 1:, :]), -2)
    reach, T = 1, a.shape[-2]
    while reach < T:
        late = a[..., reach:, :]
        b = torch.cat((b[..., :reach, :], late * b[..., :-reach, :] + b[..., reach:, :]), -2)
        a = torch.cat((a[..., :reach, :], late * a[..., :-reach, :]), -2)
        reach *= 2
    return b


def check_scan(a: Tensor, b: Tensor) -> None:
    """Raise a ValueError unless there is an a for each b, and at least one."""
    if a.shape != b.shape or b.shape[-2] < 1:
        raise ValueError(
            f"a {tuple(a.shape)} and b {tuple(b.shape)} must be alike, of 1 step or more"
        )
