"""What grading and the student's check forgive: a precision of one's own, a compiler that is slow.

Neither says anything about an answer: `torch.compile` takes longer than all cases together, and
float64, which numpy and `torch.set_default_dtype` make, is as good as float32.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

TWO_KINDS = re.compile(
    r"same dtype|expected scalar type|expected m1 and m2|must have the same dtype|"
    r"Index put requires the source and destination dtypes match"
)


def in_one_precision(function: Callable[..., Any], given: list[Any]) -> Any:
    """What the function answers; where numbers of two kinds meet, with all of them in float64.

    `given` then holds what it was asked with, so that changes in place are seen.
    """
    kept = [each.clone() if isinstance(each, torch.Tensor) else each for each in given]
    try:
        return function(*given)
    except RuntimeError as error:
        wide = doubled(kept)
        if not TWO_KINDS.search(str(error)) or not differs(wide, kept):
            raise
        given[:] = wide
        return function(*given)


def doubled(given: Sequence[Any]) -> list[Any]:
    """The arguments with all floating-point numbers in float64."""
    return [each.double() if is_floating(each) else each for each in given]


def is_floating(each: Any) -> bool:
    return isinstance(each, torch.Tensor) and each.is_floating_point()


def differs(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return any(is_floating(a) and a.dtype != b.dtype for a, b in zip(one, other, strict=True))


def eager(model: Any = None, **_: Any) -> Any:
    """In the place of `torch.compile`: the function as it is written; also `@torch.compile(…)`."""
    return (lambda function: function) if model is None else model


@contextmanager
def uncompiled() -> Iterator[None]:
    """Functions that `torch.compile` has wrapped run as they are written."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled; importing it takes seconds
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
