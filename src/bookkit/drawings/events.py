"""A look of attention without numbers: the order of events, and two models that differ in it."""

from collections.abc import Sequence

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

ROWS = (104, 142, 180)
WIDE = {"key": 96, "score": 188, "soft": 330, "bar": 368, "again": 452, "plus": 540}
TALL = {"key": 46, "score": 106, "soft": 210, "bar": 244, "again": 294, "plus": 344}


def one_look(
    reads: Sequence[str] = ("my", "red", "car"),
    written: tuple[str, str] = ("ma", "voiture"),
    weights: Sequence[float] = (0.04, 0.07, 0.89),
) -> Drawing:
    """From the decoder's state to the next word: scores, softmax, weights, mixture, step.

    `written` is the word before and the word that comes; bars and lines are as wide as `weights`.
    Bahdanau et al. 2015, section 3.1.
    """
    if not len(reads) == len(weights) == 3:
        raise ValueError(f"3 words with a weight each fit; got {len(reads)} and {len(weights)}")
    most = reads[max(range(3), key=lambda j: weights[j])]
    desc = (
        "Six events from left to right. One: the decoder's state before the word is the query. "
        f"Two: it is scored with each encoder state, those of {', '.join(reads)}. Three: a softmax "
        f"makes weights of the scores. Four: the weights, the largest at {most}. Five: each state "
        "times its weight, added up, is the context c. Six: the decoder's cell reads the state "
        f"before, the word before, {written[0]}, and c; its new state writes {written[1]}."
    )
    wide, tall = Pen(720, 226), Pen(360, 370)
    for pen, at, size in ((wide, WIDE, (100, 56)), (tall, TALL, (84, 36))):
        asks(pen, at, reads, size)
        answers(pen, at, weights, 62 if pen is wide else 28)
    wide.line([(549, 142), (562, 142)], "output k")
    chip(wide, (564, 130), 30, "c", "output")
    wide.line([(596, 142), (610, 142), (610, 70)], "output k")
    cell(wide, (598, 36), written, (34, 110))
    tall.line([(344, 152), (344, 330), (300, 330)], "output k")
    chip(tall, (264, 318), 34, "c", "output")
    tall.line([(262, 330), (174, 330), (174, 298)], "output k")
    cell(tall, (140, 264), written, (10, 332))
    for pen, mixture, word in ((wide, (545, 220), (660, 220)), (tall, (284, 362), (76, 362))):
        pen.text(*mixture, "5 mixture", "b s")
        pen.text(*word, "6 next word", "b s")
    return Drawing(wide, tall, "One look of attention, in the order of events", desc)


def chip(pen: Pen, place: Point, width: Length, words: str, role: str) -> None:
    """A vector as one part with its symbol."""
    pen.box(*place, (width, 24), f"{role} t", 4)
    pen.text(place[0] + width / 2, place[1] + 17, words, f"{role} m f")


def asks(pen: Pen, at: dict[str, int], reads: Sequence[str], size: tuple[int, int]) -> None:
    """The query above, the encoder's states below, one score for each of these."""
    band, width = size
    key, score = at["key"], at["score"]
    middle = score + band / 2
    pen.text(key + 28, 26, "1 query", "b s")
    if pen.width > 400:
        pen.line([(key + 58, 52), (596, 52)], "state k")
    else:
        pen.line([(key - 2, 52), (8, 52), (8, 280), (138, 280)], "state k")
    chip(pen, (key, 40), 56, "s_{i−1}", "query")
    pen.line([(key + 58, 52), (middle, 52), (middle, 86)], "query k")
    pen.box(score, 88, (band, 114), "weight t", 6)
    for n, (y, word) in enumerate(zip(ROWS, reads, strict=True)):
        pen.text(key - 7, y + 4, word, "s e")
        chip(pen, (key, y - 12), width, f"h_{n + 1}", "key")
        pen.line([(key + width + 2, y), (score - 2, y)], "key k")
        pen.text(middle, y + 5, f"score(s, h_{n + 1})", "s")
    pen.text(key + width / 2, 220, "states", "s muted f")
    pen.text(middle, 220, "2 scores", "b s")


