"""Where a norm can stand in a block: on the stream, before a part, around it, or after it."""

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen

# name, known from, formula; is there a norm before the part, after it, on the stream?
PLACEMENTS = (
    ("post-norm", "transformer, 2017", "norm(x + part(x))", (False, False, True)),
    ("pre-norm", "GPT-2, Llama", "x + part(norm(x))", (True, False, False)),
    ("sandwich", "Gemma 2", "x + norm(part(norm(x)))", (True, True, False)),
    ("output norm", "OLMo 2", "x + norm(part(x))", (False, True, False)),
)
HEIGHT = 404


def norm_placement() -> Drawing:
    """Four blocks on the same coordinates that differ in the place of the norms alone.

    Vaswani et al. 2017, section 3.1; Radford et al. 2019, section 2.3, and Xiong et al. 2020,
    figure 1; Gemma Team 2024, section 2; Team OLMo 2025, section 2.1.
    """
    desc = (
        "Four blocks side by side, each one stream with two parts beside it, attention and "
        "network, that read a copy and add. Post-norm: a norm stands on the stream after each "
        "sum, so the gradient on its way back passes two norms in each block. Pre-norm: the norm "
        "stands on the copy, before the part. Sandwich: before and after the part. Output norm: "
        "after the part, before the sum. In these three the stream itself is free."
    )
    wide, tall = Pen(720, HEIGHT), Pen(360, 2 * HEIGHT + 16)
    for place in range(4):
        column(wide, 180 * place, 0, place)
        column(tall, 180 * (place % 2), (HEIGHT + 16) * (place // 2), place)
    return Drawing(wide, tall, "Four places for the norms of a block", desc)


def column(pen: Pen, x: Length, y: Length, place: int) -> None:
    """One block, upwards, with its name above and its way back below."""
    name, known, formula, (before, after, on) = PLACEMENTS[place]
    stream, aside, back = x + 106, x + 48, x + 146
    pen.text(x + 90, y + 16, name, "h")
    pen.text(x + 90, y + 34, known, "s muted f")
    pen.stream([(stream, y + 366), (stream, y + 50)])
    pen.back([(back, y + 50), (back, y + 366)])
    for floor, part, role in ((y + 356, "attention", "weight"), (y + 204, "network", "muted")):
        sublayer(pen, (stream, aside), floor, part, role)
        for there, above in ((before, 30), (after, 92)):
            if there:
                pen.pill(aside, floor - above, "norm", (42, 20))
        if on:
            pen.pill((stream + back) / 2, floor - 138, "norm", (back - stream + 32, 20))
    pen.text(x + 90, y + 384, formula, "s")
    free = "gradient: two norms" if on else "gradient: free"
    pen.text(x + 90, y + 401, free, "gradient f s b")


def sublayer(pen: Pen, lanes: tuple[Length, Length], floor: Length, part: str, role: str) -> None:
    """A part beside the stream: it reads a copy and adds."""
    stream, aside = lanes
    pen.line([(stream - 4, floor), (aside, floor), (aside, floor - 48)], "muted k", "")
    pen.line([(aside, floor - 74), (aside, floor - 114), (stream - 8, floor - 114)], f"{role} k")
    pen.box(aside - 40, floor - 75, (80, 28), f"{role} t", 6)
    pen.text(aside, floor - 56.5, part, f"{role} f s b")
    pen.plus(stream, floor - 114)
