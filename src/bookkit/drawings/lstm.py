"""One step of an LSTM with its numbers: the cell state as a stream, gates as slots."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnbook.recurrent import LSTMCell
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point


class Step:
    """What one step of a cell of width 1 computes."""

    def __init__(self, cell: LSTMCell, x: Tensor, h: Tensor, c: Tensor):
        with torch.no_grad():
            parts = (cell.from_input(x) + cell.from_state(h)).flatten().tolist()
            after, state = cell(x, (h, c))
        take, forget, candidate, reveal = torch.tensor(parts)
        self.take, self.forget, self.reveal = (float(g.sigmoid()) for g in (take, forget, reveal))
        self.candidate, self.before = float(candidate.tanh()), float(c)
        self.kept, self.added = self.forget * self.before, self.take * self.candidate
        self.after, self.shown, self.h = float(state), float(state.tanh()), float(after)


def two(x: float) -> str:
    """Two decimals, always: in a row of products each number keeps them."""
    return f"{round(x, 6):.2f}".replace("-", "−")


def lstm_cell(cell: LSTMCell, x: Tensor, h: Tensor, c: Tensor) -> Drawing:
    """One step of an LSTM: along the cell state a gradient meets only the forget gate.

    `cell` has width 1, `x` shape (1, in), `h` and `c` (1, 1). Gates are filled as far as they are
    open. Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """
    if cell.width != 1 or c.shape != (1, 1):
        raise ValueError(f"a cell of width 1 fits; got width {cell.width}, c {tuple(c.shape)}")
    step = Step(cell, x, h, c)
    desc = (
        f"The cell state runs through as a thick line. It comes in as {two(step.before)}, the "
        f"forget gate multiplies it by {two(step.forget)}, so {two(step.kept)}; the input gate, "
        f"{two(step.take)}, times the candidate, {two(step.candidate)}, is added, so "
        f"{two(step.after)} goes on. A branch takes its tanh, {two(step.shown)}, times the "
        f"output gate, {two(step.reveal)}: the hidden state, {two(step.h)}. A dashed line leads a "
        f"gradient straight back along the cell state, times 1 at the sum, times "
        f"{two(step.forget)} at the forget gate; after fifty such cells {two(step.forget**50)} "
        "of it is left."
    )
    return Drawing(wide(step), tall(step), "One step of an LSTM", desc)


def gate(pen: Pen, x: Length, y: Length, share: float, size: Point) -> None:
    """A slot centred on (x, y), filled as far as it is open: along its longer side."""
    w, h = size
    left, top = x - w / 2, y - h / 2
    pen.box(left, top, size, "paper", 4)
    if w > h:
        pen.box(left, top, (w * share, h), "state f", 3)
    else:
        pen.box(left, top + h * (1 - share), (w, h * share), "state f", 3)
    pen.box(left, top, size, "mark", 4)


def squash(pen: Pen, x: Length, y: Length, words: str) -> None:
    """A sigmoid or a tanh."""
    width = 52 if len(words) > 1 else 40
    pen.box(x - width / 2, y - 13, (width, 26), "box", 13)
    pen.text(x, y + 5, words, "r")


def lying_state(pen: Pen, line: Length, kept: float, state: str, cells: int) -> None:
    """A state that flows to the right, and above it the gradient's way back, also of a GRU."""
    pen.back([(704, 46), (16, 46)])
    pen.text(704, 34, f"gradient: the way back along the {state}", "gradient f s b e")
    pen.text(16, 34, f"after {cells} such cells {two(kept**cells)} is left", "gradient f s l")
    pen.text(176, 68, f"× {two(kept)}", "gradient f b")
    pen.text(396, 68, "× 1", "gradient f b")
    pen.line([(16, line), (692, line)], "state k thick", "")
    pen.line([(690, line), (706, line)], "state k")


def risers(pen: Pen, places: Sequence[Length], floor: Length, feet: Length, line: Length) -> None:
    """What all gates read, from the floor up to each of them; the first acts on the state."""
    for x in places:
        pen.line([(x, floor), (x, feet + 13)], "muted k", "")
    pen.line([(16, floor), (places[-1], floor)], "muted k", "")
    pen.line([(places[0], feet - 13), (places[0], line + 26)])


def wide(s: Step) -> Pen:
    pen = Pen(720, 364)
    line, feet, floor = 122, 296, 342
    lying_state(pen, line, s.forget, "cell state", 50)
    risers(pen, (176, 308, 396, 512), floor, feet, line)
    pen.line([(308, feet - 13), (308, 204), (370, 204)])
    pen.line([(396, feet - 13), (396, line + 13)])
    pen.line([(512, feet - 13), (512, 240), (553, 240)])
    pen.line([(580, line), (580, 294), (700, 294)], "output k")
    gates(pen, s, line, feet)
    numbers(pen, s, line)
    return pen


