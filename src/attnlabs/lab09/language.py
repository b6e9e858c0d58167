"""The text that the ward's models are trained on: a made-up language, the same on every machine."""

import random
from functools import cache

import torch
from torch import Tensor

LETTERS = "abdeghiklmnorst "
WORDS, LENGTH, HELD_OUT = 48, 24_000, 4_000


@cache
def letters(count: int = LENGTH + HELD_OUT) -> str:
    """So many letters: each of 48 words is followed by one of four others, the first most often."""
    numbers = random.Random(9)
    words = ["".join(numbers.choices(LETTERS[:-1], k=2 + n % 4)) for n in range(WORDS)]
    after = [numbers.sample(range(WORDS), 4) for _ in range(WORDS)]
    text: list[str] = []
    word = 0
    while len(text) * 2 < count:
        text.append(words[word])
        word = numbers.choices(after[word], (11, 5, 3, 1))[0]
    return " ".join(text)[:count]


@cache
def tokens() -> tuple[Tensor, Tensor]:
    """The text to train on and the text held out, letters as whole numbers below 16."""
    codes = torch.tensor([LETTERS.index(letter) for letter in letters()])
    return codes[:LENGTH], codes[LENGTH:]
