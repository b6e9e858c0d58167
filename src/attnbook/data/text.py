"""Text as a sequence of characters: one long line of numbers, read through windows."""

import gzip
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from attnbook.data import registry
from attnbook.data.python_docs import BREAK

EMBEDDED = Path(__file__).parent / "python_docs.txt.gz"
HELD_OUT = Path(__file__).parent / "shakespeare_held_out.txt.gz"


class Characters:
    """The alphabet of a text: a symbol's number is its place in sorted order. No specials."""

    def __init__(self, text: str):
        self.symbols = "".join(sorted(set(text)))
        self._number = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def __repr__(self) -> str:
        return f"Characters({self.symbols!r})"

    def encode(self, text: str) -> Int[Tensor, " T"]:
        """Each character's number. A `ValueError` names an unknown character and its position."""
        try:
            return torch.tensor([self._number[symbol] for symbol in text], dtype=torch.long)
        except KeyError:
            position = next(
                place for place, symbol in enumerate(text) if symbol not in self._number
            )
            raise ValueError(
                f"character {text[position]!r} at position {position} is not one of the "
                f"{len(self)} known symbols {self.symbols!r}"
            ) from None

    def decode(self, tokens: Iterable[int] | Int[Tensor, " T"]) -> str:
        """The text that the numbers stand for; a number outside the alphabet is a `ValueError`."""
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else list(tokens)
        for position, number in enumerate(numbers):
            if not 0 <= number < len(self):
                raise ValueError(
                    f"token {number} at position {position} is not in 0..{len(self) - 1}"
                )
        return "".join(self.symbols[number] for number in numbers)


@dataclass(frozen=True, repr=False)
class Text:
    """A corpus: training text, validation text (never trained on) and the characters of both."""

    name: str
    train: str
    validation: str
    characters: Characters

    def __repr__(self) -> str:
        return (
            f"Text({self.name!r}: {len(self.train):,} characters to train, "
            f"{len(self.validation):,} to validate, {len(self.characters)} symbols)"
        )


def python_docs() -> tuple[str, str]:
    """Python 3.11's reference text, embedded; `attnbook.data.python_docs` says how it was made."""
    train, validation = gzip.decompress(EMBEDDED.read_bytes()).decode("ascii").split(BREAK)
    return train, validation


def shakespeare() -> tuple[str, str]:
    """Tiny Shakespeare (Karpathy 2015); the last tenth validates, as in nanoGPT."""
    text = registry.fetch("tinyshakespeare/input.txt").read_text(encoding="utf-8")
    cut = int(0.9 * len(text))
    return text[:cut], text[cut:]


CORPORA = {"python-docs": python_docs, "shakespeare": shakespeare}


def load(name: str = "python-docs") -> Text:
    """The corpus of that name: `python-docs` is embedded, `shakespeare` is downloaded once."""
    if name not in CORPORA:
        raise ValueError(f"there is no text {name!r}; there are {', '.join(map(repr, CORPORA))}")
    train, validation = CORPORA[name]()
    return Text(name, train, validation, Characters(train + validation))


def held_out(name: str = "python-docs") -> str:
    """The validation text of `load(name)`, without a download: for a model that is only tried."""
    if name == "shakespeare":
        return gzip.decompress(HELD_OUT.read_bytes()).decode("ascii")
    return load(name).validation


def _check_window(N: int, T: int) -> None:
    if T < 1:
        raise ValueError(f"a window holds at least 1 character, not {T}")
    if N < T + 1:
        raise ValueError(
            f"{N} characters are too few for a window of {T} and its next one: at least {T + 1}"
        )


def windows(
    tokens: Int[Tensor, " N"], T: int, B: int
) -> Callable[[torch.Generator], tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]]:
    """A sampler of `B` windows of `T` characters at random places, and what follows each character.

    `targets[:, t]` is the character after `inputs[:, t]`. All places are equally likely.
    """
    _check_window(len(tokens), T)
    if B < 1:
        raise ValueError(f"a batch holds at least 1 window, not {B}")
    reach = torch.arange(T, device=tokens.device)

    def sample(generator: torch.Generator) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
        where = generator.device  # whatever device new tensors are made on elsewhere
        first = torch.randint(len(tokens) - T, (B, 1), generator=generator, device=where)
        places = first.to(tokens.device) + reach
        return tokens[places], tokens[places + 1]

    return sample


def consecutive(tokens: Int[Tensor, " N"], T: int) -> tuple[Int[Tensor, "M T"], Int[Tensor, "M T"]]:
    """All windows of `T` characters one after another, to evaluate a whole text.

    Each character is a target once, but for the first and an unfinished window at the end.
    """
    _check_window(len(tokens), T)
    M = (len(tokens) - 1) // T
    return tokens[: M * T].view(M, T), tokens[1 : M * T + 1].view(M, T)


def words(text: str) -> list[str]:
    """The words of a text in lower case, in order: letters, and apostrophes between letters."""
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", text.lower())
