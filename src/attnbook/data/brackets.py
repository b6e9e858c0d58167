"""Text with brackets: prose in which a bracket opens and, some letters later, the same kind closes.

What a model must remember to close a bracket is which of the four it was; the letters in between
are those of a real text and say nothing about it.
"""

import re
from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnbook.data.text import Characters

LETTERS, OPEN, CLOSED = " abcdefghijklmnopqrstuvwxyz", "([{<", ")]}>"
CHARACTERS = Characters(LETTERS + OPEN + CLOSED)
KINDS = torch.stack([CHARACTERS.encode(OPEN), CHARACTERS.encode(CLOSED)])  # (2, 4)

Batch = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]


def plain(text: str) -> str:
    """The text in lower case, all that is no letter turned into single spaces."""
    return re.sub("[^a-z]+", " ", text.lower())


def brackets(text: str, near: int = 0, far: int = 40, T: int = 64, B: int = 64) -> Callable:
    """A sampler of `B` windows of `T` characters with brackets in them, and of what comes next.

    A bracket of one of four kinds opens, the one that fits closes after `near` to `far` letters,
    and after up to 8 more the next one opens; all numbers are equally likely. None are nested.
    """
    letters = CHARACTERS.encode(plain(text))
    if not 0 <= near <= far or len(letters) <= T:
        raise ValueError(
            f"0 ≤ near ≤ far and more than {T} letters are needed; got {near}, {far} and "
            f"{len(letters)} letters"
        )

    def sample(generator: torch.Generator) -> Batch:
        def draw(most: int, *shape: int) -> Tensor:
            return torch.randint(most, shape, generator=generator)

        inside = near + draw(far + 1 - near, B, T)
        outside, kind = draw(9, B, T), draw(4, B, T)
        opens = (inside + outside + 2).cumsum(1) - inside - 2  # after up to 8 letters
        found = torch.full((B, T + 1), -1)
        for places, symbols in ((opens, KINDS[0]), (opens + inside + 1, KINDS[1])):
            row, n = (places <= T).nonzero(as_tuple=True)
            found[row, places[row, n]] = symbols[kind[row, n]]
        text_places = draw(len(letters) - T, B, 1) + (found < 0).cumsum(1) - 1
        tokens = torch.where(found < 0, letters[text_places.clamp(min=0)], found)
        return tokens[:, :-1], tokens[:, 1:]

    return sample


def closing(batch: Batch) -> tuple[Bool[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Where the next character closes a bracket, and how many steps ago it was opened."""
    tokens, targets = batch
    places = torch.arange(tokens.shape[1])
    opened = torch.where(torch.isin(tokens, KINDS[0]), places, -1).cummax(1).values
    return torch.isin(targets, KINDS[1]), places + 1 - opened
