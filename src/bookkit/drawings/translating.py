"""Encoder and decoder with their numbers: unrolled, one step of the decoder, the loss per word."""

from collections.abc import Sequence

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed
from bookkit.experiments.on_paper import READS, STATES, WRITES, Step, losses

CELL = (32, 23)


def column(pen: Pen, name: str, place: Point, numbers: Sequence[Length], role: str) -> None:
    """A vector of two numbers, upright, coloured by their size."""
    pen.cells(name, place, [[x] for x in numbers], role, CELL, (0, 4))


def encoder_decoder(found: Sequence[Step]) -> Drawing:
    """The plain model of one direction, unrolled: what goes in, what is kept, what comes out.

    `found` are the decoder's steps. Sutskever et al. 2014, figure 1; c goes to each step, as in
    Cho et al. 2014, equation 7.
    """
    if len(found) != 4:
        raise ValueError(f"four steps of the decoder fit; got {len(found)}")
    reads = [step.read for step in found]
    desc = (
        f"An encoder reads {', '.join(READS)}, one word after the other; above each of its cells "
        f"stands its state, {states()}. The last state alone is the context c. It goes to each of "
        f"the decoder's four cells, which also read the word before, {', '.join(reads)}, and their "
        f"own last state, and are to say {', '.join(WRITES)}."
    )
    wide, tall = Pen(720, 216), Pen(360, 420)
    encoder(wide, (44, 0), 92)
    decoder(wide, reads, (372, 0), 90)
    column(wide, "c", (290, 91), STATES[-1], "output")
    wide.text(306, 80, "c", "output m f")
    wide.line([(254, 114), (288, 114)], "output k")
    wide.line([(324, 114), (334, 114), (334, 172), (625, 172)], "output k", "")
    encoder(tall, (56, 0), 108)
    decoder(tall, reads, (48, 212), 88)
    column(tall, "c", (322, 91), STATES[-1], "output")
    tall.text(338, 80, "c", "output m f")
    tall.line([(298, 114), (320, 114)], "output k")
    tall.line([(338, 139), (338, 384), (31, 384)], "output k", "")
    return Drawing(wide, tall, "Encoder and decoder, one vector between them", desc)


def states() -> str:
    return ", ".join(f"({printed(a)}, {printed(b)})" for a, b in STATES)


def encoder(pen: Pen, place: Point, gap: Length) -> None:
    """Three cells with their words below and their states above."""
    left, top = place
    pen.text(left + gap, top + 20, "encoder: reads", "s muted f")
    for n, (word, state) in enumerate(zip(READS, STATES, strict=True)):
        x = left + gap * n
        pen.box(x - 22, top + 98, (44, 32), "state edge", 6)
        pen.text(x, top + 119, "f", "m")
        column(pen, f"h{n + 1}", (x - 16, top + 42), state, "key")
        pen.line([(x, top + 160), (x, top + 132)], "muted k")
        pen.line([(x, top + 96), (x, top + 90)], "key k", "")
        pen.text(x, top + 178, word, "s")
        if n:
            pen.line([(x - gap + 24, top + 114), (x - 24, top + 114)], "state k")


def decoder(pen: Pen, reads: Sequence[str], place: Point, gap: Length) -> None:
    """Four cells; below the word before, above the word to be said; c enters at each one's left."""
    left, top = place
    pen.text(left + 1.5 * gap, top + 20, "decoder: writes", "s muted f")
    for n, (read, said) in enumerate(zip(reads, WRITES, strict=True)):
        x = left + gap * n
        pen.box(x - 22, top + 98, (44, 32), "state edge", 6)
        pen.text(x, top + 119, "g", "m")
        pen.line([(x, top + 96), (x, top + 68)], "output k")
        pen.text(x, top + 58, said, "output f b")
        pen.line([(x - 17, top + 172), (x - 17, top + 132)], "output k")
        pen.line([(x + 8, top + 190), (x + 8, top + 132)], "muted k")
        pen.text(x + 8, top + 206, read, "s")
        if n:
            pen.line([(x - gap + 24, top + 114), (x - 24, top + 114)], "state k")


def decoding_step(step: Step) -> Drawing:
    """One step of the decoder with every number: three vectors, their sum, tanh, logits, softmax.

    The cell is s ← tanh(s + y + c), Elman's with all matrices the identity.
    """
    total = (step.query + step.y + step.context).tolist()
    chances = ", ".join(f"{w} {printed(x)}" for w, x in zip(WRITES, step.p.tolist(), strict=True))
    desc = (
        f"The state before, {pair(step.query.tolist())}, the vector of {step.read}, "
        f"{pair(step.y.tolist())}, and the context, {pair(step.context.tolist())}, are added to "
        f"{pair(total)}; tanh makes the new state {pair(step.state.tolist())} of it. Each word's "
        f"row of the output matrix times this state is its logit; the softmax gives {chances}. "
        f"The largest is {step.said}."
    )
    wide, tall = Pen(720, 142), Pen(360, 268)
    for pen, words, gap in ((wide, (400, 4), 62), (tall, (60, 130), 62)):
        sums(pen, step, total, gap, 22 if pen is wide else 14)
        outputs(pen, step, words)
    wide.line([(340, 66), (384, 66)], "output k")
    tall.line([(300, 110), (300, 134)], "output k")
    return Drawing(wide, tall, "One step of the decoder, in numbers", desc)


