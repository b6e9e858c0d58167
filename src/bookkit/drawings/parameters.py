"""Where the parameters of a model sit: areas to scale, counted in the model."""

import torch
from torch import nn

from attnbook.models.gpt2 import gpt2
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen


def count(part: nn.Module) -> int:
    """Parameters, shared ones once."""
    return sum(p.numel() for p in {id(p): p for p in part.parameters()}.values())


class Sizes:
    """The parts of a GPT, in parameters."""

    def __init__(self, name: str, depth: int, **sizes: int):
        with torch.device("meta"):  # one block: the others are like it
            model = gpt2(depth=1, dropout=0.1, bias=True, **sizes)
        block = model.body.blocks[0]
        self.name, self.depth = name, depth
        self.all = count(model) + (depth - 1) * count(block)
        parts = ("tokens", model.embed), ("positions", model.embed)
        self.tokens, self.places = (count(of.get_submodule(name)) for name, of in parts)
        layers = "attention.sublayer", "feedforward.sublayer"
        self.attention, self.network = (count(block.get_submodule(name)) for name in layers)


def short(n: int) -> str:
    """Parameters in words, three digits: 38.6 M, 1.21 B."""
    return f"{n / 1e9:.3g} B" if n >= 1e9 else f"{n / 1e6:.3g} M"


def parameters() -> Drawing:
    """GPT-2 small and GPT-3, each at a scale of its own: one area is one number of parameters.

    Radford et al. 2019, table 2; Brown et al. 2020, table 2.1.
    """
    small = Sizes("GPT-2 small", depth=12)
    large = Sizes("GPT-3", T=2048, width=12_288, depth=96, heads=96)
    desc = (
        f"Areas to scale. GPT-2 small: a table of tokens with {short(small.tokens)} parameters, a "
        f"sliver of {short(small.places)} for places, and {small.depth} columns, the blocks, each "
        f"with {short(small.attention)} for attention and {short(small.network)} for the network, "
        f"{short(small.all)} in all. GPT-3 at another scale: the table of tokens, "
        f"{short(large.tokens)}, has become a sliver beside {large.depth} blocks of "
        f"{short(large.attention)} and {short(large.network)}, {short(large.all)} in all."
    )
    wide, tall = Pen(720, 400), Pen(360, 424)
    for pen, gap in ((wide, 204), (tall, 216)):
        bar(pen, 0, small)
        bar(pen, gap, large)
    return Drawing(wide, tall, "Where the parameters of GPT-2 and GPT-3 sit", desc)


def bar(pen: Pen, y: Length, sizes: Sizes) -> None:
    """One model as a bar of one height: its width is shared out by parameters."""
    narrow, top, high = pen.width < 500, y + (54 if pen.width < 500 else 48), 116
    unit = (pen.width - 8) / (sizes.tokens + sizes.places + blocks(sizes))
    pen.text(0, y + 16, f"{sizes.name}, {short(sizes.all)}", "h l")
    wide = sizes.tokens * unit
    pen.box(0, top, (wide, high), "muted edge", 0)
    pen.box(wide + 2, top, (max(sizes.places * unit, 0.8), high), "position f", 0)
    start = wide + max(sizes.places * unit, 0.8) + 4
    step = (pen.width - start) / sizes.depth
    part = sizes.attention / (sizes.attention + sizes.network)
    gap = 2 if step > 10 else 0.4
    for n in range(sizes.depth):
        at = start + n * step
        pen.box(at, top, (step - gap, high * part - 1), "weight f", 0)
        pen.box(at, top + high * part + 1, (step - gap, high * (1 - part) - 1), "muted f", 0)
    words(pen, y, top, start, narrow, sizes)


def blocks(sizes: Sizes) -> int:
    return sizes.depth * (sizes.attention + sizes.network)


def words(pen: Pen, y: Length, top: Length, start: Length, narrow: bool, sizes: Sizes) -> None:
    """What the areas are."""
    pen.text(0, top - 8, f"tokens {short(sizes.tokens)}", "s l")
    pen.text(pen.width, top - 8, f"{sizes.depth} blocks, in each", "s e")
    low = top + 116 + 18
    pen.text(0, low, f"places {short(sizes.places)}", "position f s l")
    attention, network = short(sizes.attention), short(sizes.network)
    pen.text(pen.width, low, f"network {network}", "muted f s e b")
    pen.text(pen.width - 118, low, f"attention {attention}", "weight f s e b")
