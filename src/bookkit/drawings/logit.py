"""The stream as a sum: what each part of a model adds to the logit of one token."""

from collections.abc import Mapping

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, printed

ROW = 42


def logit_sum(parts: Mapping[str, float], token: str) -> Drawing:
    """A stream from the embedding to the output layer, and what each part adds to one logit.

    `parts` maps the name of a part, in the order in which they write, to its share; the first is
    the embedding, those that begin with "attention" and "network" sit beside the stream.
    """
    if len(parts) < 3:
        raise ValueError(f"an embedding and at least one block fit; got {', '.join(parts)}")
    total = sum(parts.values())
    listed = ", ".join(f"{name} {printed(share, 1)}" for name, share in parts.items())
    desc = (
        "A thick line, the residual stream, runs from the embedding to the output layer. Each "
        "attention and each network reads a copy of it and adds what it found; nothing is ever "
        f"taken away. So the logit of “{token}” is a sum with one term per part: {listed}; "
        f"together {printed(total, 1)}."
    )
    height = ROW * (len(parts) + 1) + 40
    wide, tall = (layout(Pen(width, height), parts, token) for width in (720, 360))
    return Drawing(wide, tall, f"The logit of {token} as a sum over the parts", desc)


def layout(pen: Pen, parts: Mapping[str, float], token: str) -> Pen:
    """Downwards: the stream at the left, the parts beside it, their shares as bars."""
    wide = pen.width > 500
    stream, box, zero = (60, 120, 420) if wide else (24, 60, 232)
    most = max(abs(share) for share in parts.values())
    reach = (pen.width - zero - 52) / most
    end = ROW * len(parts) + 40
    pen.text(zero, 14, f"adds to the logit of “{token}”" if wide else f"to “{token}”", "s b")
    pen.mark("path", "hair", d=f"M{zero} 24V{end - 8}")
    pen.stream([(stream, 40), (stream, end)])
    for n, (name, share) in enumerate(parts.items()):
        part(pen, n, name, (stream, box), 130 if wide else 108)
        bar(pen, ROW * n + 44, share, zero, reach)
    pen.line([(stream, end), (stream, end + 14), (box - 4, end + 14)], "state k")
    pen.box(box, end, (130 if wide else 108, 28), "output edge")
    pen.text(box + (65 if wide else 54), end + 19, "output layer", "s")
    pen.text(zero, end + 20, f"sum {printed(sum(parts.values()), 1)}", "output f b")
    return pen


def part(pen: Pen, n: int, name: str, columns: tuple[Length, Length], width: Length) -> None:
    """A box that reads the stream and writes into it; the embedding begins it."""
    stream, box = columns
    y = ROW * n + 44
    role = {"a": "weight", "n": "muted"}.get(name[0], "position")
    pen.box(box, y - 15, (width, 30), f"{role} edge")
    pen.text(box + width / 2, y + 5, name, "s")
    if n == 0:
        pen.line([(box, y), (stream + 4, y)], "position k")
        return
    pen.line([(stream, y - 8), (box, y - 8)], "muted k thin")
    pen.line([(box, y + 8), (stream + 8, y + 8)], f"{role} k")
    pen.plus(stream, y + 8, 7)


def bar(pen: Pen, y: Length, share: float, zero: Length, reach: float) -> None:
    """To the right what speaks for the token, to the left what speaks against it."""
    long = abs(share) * reach
    if share >= 0:
        pen.box(zero, y - 10, (long, 20), "output f", 2)
        pen.text(zero + long + 6, y + 5, printed(share, 1), "s b l")
    else:
        pen.box(zero - long, y - 10, (long, 20), "gradient f", 2)
        pen.text(zero - long - 6, y + 5, printed(share, 1), "s b e")
