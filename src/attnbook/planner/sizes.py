"""A decoder of a number of parameters that somebody wants."""

import math

from attnbook.decoder_config import DecoderConfig


def of_size(N: int | float, V: int = 128_256, aspect: int = 128) -> DecoderConfig:
    """A decoder of about `N` parameters in Llama 3's proportions: heads of 128 channels, eight of
    keys and values at most, a network 3.5 times as wide, about `aspect` channels for each block.

    Heads come in eights and blocks in fours, in small models in ones, to be dealt out. Below
    four billion parameters the vocabulary's tables are one: else they would be most of it.
    """
    if not N >= 1e6:
        raise ValueError(f"{N:g} parameters: from a million on can be planned")

    def off(decoder: DecoderConfig) -> float:
        """How far it is from what was asked for; the proportions count less than the size."""
        shape = decoder.depth * aspect / decoder.width
        return abs(math.log(decoder.parameters / N)) + 0.1 * abs(math.log(shape))

    heads = [*range(1, 8), *range(8, 400, 8)]
    depths = [*range(1, 8), *range(8, 256, 4)]
    made = (of_heads(h, depth, V, N < 4e9) for h in heads for depth in depths)
    return min(made, key=off)


def of_heads(heads: int, depth: int, V: int, tie: bool) -> DecoderConfig:
    """A decoder of so many heads, each 128 wide, and so many blocks."""
    kv_heads = max(k for k in range(1, 9) if heads % k == 0)
    return DecoderConfig(V, 128 * heads, depth, heads, kv_heads, 448 * heads, tie)
