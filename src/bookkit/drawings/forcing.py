"""Where the decoder's last word comes from: the true translation in training, itself in use."""

from collections.abc import Sequence

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

STEP, SIZE = 84, (44, 32)


def teacher_forcing(
    true: Sequence[str] = ("ma", "voiture", "rouge"),
    said: Sequence[str] = ("mon", "chien", "noir"),
    wrong: int = 0,
) -> Drawing:
    """The same decoder twice: told the true last word, and reading its own.

    `said` is what it writes on its own, `wrong` the place of its first mistake: what follows rests
    on it. Williams & Zipser 1989.
    """
    if not len(true) == len(said) == 3 or not 0 <= wrong < 3:
        raise ValueError(
            f"3 words each, a mistake at 0 to 2; got {len(true)}, {len(said)}, {wrong}"
        )
    told, own = ["<s>", *true], ["<s>", *said]
    desc = (
        f"Two rows of a decoder with four cells. Training: below each cell stands the true word "
        f"before, {', '.join(told)}; above, the word that it should say, {', '.join(true)} and "
        f"</s>. In use: an arrow leads from each word that was written, {', '.join(said)}, to the "
        f"next cell's input. The mistake, {said[wrong]}, is framed, and all cells behind it are "
        "hatched, for what they read is no longer what they were trained on."
    )
    wide, tall = Pen(720, 190), Pen(360, 400)
    for pen, second in ((wide, (366, 0)), (tall, (6, 210))):
        row(pen, (6, 0), "training: the true word before", told, [*true, "</s>"])
        place = row(pen, second, "in use: its own word before", own, [*said, "</s>"], wrong)
        x = place[wrong]
        pen.box(x - 30, second[1] + 36, (60, 22), "mark", 3)
    return Drawing(wide, tall, "Teacher forcing and free running", desc)


def row(
    pen: Pen,
    place: Point,
    title: str,
    reads: Sequence[str],
    writes: Sequence[str],
    wrong: int | None = None,
) -> list[Length]:
    """Four cells with what they read and write; behind a mistake they are hatched."""
    left, top = place
    at = [left + 40 + STEP * n for n in range(len(reads))]
    pen.text(left + 166, top + 18, title, "b s")
    for n, (x, word) in enumerate(zip(at, writes, strict=True)):
        pen.box(x - SIZE[0] / 2, top + 88, SIZE, "state edge", 6)
        if wrong is not None and n > wrong:
            pen.hatch(x - SIZE[0] / 2, top + 88, SIZE)
        pen.text(x, top + 52, word, "output f s")
        pen.line([(x, top + 86), (x, top + 60)], "output k")
        pen.line([(x, top + 150), (x, top + 123)], "muted k")
        given = "output" if wrong is not None and n else "value"
        pen.text(x, top + 168, reads[n], f"{given} f s")
        if n:
            pen.line([(at[n - 1] + 24, top + 104), (x - 24, top + 104)], "state k")
        if n and wrong is not None:
            middle = at[n - 1] + STEP / 2
            turns = [(middle, top + 66), (middle, top + 136), (x - 3, top + 136)]
            pen.line([(at[n - 1] + 4, top + 66), *turns], "output k", "")
    return at
