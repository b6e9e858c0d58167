"""How a model starts: random weights, and weights that are one and the same in two places."""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.transformer import Embed

Model = TypeVar("Model", bound=nn.Module)
Matrix = Callable[[str, Tensor], None]


class Tied(nn.Linear):
    """A map to the vocabulary whose matrix is the embedding's own. Press and Wolf 2017.

    It has no matrix, it looks the embedding's up: so they are one whatever happens to the model,
    and are stored once.
    """

    def __init__(self, embed: Embed, bias: bool = False):
        V, width = embed.tokens.weight.shape
        super().__init__(width, V, bias=bias)
        del self.weight
        self.embed = (embed,)  # in a tuple, so that it is no part of this part

    @property
    def weight(self) -> Float[Tensor, "V C"]:  # type: ignore[override]  # torch has a parameter
        """The embedding's vectors."""
        return self.embed[0].tokens.weight


tied = Tied


def initialise(model: Model, matrix: Matrix, embedding_std: float = 0.02) -> Model:
    """Random starting values: `matrix(name, weight)` for linear maps, zeros for their biases."""
    for name, part in model.named_modules():
        if isinstance(part, nn.Linear):
            matrix(name, part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    for part in model.modules():  # after the linear maps: a tied matrix is an embedding's
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=embedding_std)
    return model


def xavier(name: str, weight: torch.Tensor) -> None:
    """As large going out as coming in. Glorot and Bengio 2010, equation 16."""
    for part in weight.chunk(3) if name.endswith("to_qkv") else (weight,):
        nn.init.xavier_uniform_(part)


def normal(name: str, weight: torch.Tensor, depth: int | None = None, std: float = 0.02) -> None:
    """Small normal numbers; with `depth`, smaller where a part is added to the residual path.

    Radford et al. 2019, section 2.3: 1/√N for N residual layers, two in each block.
    """
    if depth is not None and name.endswith(("to_out", "down")):
        std = std / math.sqrt(2 * depth)
    nn.init.normal_(weight, std=std)