def pair(numbers: Sequence[Length]) -> str:
    return f"({', '.join(printed(x) for x in numbers)})"


def sums(pen: Pen, step: Step, total: Sequence[float], gap: Length, left: Length) -> None:
    """State, word and context side by side, their sum, and what tanh makes of it."""
    rows = [
        ("before", "state", step.query.tolist(), "s_{i−1}", "+"),
        ("word", "value", step.y.tolist(), step.read, "+"),
        ("context", "output", step.context.tolist(), "c", "="),
        ("sum", "ink", total, "sum", "tanh"),
        ("state", "query", step.state.tolist(), "s_i", ""),
    ]
    for n, (name, role, numbers, words, then) in enumerate(rows):
        x = left + gap * n + (14 if n == 4 else 0)
        column(pen, name, (x, 43), numbers, role)
        pen.text(x + 16, 34, words, f"{role} f s b")
        if then:
            pen.text(x + (47 if n < 3 else 54), 70, then, "s" if n == 3 else "h")


def outputs(pen: Pen, step: Step, place: Point) -> None:
    """For each word its row of the matrix times the state, and the share that softmax gives it."""
    left, top = place
    pen.text(left + 94, top + 14, "logit", "s muted f")
    pen.text(left + 190, top + 14, "softmax", "s muted f")
    best = max(step.p.tolist())
    for n, (word, logit, p) in enumerate(
        zip(WRITES, step.logits.tolist(), step.p.tolist(), strict=True)
    ):
        y = top + 22 + 27 * n
        look = "output f s b" if p == best else "s"
        pen.text(left + 56, y + 16, word, f"{look} e")
        pen.cells(f"logit{n}", (left + 68, y), [[logit]], "query", (52, 24), (0, 6))
        pen.box(left + 134, y + 3, (max(120 * p, 1), 18), "output t", 2)
        pen.text(left + 142 + 120 * p, y + 16, printed(p), f"{look} l")
    pen.tables["p"] = [[printed(p) for p in step.p.tolist()]]


def token_losses(found: Sequence[Step]) -> Drawing:
    """For each word of the target: the word itself as one-hot, what is predicted, and −ln p."""
    nats = losses(found).tolist()
    mean = sum(nats) / len(nats)
    told = "; ".join(
        f"after {step.read} the word {word} has {printed(step.p[n].item())}, loss {printed(nat)}"
        for n, (step, word, nat) in enumerate(zip(found, WRITES, nats, strict=True))
    )
    desc = (
        "Four pairs of columns with a row for each word of the vocabulary. In each pair the left "
        "column is the target, 1 for the true word and 0 for all others, the right one what the "
        f"decoder predicts. {told[0].upper() + told[1:]}. The mean is {printed(mean)} nats."
    )
    wide, tall = Pen(720, 208), Pen(360, 392)
    for n, (step, nat) in enumerate(zip(found, nats, strict=True)):
        compared(wide, n, step, nat, (78 + 162 * n, 0))
        compared(tall, n, step, nat, (78 + 148 * (n % 2), 186 * (n // 2)))
    for pen, tops in ((wide, (0,)), (tall, (0, 186))):
        for top in tops:
            for n, word in enumerate(WRITES):
                pen.text(66, top + 62 + 25 * n, word, "s e")
    words = f"loss of the sentence: their mean, {printed(mean)} nats"
    wide.text(384, 202, words, "s b")
    tall.text(180, 384, words, "s b")
    return Drawing(wide, tall, "Cross-entropy, word by word", desc)


def compared(pen: Pen, n: int, step: Step, nat: float, place: Point) -> None:
    """One word of the target: one-hot, predicted, and the loss below."""
    left, top = place
    pen.text(left + 64, top + 16, f"reads {step.read}", "s b")
    pen.text(left + 30, top + 36, "target", "value f s")
    pen.text(left + 98, top + 36, "predicted", "output f s")
    hot = [[float(k == n)] for k in range(len(WRITES))]
    pen.cells(f"target{n}", (left, top + 44), hot, "value", (60, 25))
    p = [[x] for x in step.p.tolist()]
    pen.cells(f"predicted{n}", (left + 68, top + 44), p, "output", (60, 25))
    pen.box(left + 67, top + 43 + 25 * n, (62, 26), "mark", 3)
    words = f"−ln {printed(step.p[n].item(), 3)} = {printed(nat)}"
    pen.text(left + 64, top + 166, words, "gradient f s b")
