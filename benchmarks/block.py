"""A training step of our block beside `nn.TransformerEncoderLayer` with the same weights.

    python benchmarks/block.py

Forward and backward, one thread, float32, no dropout. Where attention is causal ours is given the
pattern; torch's layer is measured with the mask alone, and with `is_causal=True` beside it.
The result goes to benchmarks/block.json; a ratio is our time over torch's.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from timing import both_ways, compare
from torch import Tensor, nn
from torch.testing import assert_close

from attnbook import device
from attnbook import masks as patterns
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PostNorm, PreNorm
from attnbook.feedforward import MLP
from attnbook.masks import causal_mask
from attnbook.norms import LayerNorm
from attnbook.provenance import provenance, write

SIZES = [(8, 32, 64, 4), (8, 128, 128, 4), (4, 256, 256, 8), (2, 512, 512, 8), (1, 1024, 256, 8)]


Way = type[PreNorm] | type[PostNorm]


def both(way: Way, width: int, heads: int) -> tuple[Block, nn.TransformerEncoderLayer]:
    """Our block and torch's layer, with the same weights."""
    parts = (MultiHeadAttention(width, heads), MLP(width, 4 * width))
    ours = Block(*(way(part, LayerNorm(width)) for part in parts))
    first = way is PreNorm
    theirs = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=first
    )
    order = [theirs.self_attn, theirs.norm1, theirs.linear1, theirs.linear2, theirs.norm2]
    parameters = [parameter for part in order for parameter in part.parameters()]
    for mine, other in zip(ours.parameters(), parameters, strict=True):
        other.data = mine.data.clone()
    return ours, theirs


def measure(way: Way, causal: bool, B: int, T: int, width: int, heads: int, budget: float) -> dict:
    """One size, one place of the norm, with or without a causal mask."""
    ours, theirs = both(way, width, heads)
    x = torch.randn(B, T, width)
    look = patterns.causal if causal else None
    hidden = ~causal_mask(T) if causal else None
    forward: dict[str, Callable[[], Tensor]] = {
        "attnbook": lambda: ours(x, look),
        "torch": lambda: theirs(x, hidden),
        "torch, is_causal": lambda: theirs(x, hidden, is_causal=True),
    }
    if not causal:
        del forward["torch, is_causal"]
    for run in forward.values():
        assert_close(run(), forward["attnbook"]())
    steps = {name: both_ways(run) for name, run in forward.items()}
    size = {"B": B, "T": T, "width": width, "heads": heads}
    return {**size, "norm": way.__name__, "causal": causal} | compare(steps, budget)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="for each case")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    here = device.choose()
    if here.device.type != "cpu":
        raise SystemExit("this measures processor time: set ATTNBOOK_DEVICE=cpu")
    cases = []
    for size in SIZES:
        for way in (PreNorm, PostNorm):
            for causal in (False, True):
                cases.append(measure(way, causal, *size, options.seconds))
                print(cases[-1], flush=True)
    write(options.out, {"unit": "ms", "cases": cases, "provenance": provenance(here)})


if __name__ == "__main__":
    main()
