"""The texts of one student in lab 10, drawn by a hash of the name: the same one always gets these.

Random tokens are a hard test: nothing but copying can predict them (Olsson et al. 2022).
"""

import random
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor

FIRST, LAST = 4, 1023  # tokens from here to there are ordinary ones
ROWS, LENGTH = 6, 20  # rows that are read twice; tokens of the text that is patched
KINDS, LINE = 32, 32  # the probes' alphabet, and the tokens of one line
TRAIN, TEST = 14, 26  # lines
CLASSES = 8  # labels of the control task


@dataclass(frozen=True)
class Texts:
    """What one student examines the model on.

    `rows` are B rows of L random tokens read twice, `other` is the same with another first half, so
    that nothing repeats. `clean` is a row of tokens and its beginning once more, up to the token
    before the one at `place`; `corrupt` has another token there, once. `train` and `test` are lines
    in `alphabet`, whose token number k has `labels[k]` in the control task.
    """

    L: int
    rows: Int[Tensor, "B T"]
    other: Int[Tensor, "B T"]
    place: int
    clean: Int[Tensor, "1 n"]
    corrupt: Int[Tensor, "1 n"]
    alphabet: Int[Tensor, " K"]
    labels: Int[Tensor, " K"]
    train: Int[Tensor, "N M"]
    test: Int[Tensor, "N2 M"]


@cache
def texts(student: str = "") -> Texts:
    """The texts of the student of this name; "" is the copy that names nobody."""
    dice = random.Random(f"specimen/{student}")
    L = dice.randrange(14, 23)
    rows, other = [], []
    for _ in range(ROWS):
        both = dice.sample(range(FIRST, LAST + 1), 2 * L)
        rows.append(both[:L] * 2)
        other.append(both[L:] + both[:L])
    place = dice.randrange(6, 15)
    *row, instead = dice.sample(range(FIRST, LAST + 1), LENGTH + 1)
    changed = [*row[:place], instead, *row[place + 1 :]]
    alphabet = dice.sample(range(FIRST, LAST + 1), KINDS)
    lines = [dice.choices(alphabet, k=LINE) for _ in range(TRAIN + TEST)]
    return Texts(
        L,
        torch.tensor(rows),
        torch.tensor(other),
        place,
        torch.tensor([row + row[:place]]),
        torch.tensor([changed + row[:place]]),
        torch.tensor(alphabet),
        torch.tensor([dice.randrange(CLASSES) for _ in alphabet]),
        torch.tensor(lines[:TRAIN]),
        torch.tensor(lines[TRAIN:]),
    )
