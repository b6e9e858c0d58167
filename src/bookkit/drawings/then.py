"""A decoder's block in 2017 and today, on the same coordinates: what has changed is in frames."""

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen

HEIGHT = 366
# what stands at each height of a block, from below: 2017 and today
NETWORK = ("widen, ReLU, narrow", "SwiGLU, or a router", "and many experts")
ATTENTION = ("8 queries, 8 keys", "8 queries, 2 keys", "a gate behind them")


def then_and_now() -> Drawing:
    """The block of Vaswani et al. 2017, section 3, and one as open models have it in 2026."""
    desc = (
        "Two blocks of a decoder side by side, each one stream that runs upwards past attention "
        "and a feed-forward network. 2017: sinusoids are added below; attention has as many keys "
        "as queries; a layer norm stands on the stream after each sum; the network widens, cuts "
        "with ReLU and narrows. Today, changes in frames: an RMSNorm before each part, and the "
        "stream is free; queries and keys are normalised and turned by their position; several "
        "queries share a key; a gate decides what leaves the heads; some layers see a window "
        "only; the network is a SwiGLU or a router with many experts, of which few work."
    )
    wide, tall = Pen(720, HEIGHT), Pen(360, 2 * HEIGHT - 4)
    for pen, x, y in ((wide, 370, 0), (tall, 0, HEIGHT - 4)):
        block(pen, 0, 0, today=False)
        block(pen, x, y, today=True)
    return Drawing(wide, tall, "A block of 2017 and one of today", desc)


def block(pen: Pen, x: Length, y: Length, today: bool) -> None:
    """One block, upwards."""
    stream, aside = x + 30, x + 122
    pen.text(x + 10, y + 18, "today" if today else "2017", "h l")
    pen.stream([(stream, y + 352), (stream, y + 34)])
    for floor, part, role in ((y + 308, "attention", "weight"), (y + 160, "network", "muted")):
        pen.line([(stream + 4, floor), (aside, floor), (aside, floor - 38)], "muted k", "")
        pen.line([(aside, floor - 70), (aside, floor - 96), (stream + 8, floor - 96)], f"{role} k")
        pen.box(aside - 48, floor - 70, (96, 32), f"{role} t", 6)
        pen.text(aside, floor - 49.5, part, f"{role} f b")
        pen.plus(stream, floor - 96)
        if today:
            norm(pen, aside, floor - 19, "RMSNorm", True)
        else:
            norm(pen, stream + 14, floor - 118, "LayerNorm", False)
    (new if today else old)(pen, x, y)


def norm(pen: Pen, x: Length, y: Length, words: str, changed: bool) -> None:
    """A norm; a framed one was not there in 2017."""
    pen.pill(x, y, words, (84, 20))
    if changed:
        pen.box(x - 45, y - 13, (90, 26), "open ink", 13)


def old(pen: Pen, x: Length, y: Length) -> None:
    """What the parts of 2017 are made of."""
    pen.text(x + 180, y + 111, NETWORK[0], "s l")
    heads(pen, x + 180, y + 246, 8)
    pen.text(x + 180, y + 276, ATTENTION[0], "s l")
    pen.plus(x + 30, y + 338)
    pen.line([(x + 84, y + 338), (x + 41, y + 338)], "position k")
    pen.text(x + 92, y + 342.5, "sinusoids, once, below all blocks", "s position f l")


def new(pen: Pen, x: Length, y: Length) -> None:
    """What today's are made of, with frames."""
    rows = ((y + 80, NETWORK[1:]), (y + 224, ("", *ATTENTION[1:])))
    for top, words in rows:
        pen.box(x + 174, top, (152, 92 if words[0] == "" else 50), "open ink", 4)
        for n, line in enumerate(words):
            pen.text(x + 184, top + 20 + 20 * n, line, "s l")
    heads(pen, x + 184, y + 237, 2)
    pen.text(x + 184, y + 304, "norms and rotations", "s position f l")
    pen.text(x + 92, y + 342.5, "layers of two kinds: windows and full", "s muted f l")


def heads(pen: Pen, x: Length, y: Length, keys: int) -> None:
    """Eight queries, and the keys that they share."""
    for n in range(8):
        pen.dot(x + 6 + 17 * n, y, "query f", 4.5)
    wide = 8 * 17 / keys
    for n in range(keys):
        pen.box(x + n * wide + 1, y + 8, (wide - 4, 6), "key f", 2)