def gates(pen: Pen, s: Step, line: Length, feet: Length) -> None:
    """The three gates, the sum, the squashings and the maps in front of them."""
    gate(pen, 176, line, s.forget, (22, 46))
    gate(pen, 396, 204, s.take, (46, 22))
    gate(pen, 580, 240, s.reveal, (46, 22))
    pen.plus(396, line, 11)
    pen.dot(580, line, "output f", 4)
    squash(pen, 580, 172, "tanh")
    for x, words, letter in ((176, "σ", "f"), (308, "σ", "i"), (396, "tanh", "c"), (512, "σ", "o")):
        squash(pen, x, feet, words)
        pen.text(x + 8, 332, f"W_{letter} U_{letter}", "m l")


def numbers(pen: Pen, s: Step, line: Length) -> None:
    """Every number, beside what carries it."""
    for x, y, words, look in (
        (16, line + 28, "c_{t−1}", "m l"),
        (64, line + 28, f"= {two(s.before)}", "s l"),
        (190, line + 34, f"forget gate × {two(s.forget)}", "s l"),
        (286, line - 12, two(s.kept), "s b"),
        (488, line - 12, two(s.after), "s b"),
        (704, line + 26, "c_t", "m e"),
        (406, 180, two(s.added), "s b l"),
        (427, 209, f"input gate × {two(s.take)}", "s l"),
        (406, 256, f"{two(s.candidate)} candidate", "s l"),
        (590, 216, two(s.shown), "s b l"),
        (610, 245, f"output × {two(s.reveal)}", "s l"),
        (700, 320, f"= {two(s.h)}", "output f s e"),
        (652, 320, "h_t", "output f m e"),
        (16, 332, "x_t", "m l"),
        (40, 332, "and", "s muted f l"),
        (68, 332, "h_{t−1}", "output f m l"),
        (16, 360, "all four read both, each through matrices of its own", "s muted f l"),
    ):
        pen.text(x, y, words, look)


def standing_state(pen: Pen, line: Length, foot: Length, kept: float, cells: int) -> None:
    """A state that flows down to `foot`, beside it the gradient's way back, also of a GRU."""
    pen.back([(332, foot), (332, 54)])
    pen.text(346, foot / 2 + 29, "gradient: the way back", "gradient f s b", -90)
    pen.text(356, 22, f"after {cells} cells", "gradient f s e")
    pen.text(356, 40, f"{two(kept**cells)} is left", "gradient f s e")
    pen.line([(line, 16), (line, foot - 16)], "state k thick", "")
    pen.line([(line, foot - 18), (line, foot)], "state k")


def tall(s: Step) -> Pen:
    pen = Pen(360, 470)
    line, bus = 240, 30
    standing_state(pen, line, 462, s.forget, 50)
    pen.line([(bus, 44), (bus, 386)], "muted k", "")
    for y, end in ((110, 211), (186, 134), (240, 134), (386, 134)):
        pen.line([(bus, y), (end, y)], "muted k", "f" if y == 110 else "")
    pen.line([(134, 186), (160, 186), (160, 224)])
    pen.line([(134, 240), (228, 240)])
    pen.line([(line, 318), (158, 318), (158, 456)], "output k")
    upright(pen, s, line)
    return pen


def upright(pen: Pen, s: Step, line: Length) -> None:
    """What stands on the lines of the tall layout, and every number."""
    gate(pen, line, 110, s.forget, (46, 22))
    gate(pen, 160, 240, s.take, (22, 30))
    gate(pen, 158, 386, s.reveal, (46, 22))
    pen.plus(line, 240, 11)
    pen.dot(line, 318, "output f", 4)
    squash(pen, 190, 318, "tanh")
    for y, words, letter in ((110, "σ", "f"), (186, "σ", "i"), (240, "tanh", "c"), (386, "σ", "o")):
        squash(pen, 78, y, words)
        pen.text(78, y + 30, f"W_{letter} U_{letter}", "m")
    for x, y, words, look in (
        (228, 30, "c_{t−1}", "m e"),
        (228, 48, f"= {two(s.before)}", "s e"),
        (108, 100, f"forget × {two(s.forget)}", "s l"),
        (268, 114, f"× {two(s.forget)}", "gradient f b l"),
        (252, 180, two(s.kept), "s b l"),
        (108, 174, f"input × {two(s.take)}", "s l"),
        (122, 262, two(s.candidate), "s b"),
        (198, 232, two(s.added), "s b"),
        (268, 245, "× 1", "gradient f b l"),
        (252, 290, two(s.after), "s b l"),
        (166, 350, two(s.shown), "s b l"),
        (188, 391, f"× {two(s.reveal)}", "s l"),
        (150, 436, "h_t", "output f m e"),
        (150, 456, f"= {two(s.h)}", "output f s e"),
        (228, 456, "c_t", "m e"),
        (8, 20, "x_t", "m l"),
        (30, 20, "and", "s muted f l"),
        (58, 20, "h_{t−1}", "output f m l"),
    ):
        pen.text(x, y, words, look)
