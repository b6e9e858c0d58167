"""How fast the pairs of coordinates turn that tell positions: plain, and stretched for long texts.

Each function returns a table of frequencies, fastest first, in radians per position. Always
float32: in bfloat16 the position 1000 and the position 1001 would be the same.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

Frequencies = Float[Tensor, " half"]


def frequencies(
    width: int, base: float = 10_000.0, device: torch.device | None = None
) -> Frequencies:
    """How fast each pair of coordinates turns, in radians a position: 1 down to nearly 1/base.

    Vaswani et al. 2017, section 3.5.
    """
    if width < 2 or width % 2:
        raise ValueError(f"sine and cosine come in pairs: the width is even, not {width}")
    return base ** (-torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)


plain = frequencies
CPU = torch.device("cpu")  # a table is made there even if a model is built without memory


def linear(D: int, base: float = 10_000.0, factor: float = 1.0) -> Frequencies:
    """All pairs slowed down alike: position 8 is turned as position 8/`factor` was.

    Chen et al. 2023, "Extending context window of large language models via positional
    interpolation", equation 3.
    """
    check_factor(factor)
    return plain(D, base, CPU) / factor


def llama3(
    D: int,
    base: float = 500_000.0,
    factor: float = 8.0,
    low: float = 1.0,
    high: float = 4.0,
    trained: int = 8192,
) -> Frequencies:
    """Pairs that turned more than `high` times in the `trained` context stay as they are, those
    that turned fewer than `low` times are slowed by `factor`; in between it goes over smoothly.

    Grattafiori et al. 2024 (Llama 3.1); the numbers are those of its configuration.
    """
    check_factor(factor)
    speed = plain(D, base, CPU)
    turns = trained * speed / (2 * math.pi)
    stays = ((turns - low) / (high - low)).clamp(0, 1)
    return stays * speed + (1 - stays) * speed / factor


def yarn(
    D: int,
    base: float = 10_000.0,
    factor: float = 4.0,
    trained: int = 4096,
    fast: float = 32.0,
    slow: float = 1.0,
    whole: bool = True,
) -> Frequencies:
    """Pairs that turned more than `fast` times in the `trained` context stay as they are, those
    that turned fewer than `slow` times are slowed by `factor`; in between a straight line over the
    pairs.

    `whole` rounds the two ends of that line to whole pairs, as the published code does. The
    temperature that belongs to it is `yarn_temperature`. Peng et al. 2024, section 3.2.
    """
    check_factor(factor)

    def pair(turns: float) -> float:
        """The pair that turns so many times in the context."""
        return D * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair(fast), pair(slow)
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, D - 1)
    last = last + 0.001 if first == last else last
    slowed = (
        (torch.arange(D // 2, dtype=torch.float32, device=CPU) - first) / (last - first)
    ).clamp(0, 1)
    speed = plain(D, base, CPU)
    return (1 - slowed) * speed + slowed * speed / factor


def yarn_temperature(factor: float, strength: float = 1.0) -> float:
    """What queries and keys are multiplied with when the context is stretched by `factor`.

    Scores then grow by its square. Peng et al. 2024, equation 22: 0.1 ln(factor) + 1.
    """
    return 1.0 if factor <= 1 else 0.1 * strength * math.log(factor) + 1


def check_factor(factor: float) -> None:
    """Raise a ValueError unless the context gets longer."""
    if factor < 1:
        raise ValueError(f"a context is stretched by a factor of at least 1; got {factor}")
