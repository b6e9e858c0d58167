"""The last digit of a sum of digits: answered directly, after dots, or after the running sums.

The question is a row such as `7295=`. The direct answer is `3`; with dots it is `...3`, as many
tokens as the steps but none that says anything; with steps it is `7 9 8 3`, the sum so far after
each digit, of which the last is the answer.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

SYMBOLS = "0123456789=."
EQUALS, DOT, V = 10, 11, len(SYMBOLS)
WAYS = ("direct", "dots", "steps")

Digits = Int[Tensor, "B N"]
Rows = Int[Tensor, "B L"]


def digits(generator: torch.Generator, B: int, N: int) -> Digits:
    """B questions of N random digits."""
    if N < 1:
        raise ValueError(f"a sum has at least 1 digit; got {N}")
    return torch.randint(10, (B, N), generator=generator)


def question(given: Digits) -> Rows:
    """The digits and the equals sign, (B, N + 1)."""
    return F.pad(given, (0, 1), value=EQUALS)


def answer(given: Digits, way: str) -> Rows:
    """What is to be written, the last digit of the sum at its end: (B, N), or (B, 1) if direct."""
    if way not in WAYS:
        raise ValueError(f"an answer is written {', '.join(WAYS)}; not {way!r}")
    sums = given.cumsum(1) % 10
    if way == "steps":
        return sums
    return F.pad(sums[:, -1:], (given.shape[1] - 1 if way == "dots" else 0, 0), value=DOT)


def correct(given: Digits, written: Rows) -> Bool[Tensor, " B"]:
    """The verifier: it looks at the last token alone."""
    return written[:, -1] == given.sum(1) % 10
