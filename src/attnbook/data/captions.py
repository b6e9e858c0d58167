"""Small pictures of one coloured shape, each with a caption, and questions about them."""

from collections.abc import Callable, Collection
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

COLOURS = {"red": (0.9, 0.1, 0.1), "green": (0.1, 0.7, 0.1), "blue": (0.1, 0.2, 0.9)}
COLOURS |= {"yellow": (0.9, 0.8, 0.1)}
SHAPES = ["ring", "square", "triangle", "cross"]
PLACES = {"left": (0, -1), "right": (0, 1), "top": (-1, 0), "bottom": (1, 0)}
ASPECTS = ["colour", "shape", "place"]  # what can be asked about
ANSWERS = [*COLOURS, *SHAPES, *PLACES]
WORDS = ["a", "at", "the", "which", *ASPECTS, *ANSWERS]
NUMBER = {word: number for number, word in enumerate(WORDS)}
SIZE = 16  # pixels in a row and in a column

Kind = tuple[int, int, int]  # colour, shape, place: each from 0 to 3
KINDS = [(c, s, p) for c in range(4) for s in range(4) for p in range(4)]
NEVER_TOGETHER = [kind for kind in KINDS if kind[0] == kind[1]]  # one colour for each shape
TRAINING = [kind for kind in KINDS if kind[0] != kind[1]]


class Captioned(NamedTuple):
    """Pictures, their captions as numbers of `WORDS`, and their kinds: colour, shape, place."""

    images: Float[Tensor, "B 3 rows columns"]
    captions: Int[Tensor, "B T"]
    kinds: Int[Tensor, "B 3"]


class Asked(NamedTuple):
    """Pictures, a question to each as numbers of `WORDS`, and the number of its answer word."""

    images: Float[Tensor, "B 3 rows columns"]
    questions: Int[Tensor, "B T"]
    answers: Int[Tensor, " B"]


def captioned(B: int, kinds: Collection[Kind] = KINDS) -> Callable[[torch.Generator], Captioned]:
    """A sampler of `B` pictures with their captions, no two of one kind: each fits one only."""
    if not 1 <= B <= len(kinds):
        raise ValueError(f"{B} different pictures cannot be drawn from {len(kinds)} kinds")
    table = torch.tensor(list(kinds))

    def sample(generator: torch.Generator) -> Captioned:
        drawn = table[torch.randperm(len(table), generator=generator)[:B]]
        return Captioned(draw(drawn, generator), caption(drawn), drawn)

    return sample


def asked(B: int, kinds: Collection[Kind] = KINDS) -> Callable[[torch.Generator], Asked]:
    """A sampler of `B` pictures and questions: which colour, which shape, which place?"""
    if B < 1:
        raise ValueError(f"a batch holds at least 1 question, not {B}")
    table = torch.tensor(list(kinds))

    def sample(generator: torch.Generator) -> Asked:
        drawn = table[torch.randint(len(table), (B,), generator=generator)]
        aspect = torch.randint(len(ASPECTS), (B,), generator=generator)
        answers = 4 * aspect + drawn.gather(1, aspect[:, None])[:, 0]
        which = torch.full((B,), NUMBER["which"])
        questions = torch.stack((which, NUMBER["colour"] + aspect), 1)
        return Asked(draw(drawn, generator), questions, NUMBER["red"] + answers)

    return sample


def caption(kinds: Int[Tensor, "B 3"]) -> Int[Tensor, "B 6"]:
    """A red ring at the left."""
    colour, shape, place = (NUMBER["red"] + 4 * i + kinds[:, i] for i in range(3))
    a, at, the = (torch.full_like(colour, NUMBER[word]) for word in ("a", "at", "the"))
    return torch.stack((a, colour, shape, at, the, place), 1)


def sentence(tokens: Int[Tensor, " T"]) -> str:
    """Numbers of `WORDS` as text."""
    return " ".join(WORDS[token] for token in tokens.tolist())


def draw(
    kinds: Int[Tensor, "B 3"], generator: torch.Generator
) -> Float[Tensor, "B 3 rows columns"]:
    """A picture of each kind: values from 0 to 1. Size, exact place and noise are random."""
    B = len(kinds)
    colour, shape, place = kinds.unbind(1)
    jitter = 2 * torch.rand(B, 2, generator=generator) - 1
    middle = (SIZE - 1) / 2 + 3.0 * torch.tensor(list(PLACES.values()))[place] + 0.6 * jitter
    radius = 3.5 + torch.rand(B, 1, 1, generator=generator)
    axis = torch.arange(SIZE)
    y = (axis[:, None] - middle[:, 0, None, None]) / radius  # (B rows 1)
    x = (axis - middle[:, 1, None, None]) / radius  # (B 1 columns)
    inside = outlines(y, x)[shape, torch.arange(B)]  # (B rows columns)
    paint = torch.tensor(list(COLOURS.values()))[colour][:, :, None, None]
    images = torch.where(inside[:, None], paint, 0.5)
    return (images + 0.05 * torch.randn(images.shape, generator=generator)).clamp(0, 1)


def outlines(y: Tensor, x: Tensor) -> Tensor:
    """Which pixels are inside of each of `SHAPES`; at its edge a shape reaches about 1."""
    tall, wide = y.abs(), x.abs()
    ring = (y**2 + x**2 <= 1.1) & (y**2 + x**2 >= 0.3)
    square = torch.maximum(tall, wide) <= 0.85
    triangle = (wide <= (y + 1) / 1.8) & (y <= 0.8)
    cross = (torch.minimum(tall, wide) <= 0.35) & (torch.maximum(tall, wide) <= 1.1)
    return torch.stack((ring, square, triangle, cross))
