"""The decoder's block of 2017, part by part: who asks, who answers, and what is added."""

from attnbook.masks import causal_mask
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.parts import mask_icon
from bookkit.drawings.pen import Length, Pen

# name, what comes out, its formula, who asks whom, colour
PARTS = (
    ("self-attention", "a", "a = LN(y + MH(y, y))", "all three from y", "weight"),
    ("cross-attention", "b", "b = LN(a + MH(a, m))", "queries: a · keys, values: m", "weight"),
    ("feed-forward", "y′", "y′ = LN(b + FFN(b))", "each position alone", "muted"),
)
STEP, HEIGHT = 232, 168  # from one vector on the stream to the next, and of one part with its words


def decoder_block() -> Drawing:
    """One block of the decoder on one stream: causal self-attention, cross-attention, network.

    `y` is the target so far, `m` the memory that the encoder left. Vaswani et al. 2017, section
    3.1 and figure 1, right.
    """
    desc = (
        "A thick stream runs from y to a, b and y′. Three parts stand beside it; each reads a "
        "copy, its answer is added to the stream, and a norm follows on the stream. The first is "
        "self-attention under a causal mask: queries, keys and values all come from y. The second "
        "is cross-attention: its queries come from the stream, its keys and values from the "
        "memory m, the encoder's output. The third is the feed-forward network, at each position "
        "alone."
    )
    wide, tall = Pen(720, HEIGHT), Pen(360, 3 * HEIGHT - 16)
    for place in range(3):
        part(wide, 12 + STEP * place, 0, place)
        part(tall, 64, (0, HEIGHT + 8, 2 * HEIGHT - 16)[place], place)
    return Drawing(wide, tall, "One block of the decoder, with the memory of the encoder", desc)


def part(pen: Pen, x: Length, y: Length, place: int) -> None:
    """One part beside its piece of the stream, what it reads above it, its formula below."""
    name, after, formula, asks, role = PARTS[place]
    stream, beside, middle = y + 104, y + 60, x + 92
    pen.stream([(x + 12, stream), (x + STEP - 12, stream)])
    copy = [(x + 24, stream - 4), (x + 24, beside), (x + 34, beside)]
    pen.line(copy, f"{'query' if place == 1 else 'muted'} k", "")
    pen.box(x + 34, beside - 15, (116, 30), f"{role} t", 6)
    pen.text(middle, beside + 4.5, name, f"{role} f s b")
    pen.line([(x + 150, beside), (x + 164, beside), (x + 164, stream - 8)], f"{role} k")
    pen.plus(x + 164, stream)
    pen.pill(x + 196, stream, "norm", (38, 20))
    before = [(x, "yab"[place])] if place == 0 or pen.width < 500 else []  # else it stands there
    for left, letter in (*before, (x + STEP, after)):
        pen.box(left - 11, stream - 12, (22, 24), "box", 4)
        pen.text(left, stream + 5, letter, "m")
    reads(pen, middle, y, place)
    pen.text(x + STEP / 2, y + 144, formula, "s b")
    pen.text(x + STEP / 2, y + 162, asks, "s muted f")


def reads(pen: Pen, x: Length, y: Length, place: int) -> None:
    """Above a part: its mask, or the memory that it asks."""
    if place == 0:
        mask_icon(pen, x - 16, y + 8, causal_mask(4))
        pen.text(x + 24, y + 28, "the past alone", "s muted f l")
    if place == 1:
        pen.text(x, y + 14, "memory m, from the encoder", "s")
        for role, shift in (("key", -16), ("value", 16)):
            pen.line([(x + shift, y + 20), (x + shift, y + 44)], f"{role} k")
