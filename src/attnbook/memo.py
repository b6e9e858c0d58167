"""Memoises what the layers of one forward pass share: dense masks, tables of rotations."""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

Made = TypeVar("Made")
MEMO: ContextVar[dict[Hashable, Any] | None] = ContextVar("memo", default=None)


def memoise(key: Hashable, make: Callable[[], Made]) -> Made:
    """What `make` returns, computed once per `key` while a `Stack` runs its blocks.

    Nothing outlives the pass. For what has no gradient: a part that is computed again in the
    backward pass (checkpointing) runs outside of it. A compiler finds repeated work by itself."""
    if torch.compiler.is_compiling():
        return make()
    memo = MEMO.get()
    if memo is None:
        return make()
    if key not in memo:
        memo[key] = make()
    return memo[key]