def answers(pen: Pen, at: dict[str, int], weights: Sequence[float], longest: int) -> None:
    """The softmax of the scores, the weights, and each state times its own."""
    soft, bar, again, plus = at["soft"], at["bar"], at["again"], at["plus"]
    left = at["score"] + (100 if pen.width > 400 else 84)
    wide = pen.width > 400
    pen.box(soft, 88, (26, 114), "box", 13)
    pen.text(soft + 18, 145, "3 softmax", "b s", -90)
    for n, (y, weight) in enumerate(zip(ROWS, weights, strict=True)):
        pen.line([(left + 2, y), (soft - 2, y)], "muted k")
        if wide:
            pen.text((left + soft) / 2 - 3, y - 7, f"e_{n + 1}", "m")
        pen.box(bar, y - 8, (max(longest * weight, 2), 16), "weight t", 2)
        pen.text(bar + longest * weight + 3, y + 5, f"α_{n + 1}", "weight m f l")
        chip(pen, (again, y - 12), 40 if wide else 26, f"h_{n + 1}", "key")
        pen.share((again + (42 if wide else 28), y), (plus - (10 if wide else 8), 142), weight)
    pen.plus(plus, 142, 9 if wide else 8)
    pen.text(bar + 30, 220, "4 weights", "b s")


def cell(pen: Pen, place: Point, written: tuple[str, str], word: Point) -> None:
    """The decoder's cell: c and the word before come from below, the next word goes up."""
    (left, top), (x, y) = place, word
    pen.box(left, top, (44, 32), "state edge", 6)
    pen.text(left + 22, top + 21, "g", "m")
    pen.line([(left + x, y - 12), (left + x, top + 34)], "muted k")
    pen.text(left + x, y + 2, written[0], "value f s")
    pen.line([(left + 22, top - 2), (left + 22, top - 14)], "output k")
    pen.text(left + 22, top - 19, written[1], "output f b s")
    pen.line([(left + 46, top + 16), (left + 64, top + 16)], "state k")
    chip(pen, (left + 66, top + 4), 44, "s_i", "query")


def two_models() -> Drawing:
    """Bahdanau's and Luong's decoder: who asks, with which score, which keys, where c goes.

    Bahdanau et al. 2015, sections 3.1 and 3.2; Luong et al. 2015, section 3.1.
    """
    desc = (
        "Two decoders with attention. Bahdanau 2015: the state before, s i minus 1, asks; the "
        "score is additive; the keys are the states of an encoder that reads in both directions; "
        "the context c goes into the cell, together with the word before, and makes s i. Luong "
        "2015: the cell runs first; the new state s i asks; the score is dot, general or concat; "
        "the keys are the states of the top layer of a stack; c and s i go through a layer with "
        "tanh, whose output writes the word."
    )
    wide, tall = Pen(720, 222), Pen(360, 456)
    for pen, second in ((wide, (368, 0)), (tall, (4, 234))):
        bahdanau(pen, (4, 0))
        luong(pen, second)
    return Drawing(wide, tall, "The attention of Bahdanau and of Luong, side by side", desc)


def look_box(pen: Pen, x: Length, y: Length) -> None:
    pen.box(x - 44, y - 14, (88, 28), "weight t", 6)
    pen.text(x, y + 5, "attention", "s b")


def keys(pen: Pen, x: Length, y: Length, both: bool) -> None:
    """Three encoder states: read in both directions, or on top of two other layers."""
    for n in range(3):
        at = x + 50 * (n - 1)
        chip(pen, (at - 17, y), 34, f"h_{n + 1}", "key")
        if both and n:
            pen.line([(at - 32, y + 7), (at - 19, y + 7)], "state k thin")
            pen.line([(at - 18, y + 18), (at - 31, y + 18)], "state k thin")
        if not both:
            pen.box(at - 17, y + 32, (34, 12), "state edge", 3)
            pen.line([(at, y + 31), (at, y + 25)], "state k thin", "")
            if n:
                for height in (y + 12, y + 38):
                    pen.line([(at - 32, height), (at - 19, height)], "state k thin")


