"""One question about the past: which symbol was marked? The distance is chance, or chosen."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

MARKS = 8  # symbols; a marked one is the same number plus 8
QUESTION = 2 * MARKS

Batch = tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]


def marked(
    generator: torch.Generator, B: int = 64, T: int = 40, distance: int | None = None
) -> Batch:
    """T − 1 symbols, one of them marked, then a question mark; and the symbol that was marked.

    The mark stands `distance` tokens before the question, or anywhere. ValueError if it cannot.
    """
    if T < 2 or (distance is not None and not 1 <= distance < T):
        raise ValueError(
            f"in {T} tokens a mark stands 1 to {T - 1} before the question; got {distance}"
        )
    tokens = torch.randint(MARKS, (B, T), generator=generator)
    rows, place = torch.arange(B), torch.randint(T - 1, (B,), generator=generator)
    place = place if distance is None else torch.full((B,), T - 1 - distance)
    answer = tokens[rows, place]
    tokens[rows, place] = answer + MARKS
    tokens[:, -1] = QUESTION
    return tokens, answer


def answered(model: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
    """Cross-entropy of the answers, nats; `model(tokens)` returns their logits (B, 8)."""
    tokens, answer = batch
    return F.cross_entropy(model(tokens), answer)
