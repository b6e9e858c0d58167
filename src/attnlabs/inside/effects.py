"""What a call does beside its answer: arguments that it changes, gradients that it loses.

The student's check and the grading ask the same of a function, with this.
"""

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from attnlabs.inside.fingerprints import Outcome, parts_of
from attnlabs.inside.leniency import in_one_precision


def changed(given: Sequence[Any], before: Sequence[Any]) -> set[int]:
    """The places of the tensors in `given` that are no longer what they were `before`."""
    pairs = enumerate(zip(given, before, strict=True))
    return {place for place, (one, other) in pairs if not untouched(one, other)}


def untouched(one: Any, other: Any) -> bool:
    """Is it the same tensor still? What is no tensor cannot be changed."""
    if not isinstance(one, torch.Tensor):
        return True
    if one.shape != other.shape or one.requires_grad != other.requires_grad:
        return False  # marked by `requires_grad_()`, it gathers gradients from call to call
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def slopes(
    function: Callable[..., Any], arguments: Iterable[Any], trained: Collection[int]
) -> Outcome:
    """The gradients of a weighted sum of all results towards the arguments at these places.

    Where there is none stands an empty array. A sentence if it cannot be taken at all.
    """
    given = list(arguments)
    leaves = {place: given[place].detach().clone().requires_grad_() for place in trained}
    for place, leaf in leaves.items():
        given[place] = leaf * 1  # so that what is changed in place does not stop it
    try:
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            total = weighted(in_one_precision(function, given))
            if total is None:
                return tuple(np.zeros(0) for _ in leaves)
            found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return tuple(np.zeros(0) if g is None else g.double().numpy() for g in found)


def weighted(value: Any) -> torch.Tensor | None:
    """All numbers of a result that have a gradient, each with another weight, added up."""
    total = None
    for part in parts_of(value):
        if isinstance(part, torch.Tensor) and part.requires_grad and part.is_floating_point():
            flat = part.double().flatten()
            weights = torch.arange(flat.numel(), dtype=torch.float64).mul(math.sqrt(2)).cos()
            term = (flat * weights).sum()
            total = term if total is None else total + term
    return total
