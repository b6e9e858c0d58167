"""A decoder as the planner sees it: its sizes, its parameters, and the work of a token."""

import math
from dataclasses import dataclass

from attnbook.training.plan import whole


@dataclass(frozen=True)
class Decoder:
    """A decoder with grouped queries and a SwiGLU network (`attnbook.recipes.llama`), or with
    `matrices` = 2 a plain feed-forward network. The vocabulary's two tables are separate unless
    `tied`."""

    depth: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    tied: bool = False
    matrices: int = 3

    def __post_init__(self) -> None:
        for name in ("depth", "width", "heads", "kv_heads", "hidden", "vocabulary"):
            whole(name, getattr(self, name), 1)
        if self.width % self.heads or self.heads % self.kv_heads:
            raise ValueError(
                f"width {self.width}, {self.heads} heads and {self.kv_heads} of keys and values do "
                "not divide into each other"
            )

    @property
    def keys(self) -> int:
        """Channels of all keys of a token; as many are its values'."""
        return self.width // self.heads * self.kv_heads

    @property
    def block(self) -> int:
        """Parameters of one block: four maps of attention, those of the network, two norms."""
        attention = 2 * self.width**2 + 2 * self.width * self.keys
        return attention + self.matrices * self.width * self.hidden + 2 * self.width

    @property
    def parameters(self) -> int:
        """All that is trained."""
        tables = (1 if self.tied else 2) * self.vocabulary * self.width
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


def of_size(N: int | float, vocabulary: int = 128_256, aspect: int = 128) -> Decoder:
    """A decoder of about `N` parameters in Llama 3's proportions: heads of 128 channels, eight of
    keys and values at most, a network 3.5 times as wide, about `aspect` channels for each block.

    Heads come in eights and blocks in fours, in small models in ones, to be dealt out. Below
    four billion parameters the vocabulary's tables are one: else they would be most of it.
    """
    if not N >= 1e6:
        raise ValueError(f"{N:g} parameters: from a million on can be planned")

    def off(decoder: Decoder) -> float:
        """How far it is from what was asked for; the proportions count less than the size."""
        shape = decoder.depth * aspect / decoder.width
        return abs(math.log(decoder.parameters / N)) + 0.1 * abs(math.log(shape))

    heads = [*range(1, 8), *range(8, 400, 8)]
    depths = [*range(1, 8), *range(8, 256, 4)]
    made = (shaped(h, depth, vocabulary, N < 4e9) for h in heads for depth in depths)
    return min(made, key=off)


def shaped(heads: int, depth: int, vocabulary: int, tied: bool) -> Decoder:
    kv_heads = max(k for k in range(1, 9) if heads % k == 0)
    return Decoder(depth, 128 * heads, heads, kv_heads, 448 * heads, vocabulary, tied)
