"""Sizes of a decoder, by one set of names for recipe, reader of config.json, trainer, card of a
model and planner. Needs no torch."""

from dataclasses import dataclass, fields
from typing import ClassVar

from attnbook.checks import check_int


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder with grouped queries and a gated network: `llama(**vars(config))`.

    `V` is the vocabulary's, `hidden` the width of the feed-forward network. With `tie` the
    embedding's table is the output layer's, too. Raises ValueError for what is no size.
    """

    V: int
    width: int
    depth: int
    heads: int
    kv_heads: int
    hidden: int
    tie: bool = False
    matrices: ClassVar[int] = 3  # of the network: gate, up and down

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "tie":
                check_int(each.name, getattr(self, each.name), 1)
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} query heads cannot share {self.kv_heads} key heads evenly"
            )

    @property
    def D(self) -> int:
        """Channels of a head; ValueError where heads do not divide the width."""
        if self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads")
        return self.width // self.heads

    @property
    def keys(self) -> int:
        """kv_heads × D: channels of a token's keys; its values have the same size."""
        return self.kv_heads * self.D

    @property
    def block(self) -> int:
        """Parameters of one block: four maps of attention, those of the network, two norms."""
        attention = 2 * self.width**2 + 2 * self.width * self.keys
        return attention + self.matrices * self.width * self.hidden + 2 * self.width

    @property
    def parameters(self) -> int:
        """All that is trained."""
        tables = (1 if self.tie else 2) * self.V * self.width
        return self.depth * self.block + tables + self.width

    def flops(self, T: int, again: bool = False) -> float:
        """Floating-point operations to train on one token of a text of `T`.

        6 N + 12 · depth · width · T: two for each parameter forward and four backward, and the
        scores and mixtures of attention to all T, as model FLOPs are counted (Chowdhery et al.
        2022, PaLM, appendix B). `again` adds the forward pass once more: recomputation of all
        activations, which the hardware does and the model does not need.
        """
        forward = 2 * self.parameters + 4 * self.depth * self.width * T
        return float(forward * (4 if again else 3))


class PlainDecoderConfig(DecoderConfig):
    """The same with a network of two matrices, up and down, as in BLOOM and MPT."""

    matrices = 2
