"""An LSTM of one unit walks over some letters: what each gate does at each of them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.recurrent import LSTMCell
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.lstm import Step, gate, two
from bookkit.drawings.pen import Length, Pen

MOST = 6  # letters that fit on a sheet


def steps(cell: LSTMCell, x: Float[Tensor, "T C"]) -> list[Step]:
    """What the cell computes at each position, from a state of zeros on."""
    h = c = torch.zeros(1, 1, dtype=x.dtype)
    found = []
    for x_t in x.unbind(0):
        found.append(Step(cell, x_t[None], h, c))
        with torch.no_grad():
            h, c = cell(x_t[None], (h, c))
    return found


def lstm_walk(cell: LSTMCell, x: Float[Tensor, "T C"], letters: Sequence[str]) -> Drawing:
    """The four numbers that an LSTM makes at each of some letters, and what they do to its state.

    `cell` has width 1, `x` is (T, C), a row for each of at most six `letters`. Gates are filled as
    far as they are open. Hochreiter & Schmidhuber 1997, forget gate of Gers et al. 2000.
    """
    if cell.width != 1 or not len(letters) == len(x) <= MOST:
        raise ValueError(
            f"a cell of width 1 and a row for each of at most {MOST} letters fit; got width "
            f"{cell.width}, {len(x)} rows and {len(letters)} letters"
        )
    walk = steps(cell, x)
    told = "; ".join(
        f"at {letter} the forget gate is {two(s.forget)}, the input gate {two(s.take)}, the "
        f"candidate {two(s.candidate)}, so the state goes from {two(s.before)} to {two(s.after)}, "
        f"and the output gate, {two(s.reveal)}, shows {two(s.h)}"
        for letter, s in zip(letters, walk, strict=True)
    )
    desc = f"The cell state runs through {len(walk)} letters as a thick line: {told}."
    return Drawing(wide(walk, letters), tall(walk, letters), "An LSTM, letter by letter", desc)


def wide(walk: Sequence[Step], letters: Sequence[str]) -> Pen:
    pen = Pen(720, 330)
    line, left, apart = 140, 96, 104
    pen.line([(left - 8, line), (708, line)], "state k thick", "")
    pen.line([(706, line), (718, line)], "state k")
    for y, words, look in (
        (24, "shows h", "output f s l"),
        (66, "output gate", "s l"),
        (line + 4, "cell state c", "s b l"),
        (214, "input gate", "s l"),
        (262, "candidate", "s l"),
        (312, "reads", "s muted f l"),
    ):
        pen.text(4, y, words, look)
    for n, (s, letter) in enumerate(zip(walk, letters, strict=True)):
        with pen.step(n):
            column(pen, s, letter, left + n * apart, line)
    pen.text(4, line - 26, "forget gate", "s l")
    return pen


def column(pen: Pen, s: Step, letter: str, x: Length, line: Length) -> None:
    """One letter, from the bottom up: candidate, input gate, sum, output gate."""
    kept, write, show = x + 10, x + 42, x + 76
    pen.line([(write, 248), (write, 222)], "muted k", "")
    pen.line([(write, 200), (write, line + 11)])
    pen.line([(show, line), (show, 74)], "output k", "")
    pen.line([(show, 50), (show, 32)], "output k")
    gate(pen, kept, line, s.forget, (20, 40))
    gate(pen, write, 210, s.take, (44, 20))
    gate(pen, show, 62, s.reveal, (44, 20))
    pen.plus(write, line, 9)
    pen.dot(show, line, "output f", 4)
    for at, y, words, look in (
        (kept, line - 26, two(s.forget), "s"),
        (write - 26, 214, two(s.take), "s e"),
        (write, 262, two(s.candidate), "s"),
        (show - 6, line + 26, two(s.after), "s b"),
        (show - 26, 66, two(s.reveal), "s e"),
        (show, 24, two(s.h), "output f s b"),
        (write, 314, letter, "h"),
    ):
        pen.text(at, y, words, look)


def tall(walk: Sequence[Step], letters: Sequence[str]) -> Pen:
    apart, top = 74, 66
    pen = Pen(360, top + len(walk) * apart + 14)
    for x, words, look in (
        (66, "candidate", "s"),
        (128, "input", "s"),
        (204, "state c", "s b"),
        (278, "output", "s"),
        (334, "shows h", "output f s"),
    ):
        pen.text(x, 16, words, look)
    pen.line([(184, 30), (184, pen.height - 10)], "state k thick", "")
    pen.line([(184, pen.height - 12), (184, pen.height - 1)], "state k")
    for n, (s, letter) in enumerate(zip(walk, letters, strict=True)):
        with pen.step(n):
            row(pen, s, letter, top + n * apart)
    pen.text(198, 38, "forget", "s l")
    return pen


def row(pen: Pen, s: Step, letter: str, y: Length) -> None:
    """One letter, from the left: candidate, input gate, sum, output gate."""
    line, write, show = 184, y + 22, y + 44
    pen.line([(88, write), (116, write)], "muted k", "")
    pen.line([(140, write), (line - 10, write)])
    pen.line([(line, show), (266, show)], "output k", "")
    pen.line([(290, show), (308, show)], "output k")
    gate(pen, line, y - 8, s.forget, (40, 20))
    gate(pen, 128, write, s.take, (22, 30))
    gate(pen, 278, show, s.reveal, (22, 30))
    pen.plus(line, write, 9)
    pen.dot(line, show, "output f", 4)
    for x, at, words, look in (
        (212, y - 3, two(s.forget), "s l"),
        (128, y, two(s.take), "s"),
        (66, write + 5, two(s.candidate), "s"),
        (196, write + 5, two(s.after), "s b l"),
        (278, y + 22, two(s.reveal), "s"),
        (334, show + 5, two(s.h), "output f s b"),
        (16, write + 6, letter, "h"),
    ):
        pen.text(x, at, words, look)