def legend(pen: Pen, place: Point, *lines: str) -> None:
    """What a model is known by, line by line, below its picture."""
    for n, words in enumerate(lines):
        name, rest = words.split(": ")
        pen.text(place[0] + 40, place[1] + 17 * n, name, "s b e")
        pen.text(place[0] + 46, place[1] + 17 * n, rest, "s l")


def core(pen: Pen, x: Length, y: Length, read: Length) -> None:
    """The decoder's cell, and the word before from below."""
    pen.box(x - 22, y - 16, (44, 32), "state edge", 6)
    pen.text(x, y + 5, "g", "m")
    pen.line([(x + read, y + 36), (x + read, y + 18)], "muted k")
    pen.text(x + read + 6, y + 52, "y_{i−1}", "value m f")


def bahdanau(pen: Pen, place: Point) -> None:
    """The state before asks; the context goes into the cell."""
    left, top = place
    pen.text(left + 170, top + 18, "Bahdanau et al. 2015", "b")
    chip(pen, (left + 58, top + 60), 56, "s_{i−1}", "query")
    pen.line([(left + 116, top + 72), (left + 176, top + 72)], "state k")
    core(pen, left + 200, top + 72, 12)
    pen.line([(left + 224, top + 72), (left + 250, top + 72)], "state k")
    chip(pen, (left + 252, top + 60), 44, "s_i", "query")
    pen.line([(left + 274, top + 58), (left + 274, top + 44)], "output k")
    pen.text(left + 274, top + 37, "voiture", "output f b s")
    pen.line([(left + 86, top + 86), (left + 86, top + 114)], "query k")
    look_box(pen, left + 86, top + 130)
    pen.line([(left + 132, top + 130), (left + 188, top + 130), (left + 188, top + 90)], "output k")
    pen.text(left + 158, top + 122, "c_i", "output m f")
    pen.line([(left + 74, top + 164), (left + 74, top + 146)], "key k")
    keys(pen, left + 74, top + 166, both=True)
    legend(
        pen,
        (left + 170, top + 164),
        "query: state before, s_{i−1}",
        "score: additive",
        "keys: both directions",
        "c: goes into the cell",
    )


def luong(pen: Pen, place: Point) -> None:
    """The cell runs first, its new state asks; the context is joined to it behind the cell."""
    left, top = place
    pen.text(left + 170, top + 18, "Luong et al. 2015", "b")
    chip(pen, (left + 2, top + 60), 56, "s_{i−1}", "query")
    pen.line([(left + 60, top + 72), (left + 80, top + 72)], "state k")
    core(pen, left + 104, top + 72, 0)
    pen.line([(left + 128, top + 72), (left + 148, top + 72)], "state k")
    chip(pen, (left + 150, top + 60), 44, "s_i", "query")
    pen.line([(left + 196, top + 72), (left + 236, top + 72)], "query k")
    pen.box(left + 238, top + 58, (104, 28), "box", 14)
    pen.text(left + 290, top + 77, "tanh(W [c_i; s_i])", "s")
    pen.line([(left + 290, top + 56), (left + 290, top + 44)], "output k")
    pen.text(left + 290, top + 37, "voiture", "output f b s")
    pen.line([(left + 172, top + 86), (left + 172, top + 114)], "query k")
    look_box(pen, left + 172, top + 130)
    pen.line([(left + 218, top + 130), (left + 290, top + 130), (left + 290, top + 88)], "output k")
    pen.text(left + 250, top + 122, "c_i", "output m f")
    up = [(left + 84, top + 164), (left + 84, top + 159), (left + 144, top + 159)]
    pen.line([*up, (left + 144, top + 146)], "key k")
    keys(pen, left + 84, top + 166, both=False)
    legend(
        pen,
        (left + 170, top + 164),
        "query: new state, s_i",
        "score: dot, general, concat",
        "keys: top layer of a stack",
        "c: joins behind the cell",
    )
