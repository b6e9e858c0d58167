"""One transformer for all data: a linear map in, a body that knows nothing of them, a map out.

Chapter 11's model. What the data are stands in the tokens, the positions, the mask and the loss;
Jaegle et al. 2021 (Perceiver IO), Lu et al. 2022 (one frozen body for other data).
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.masks import Mask
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.train.loop import cosine, train

Made = TypeVar("Made", bound=nn.Module)


def shared_body(width: int = 32, blocks: int = 2, heads: int = 4) -> Stack:
    """Pre-norm blocks with a GELU network of twice the width: vectors in, as many vectors out."""
    if width < 1 or width % heads:
        raise ValueError(f"a width of {width} does not divide into {heads} heads")

    def pre(part: nn.Module) -> PreNorm:
        return PreNorm(part, LayerNorm(width))

    def block() -> Block:
        attention = pre(MultiHeadAttention(width, heads=heads))
        return Block(attention, pre(MLP(width, 2 * width, nn.GELU())))

    return Stack([block() for _ in range(blocks)], LayerNorm(width))


class Adapted(nn.Module):
    """The shared body between its two adapters: `embed` for tokens, `output` for answers.

    A token is a vector of `numbers`; there are `outputs` numbers at each position. With `places`
    each of so many positions has a learned vector, which begins as loud as the tokens' own.
    """

    def __init__(
        self,
        numbers: int,
        outputs: int,
        places: int | None = None,
        width: int = 32,
        blocks: int = 2,
    ):
        super().__init__()
        self.embed, self.body = nn.Linear(numbers, width), shared_body(width, blocks)
        self.output = nn.Linear(width, outputs)
        self.places = None if places is None else Learned(places, width)
        if self.places is not None:
            nn.init.normal_(self.places.table, std=0.5)

    def read(
        self, tokens: Float[Tensor, "B T numbers"], mask: Mask | None = None
    ) -> Float[Tensor, "B T C"]:
        """What the body makes of each token."""
        x = self.embed(tokens)
        return self.body(x if self.places is None else x + self.places(x.shape[1]), mask=mask)

    def forward(
        self, tokens: Float[Tensor, "B T numbers"], mask: Mask | None = None
    ) -> Float[Tensor, "B T outputs"]:
        """An answer at each position."""
        return self.output(self.read(tokens, mask))

    def together(
        self, tokens: Float[Tensor, "B T numbers"], mask: Mask | None = None
    ) -> Float[Tensor, "B outputs"]:
        """One answer for all: of the mean of what the body makes of the tokens."""
        return self.output(self.read(tokens, mask).mean(1))


def fit(
    build: Callable[[], Made],
    sampler: Callable[[torch.Generator], Any],
    loss: Callable[[Any, Any], Any],
    steps: int,
    seed: int = 0,
    rate: float = 5e-3,
) -> Made:
    """A trained model, the same way for all data: Adam, 20 steps of warm-up, half a cosine.

    What `build()` makes is trained on the CPU and comes back with its weights fixed.
    """
    torch.manual_seed(seed)
    made = build()
    schedule = cosine(steps, min(20, steps - 1))
    train(made, sampler, loss, steps=steps, lr=rate, schedule=schedule, seed=seed, progress=False)
    return made.eval().requires_grad_(False)
