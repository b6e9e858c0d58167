"""An encoder and a decoder with attention between them: each word written looks at all states."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, printed


def look_back(
    reads: Sequence[str], writes: Sequence[str], weights: Float[Tensor, "Tq Tk"]
) -> Drawing:
    """Every state is kept, and each word that is written looks at all of them.

    Lines are as wide as the weights. Bahdanau et al. 2015, figure 1.
    """
    check(reads, writes)
    if tuple(weights.shape) != (len(writes), len(reads)):
        have = f"{len(writes)} words that look at {len(reads)}"
        raise ValueError(f"weights {tuple(weights.shape)} do not fit {have}")
    table = weights.tolist()
    most = ", ".join(
        f"{word} at {reads[row.index(max(row))]} ({printed(max(row))})"
        for word, row in zip(writes, table, strict=True)
    )
    desc = (
        f"Below, an encoder reads {', '.join(reads)} and makes a state at each word; all of them "
        "are kept. Above, a decoder writes one word after the other, and from each of its cells "
        f"lines lead to all states, as wide as the weights of attention. Most looked at: {most}."
    )
    wide, tall = Pen(720, 330), Pen(360, 330)
    for pen in (wide, tall):
        below, above = cells(pen, reads, writes)
        for i, row in enumerate(table):
            glance(pen, i, writes[i], list(zip(reads, row, strict=True)), (below, above[i]))
        for x in below:
            pen.box(x - 22, 176, (44, 14), "output f", 3)
        with pen.group("rest"):
            words = "all states are kept; each word looks at all"
            pen.text(pen.width / 2, 326, words, "weight f s b")
    return Drawing(wide, tall, "Encoder and decoder with attention between them", desc)


def glance(pen: Pen, i: int, word: str, row: list, places: tuple[list, Length]) -> None:
    """One written word looks at all states; asked, it says how much at which."""
    shares = ", ".join(f"{read} {printed(weight)}" for read, weight in row)
    below, x = places
    with pen.group(part=f"to{i}", on=f"to{i} n-to{i}", says=f"{word} looks at {shares}"):
        pen.box(x - 24, 60, (48, 60), "clear", 4)
        for start, (_, weight) in zip(below, row, strict=True):
            pen.share((start, 174), (x, 110), weight)
    with pen.group("note", f"n-to{i}"):
        pen.text(pen.width / 2, 326, f"{word} looks at {shares}", "s")


def check(reads: Sequence[str], writes: Sequence[str]) -> None:
    """Raise a ValueError if there are more words than a phone has room for."""
    if not 1 <= len(reads) <= 5 or not 1 <= len(writes) <= 5:
        raise ValueError(f"1 to 5 words on each side fit; got {len(reads)} and {len(writes)}")


def cells(pen: Pen, reads: Sequence[str], writes: Sequence[str]) -> tuple[list, list]:
    """Two rows of recurrent cells with their words; returns where they stand."""
    rows = []
    for words, y, word_y, role in ((reads, 220, 300, "ink"), (writes, 84, 18, "output")):
        step = pen.width / len(words)
        at: list[Length] = [step * (n + 0.5) for n in range(len(words))]
        for n, (x, word) in enumerate(zip(at, words, strict=True)):
            pen.box(x - 22, y - 16, (44, 36), "state edge", 6)
            if n:
                pen.line([(at[n - 1] + 24, y + 2), (x - 24, y + 2)], "state k")
            pen.text(x, word_y, word, f"{role} f s")
            up = [(x, 284), (x, 242)] if role == "ink" else [(x, 66), (x, 26)]
            pen.line(up, f"{'muted' if role == 'ink' else role} k")
            if role == "ink":
                pen.line([(x, 203), (x, 192)], "output k", "")
        rows.append(at)
    return rows[0], rows[1]
