"""The clinic: one small language model that trains well, and how it can be made to train badly.

`Recipe` says how the model is built and trained; `faults.FAULTS` which of these settings each fault
changes and what gives it away; `run.examine` trains it and reads its instruments on the way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PostNorm, PreNorm, Stack
from attnbook.data import text
from attnbook.feedforward import MLP
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.transformer import Embed, LanguageModel, initialise, normal

WIDTH, DEPTH, HEADS, CONTEXT, BATCH = 48, 4, 4, 64, 16
NORMS = {"pre": PreNorm, "post": PostNorm}
LEAKS = ("", "mask", "target")
Pair: TypeAlias = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]
Sampler: TypeAlias = Callable[[torch.Generator], Pair]


@dataclass(frozen=True)
class Recipe:
    """The settings of one run; the defaults are healthy.

    `rate` is AdamW's highest learning rate, reached after `warmup` steps; `norm` stands before
    ("pre") or after ("post") each part; `scale` multiplies the standard deviation of all first
    weights. `leak` says what tells the model the answer: nothing (""), a causal "mask" that is
    shifted by one place, or a "target" that is the input itself. `zeroed` says whether gradients
    are set to zero before each step; `characters` is how much of the training text is read.
    """

    rate: float = 3e-3
    warmup: int = 30
    norm: str = "pre"
    scale: float = 1.0
    leak: str = ""
    zeroed: bool = True
    characters: int | None = None

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.scale > 0 and self.warmup >= 0):
            raise ValueError(
                "rate and scale above 0 and warmup of 0 or more are needed; got "
                f"{self.rate}, {self.scale} and {self.warmup}"
            )
        if self.norm not in NORMS or self.leak not in LEAKS:
            raise ValueError(
                f"norm is one of {', '.join(NORMS)} and leak one of {LEAKS}; got {self.norm!r} "
                f"and {self.leak!r}"
            )
        if self.characters is not None and self.characters <= CONTEXT:
            raise ValueError(
                f"{self.characters} characters are read; more than {CONTEXT} are needed"
            )


class Shifted(LanguageModel):
    """A language model whose causal mask is off by one: each position sees the next token, too."""

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:  # type: ignore[override]
        T = tokens.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril(1)  # not tril(0)
        return self.lm_head(self.body(self.embed(tokens), mask=mask))


def build(recipe: Recipe, V: int, seed: int = 0) -> LanguageModel:
    """The model of this recipe before its first step, for a vocabulary of `V` tokens."""
    torch.manual_seed(seed)
    wrap = NORMS[recipe.norm]

    def block() -> Block:
        attention = wrap(MultiHeadAttention(WIDTH, HEADS), LayerNorm(WIDTH))
        return Block(attention, wrap(MLP(WIDTH, 4 * WIDTH, nn.ReLU()), LayerNorm(WIDTH)))

    body = Stack(
        [block() for _ in range(DEPTH)], LayerNorm(WIDTH) if recipe.norm == "pre" else None
    )
    embed = Embed(V, WIDTH, Learned(CONTEXT, WIDTH))
    kind = Shifted if recipe.leak == "mask" else LanguageModel
    model = kind(embed, body, nn.Linear(WIDTH, V))
    std = recipe.scale * 0.02 * math.sqrt(768 / WIDTH)  # GPT-2's, for this width
    return initialise(model, partial(normal, depth=DEPTH, std=std), embedding_std=std)


def batches(recipe: Recipe, tokens: Int[Tensor, " N"]) -> Sampler:
    """Windows of the training text, as inputs and targets of shape (16, 64)."""
    return text.windows(tokens[: recipe.characters], CONTEXT, BATCH)


def targets(recipe: Recipe, x: Int[Tensor, "B T"], y: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """What the loss compares with: the next tokens `y`, or the inputs `x` if the shift is lost."""
    return x if recipe.leak == "target" else y
