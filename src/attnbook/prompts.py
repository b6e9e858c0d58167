"""What a model goes on from: rows of different lengths, stop tokens, and what is refused."""

from collections.abc import Collection
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)
Ends = int | Collection[int] | Int[Tensor, " B"]  # one, any of several, or one for each row


def check_prompt(tokens: Any) -> None:
    """Raise a ValueError unless these are rows of token numbers."""
    if not isinstance(tokens, Tensor):
        raise ValueError(
            "a prompt is a tensor of token numbers, (B, T), as torch.tensor([[3, 1, 4]]); got a "
            f"{type(tokens).__name__}"
        )
    if tokens.dim() != 2 or tokens.dtype not in INTEGERS:
        raise ValueError(
            "a prompt has rows of token numbers, (B, T), and one row alone is tokens[None]; got "
            f"{tuple(tokens.shape)} of {tokens.dtype}"
        )


def check_mask(mask: Any, tokens: Int[Tensor, "B T"]) -> None:
    """Raise a ValueError unless a mask says which of these tokens are padding, and not all are."""
    shape = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
    fits = isinstance(mask, Tensor) and mask.dim() == 2 and mask.shape[1] == tokens.shape[1]
    if not fits or mask.dtype != torch.bool or not len(mask) or len(tokens) % len(mask):
        raise ValueError(
            f"a mask for tokens {tuple(tokens.shape)} has their shape, True at tokens and False at "
            f"padding; got {shape}"
        )
    empty = (~mask.any(-1)).nonzero()
    if len(empty):
        raise ValueError(f"row {int(empty[0])} of the prompt is nothing but padding")


def check_length(T: int, steps: int, window: int | None, limit: int | None) -> None:
    """Raise a ValueError unless a model of `limit` positions can go on from T tokens."""
    if T < 1 or steps < 0:
        raise ValueError(f"needs at least 1 token and 0 steps to go on; got {T} and {steps}")
    if window is not None and window < 1:
        raise ValueError(f"a window shows at least 1 token; got {window}")
    shown = T + steps - 1 if window is None else window  # the last token is only written
    if limit is not None and shown > limit:
        raise ValueError(
            f"{T} tokens and {steps} steps: the model would read {shown} tokens, it has learned "
            f"{limit} positions; with window={limit} it forgets what is further back"
        )


def check_room(T: int, steps: int, room: int | None) -> None:
    """Raise a ValueError unless caches of fixed room can hold what is going to be read."""
    if room is not None and T + steps - 1 > room:
        raise ValueError(f"{T} tokens and {steps} steps need a room of {T + steps - 1}; got {room}")


def check_numbers(logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
    """The logits, or a ValueError that names a row in which some are not numbers."""
    wrong = logits.isnan().any(-1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(f"row {row}: there are logits that are not a number (NaN)")
    return logits


def check_tokens(numbers: list[int], V: int) -> None:
    """Raise a ValueError if one of the numbers is none of the V tokens that are chosen among."""
    wrong = [number for number in numbers if not 0 <= number < V]
    if wrong:
        raise ValueError(f"a stop token is one of the model's, 0 to {V - 1}; got {wrong[0]}")


def left_order(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B L"]:
    """Which columns each row is made of when its padding stands first, and the longest row has
    none."""
    order = mask.long().argsort(dim=-1, stable=True)
    return order[:, mask.shape[1] - int(mask.sum(-1).amax()) :]


class Stop:
    """Which rows have written a stop token of theirs: after it they hold `pad`, or that token
    again."""

    def __init__(self, ends: Ends | None, rows: int, pad: int | None, device: torch.device):
        self.ends, self.pad = stop_tokens(ends, rows).to(device), pad
        self.done = torch.zeros(rows, dtype=torch.bool, device=device)
        self.filling = torch.zeros(rows, dtype=torch.long, device=device)

    def check(self, V: int) -> None:
        """Raise a ValueError if a stop token, or the padding, is none of the V tokens."""
        check_tokens(self.ends.flatten().tolist() + ([] if self.pad is None else [self.pad]), V)

    def __call__(self, new: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """What is written where these were chosen."""
        new = torch.where(self.done, self.filling, new)
        ended = ~self.done & (new[:, None] == self.ends).any(-1)
        filling = new if self.pad is None else torch.full_like(new, self.pad)
        self.filling = torch.where(ended, filling, self.filling)
        self.done = self.done | ended
        return new

    def all(self) -> bool:
        """Have all rows ended?"""
        return self.ends.numel() > 0 and bool(self.done.all())


def stop_tokens(ends: Ends | None, rows: int) -> Int[Tensor, "_ n"]:
    """The stop tokens of each row, or one row of them for all."""
    if ends is None:
        return torch.zeros(1, 0, dtype=torch.long)
    if isinstance(ends, Tensor):
        if ends.shape != (rows,):
            raise ValueError(f"a stop token per row has shape ({rows},); got {tuple(ends.shape)}")
        return ends[:, None]
    numbers = [ends] if isinstance(ends, int) else list(ends)
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise ValueError(
            f"a stop token is a number, a set of numbers, or a tensor of one per row; got {ends!r}"
        )
    return torch.tensor([numbers])
