"""What the layers of one step share is computed once: dense masks, the angles of rotations."""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

Made = TypeVar("Made")
_known: ContextVar[dict[Hashable, Any] | None] = ContextVar("known", default=None)


class step:
    """Inside this context `once` remembers; a step within a step is the same step.

    `Stack` opens it around its blocks. Nothing outlives it.
    """

    def __enter__(self) -> None:
        begins = not torch.compiler.is_compiling() and _known.get() is None
        self.token = _known.set({}) if begins else None

    def __exit__(self, *error: object) -> None:
        if self.token is not None:
            _known.reset(self.token)


def once(key: Hashable, make: Callable[[], Made]) -> Made:
    """What `make` returns, computed in the step's first call with this `key` only.

    For what has no gradient: a part that is computed again in the backward pass (checkpointing)
    runs outside of the step. A compiler finds repeated work by itself.
    """
    if torch.compiler.is_compiling():
        return make()
    known = _known.get()
    if known is None:
        return make()
    if key not in known:
        known[key] = make()
    return known[key]
