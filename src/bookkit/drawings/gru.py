"""One step of a GRU with its numbers: one state as a stream, one gate with two openings."""

import torch
from torch import Tensor

from attnbook.recurrent import GRUCell
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.lstm import gate, lying_state, risers, squash, standing_state, two
from bookkit.drawings.pen import Length, Pen


class Step:
    """What one step of a cell of width 1 computes."""

    def __init__(self, cell: GRUCell, x: Tensor, h: Tensor):
        with torch.no_grad():
            of_x, of_h = cell.from_input(x).flatten(), cell.from_state(h).flatten()
            (after,) = cell(x, (h,))
        self.reset, self.keep = (float(g.sigmoid()) for g in (of_x + of_h)[:2])
        self.seen = self.reset * float(of_h[2])
        self.candidate = float(torch.tanh(of_x[2] + self.seen))
        self.before, self.new, self.after = float(h), 1 - self.keep, float(after)
        self.kept, self.added = self.keep * self.before, self.new * self.candidate


def gru_cell(cell: GRUCell, x: Tensor, h: Tensor) -> Drawing:
    """One step of a GRU: what its update gate does not keep of the state, it takes anew.

    `cell` has width 1, `x` shape (1, in), `h` (1, 1). Gates are filled as far as they are open.
    Cho et al. 2014, with the reset gate behind the matrix, as in torch.
    """
    if cell.width != 1 or h.shape != (1, 1):
        raise ValueError(f"a cell of width 1 fits; got width {cell.width}, h {tuple(h.shape)}")
    step = Step(cell, x, h)
    desc = (
        f"The state runs through as a thick line. It comes in as {two(step.before)}, the update "
        f"gate multiplies it by {two(step.keep)}, so {two(step.kept)}. The same gate opens for the "
        f"candidate, {two(step.candidate)}, by what is left to 1, {two(step.new)}; "
        f"{two(step.added)} is added, so {two(step.after)} goes on. The candidate is a tanh of "
        f"the input and of the old state's part, which the reset gate has multiplied by "
        f"{two(step.reset)}. A dashed line leads a gradient straight back along the state, times "
        f"{two(step.keep)} at the update gate; after thirty such cells {two(step.keep**30)} of it "
        "is left on this path."
    )
    return Drawing(wide(step), tall(step), "One step of a GRU", desc)


def wide(s: Step) -> Pen:
    pen = Pen(720, 352)
    line, feet, floor = 122, 296, 342
    lying_state(pen, line, s.keep, "state", 30)
    risers(pen, (176, 396, 620), floor, feet, line)
    pen.line([(176, 196), (371, 196)])
    pen.line([(396, feet + 14), (396, 267)])
    pen.line([(396, 240), (396, line + 13)])
    pen.line([(512, floor), (512, 252), (424, 252)])
    pen.line([(600, feet), (537, feet)])
    lying(pen, s, line, feet)
    return pen


def lying(pen: Pen, s: Step, line: Length, feet: Length) -> None:
    """What stands on the lines of the wide layout, and every number."""
    gate(pen, 176, line, s.keep, (22, 46))
    gate(pen, 396, 196, s.new, (46, 22))
    gate(pen, 512, feet, s.reset, (46, 22))
    pen.plus(396, line, 11)
    squash(pen, 396, 252, "tanh")
    squash(pen, 176, feet, "σ")
    squash(pen, 620, feet, "σ")
    for x, y, words, look in (
        (16, line + 28, "h_{t−1}", "m l"),
        (64, line + 28, f"= {two(s.before)}", "s l"),
        (190, line + 34, f"update gate × {two(s.keep)}", "s l"),
        (286, line - 12, two(s.kept), "s b"),
        (488, line - 12, two(s.after), "s b"),
        (704, line + 26, "h_t", "m e"),
        (406, 172, two(s.added), "s b l"),
        (427, 201, f"× {two(s.new)}, the rest to 1", "s l"),
        (406, 230, f"{two(s.candidate)} candidate", "s l"),
        (468, 272, two(s.seen), "s b"),
        (524, 272, f"reset gate × {two(s.reset)}", "s l"),
        (404, 332, "W_h x_t", "m l"),
        (520, 332, "U_h h_{t−1}", "m l"),
        (184, 332, "W_z U_z", "m l"),
        (628, 332, "W_r U_r", "m l"),
        (16, 332, "x_t", "m l"),
        (40, 332, "and", "s muted f l"),
        (68, 332, "h_{t−1}", "m l"),
    ):
        pen.text(x, y, words, look)


def tall(s: Step) -> Pen:
    pen = Pen(360, 424)
    line, bus = 240, 30
    standing_state(pen, line, 414, s.keep, 30)
    pen.line([(bus, 44), (bus, 386), (172, 386), (172, 347)], "muted k", "")
    pen.line([(bus, 110), (211, 110)])
    pen.line([(134, 110), (134, 182), (160, 182), (160, 224)])
    pen.line([(bus, 240), (228, 240)])
    pen.line([(bus, 370), (78, 370), (78, 255)])
    pen.line([(152, 334), (103, 334)])
    upright(pen, s, line)
    return pen


def upright(pen: Pen, s: Step, line: Length) -> None:
    """What stands on the lines of the tall layout, and every number."""
    gate(pen, line, 110, s.keep, (46, 22))
    gate(pen, 160, 240, s.new, (22, 30))
    gate(pen, 78, 334, s.reset, (46, 22))
    pen.plus(line, 240, 11)
    squash(pen, 78, 110, "σ")
    squash(pen, 78, 240, "tanh")
    squash(pen, 172, 334, "σ")
    for x, y, words, look in (
        (228, 30, "h_{t−1}", "m e"),
        (228, 48, f"= {two(s.before)}", "s e"),
        (78, 140, "W_z U_z", "m"),
        (108, 96, f"update × {two(s.keep)}", "s l"),
        (268, 114, f"× {two(s.keep)}", "gradient f b l"),
        (252, 180, two(s.kept), "s b l"),
        (168, 206, f"× {two(s.new)}", "s l"),
        (78, 220, "W_h x_t", "m"),
        (128, 262, two(s.candidate), "s b"),
        (200, 232, two(s.added), "s b"),
        (268, 245, "× 1", "gradient f b l"),
        (86, 290, two(s.seen), "s b l"),
        (108, 316, f"reset × {two(s.reset)}", "s l"),
        (84, 378, "U_h h_{t−1}", "m l"),
        (180, 378, "W_r U_r", "m l"),
        (252, 320, two(s.after), "s b l"),
        (228, 412, "h_t", "m e"),
        (8, 20, "x_t", "m l"),
        (30, 20, "and", "s muted f l"),
        (58, 20, "h_{t−1}", "m l"),
    ):
        pen.text(x, y, words, look)
