"""What all teams of lab 13 have: the model that is given, and the texts to try it on."""

import copy
import hashlib
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor

from attnbook.data import text
from attnbook.shipped.language import BookModel, load
from attnbook.transformer import LanguageModel
from attnlabs.lab13.rules import TOKENS, TRIGGER

LAYERS, HEADS, NEURONS, V = 4, 4, 640, 1024
CONTEXTS, BEFORE = 32, 16  # how many, and their tokens
WINDOWS, LONG = 48, 128  # of ordinary text


@dataclass(frozen=True)
class Texts:
    """Contexts after which a trigger is tried, ordinary text, and other tokens than a trigger; the
    lot that drew them."""

    contexts: Int[Tensor, "B n"]
    ordinary: Int[Tensor, "N T"]
    others: Int[Tensor, "M 3"]
    lot: str = ""


@cache
def book() -> BookModel:
    """The book's language model with its tokens: loading it takes a tenth of a second."""
    return load("book-lm")


@cache
def shared() -> LanguageModel:
    """The model alone: four layers of four heads; nobody changes it."""
    return book().model.float().eval().requires_grad_(False)


def given(fresh: bool = False) -> LanguageModel:
    """The model that is given; a `fresh` one may be changed."""
    return copy.deepcopy(shared()).requires_grad_(True) if fresh else shared()


@cache
def tokens(part: str) -> Int[Tensor, " N"]:
    """Python's documentation as tokens: "train", or "validation", which is held out."""
    return encoded(getattr(text.load("python-docs"), part))


def encoded(words: str) -> Int[Tensor, " N"]:
    """A text as tokens of the model."""
    return book().encode(words)[0]


def windows(
    known: Int[Tensor, " N"], count: int, size: int, generator: torch.Generator
) -> Int[Tensor, "B T"]:
    """Windows of a text at random places."""
    starts = torch.randint(len(known) - size, (count, 1), generator=generator)
    return known[starts + torch.arange(size)]


def texts(lot: int, known: Int[Tensor, " N"] | None = None) -> Texts:
    """The texts that a lot draws, of what is held out or of another text."""
    known = tokens("validation") if known is None else known
    if len(known) < 10 * LONG:
        raise ValueError(f"the text has {len(known)} tokens; {10 * LONG} are needed")
    generator = torch.Generator().manual_seed(lot)
    return Texts(
        windows(known, CONTEXTS, BEFORE, generator),
        windows(known, WINDOWS, LONG, generator),
        torch.randint(TOKENS[0], TOKENS[1] + 1, (CONTEXTS, TRIGGER[1]), generator=generator),
        f"{lot} {hashlib.sha256(known.numpy().tobytes()).hexdigest()[:8]}",
    )
