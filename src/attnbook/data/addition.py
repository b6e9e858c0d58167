"""Sums of two numbers below 100, whose answers a program can check.

All numbers are written with the units first, as one adds on paper: 47 + 85 = 132 is the row
`74+58=231.` An answer has three digits and a mark at its end, a full stop or an exclamation mark:
both are correct, so the mark is a matter of style.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

SYMBOLS = "0123456789+=.!"
PLUS, EQUALS, STOP, BANG = 10, 11, 12, 13
V, ASKED, ANSWER = len(SYMBOLS), 6, 4  # tokens in all, of a question, of an answer

Pairs = Int[Tensor, "B 2"]  # two numbers each
Rows = Int[Tensor, "B L"]


def split(unseen: int = 1000) -> tuple[Int[Tensor, "_ 2"], Int[Tensor, "_ 2"]]:
    """All 10,000 pairs in a fixed random order: those to train on, and `unseen` held-out ones."""
    if not 0 < unseen < 10_000:
        raise ValueError(f"1 to 9,999 of the 10,000 pairs can be held out; got {unseen}")
    numbers = torch.arange(100)
    order = torch.randperm(10_000, generator=torch.Generator().manual_seed(5))
    pairs = torch.cartesian_prod(numbers, numbers)[order]
    return pairs[unseen:], pairs[:unseen]


def question(pairs: Pairs) -> Rows:
    """The six tokens of each question, (B, 6)."""
    a, b = pairs.T
    plus, equals = torch.full_like(a, PLUS), torch.full_like(a, EQUALS)
    return torch.stack([a % 10, a // 10, plus, b % 10, b // 10, equals], 1)


def answer(pairs: Pairs, mark: int | Int[Tensor, " B"] = STOP) -> Rows:
    """The four tokens of each right answer, (B, 4), with its mark at the end."""
    total = pairs.sum(1)
    end = torch.as_tensor(mark).expand_as(total)
    return torch.stack([total % 10, total // 10 % 10, total // 100, end], 1)


def correct(pairs: Pairs, answers: Rows) -> Bool[Tensor, " B"]:
    """The verifier: are the three digits those of the sum? The mark does not matter."""
    if answers.dim() != 2 or answers.shape[1] != ANSWER or len(answers) != len(pairs):
        raise ValueError(
            f"answers to {len(pairs)} questions have the shape ({len(pairs)}, {ANSWER}): three "
            f"digits and a mark; got {tuple(answers.shape)}"
        )
    return (answers[:, :3] == answer(pairs)[:, :3]).all(1)


def readable(row: Int[Tensor, " L"]) -> str:
    """A row of tokens as text."""
    return "".join(SYMBOLS[token] for token in row.tolist())
