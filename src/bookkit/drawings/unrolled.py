"""A recurrent network unrolled over three steps, with its states and what a gradient meets."""

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.recurrent import RNNCell
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, printed

CELL = (28, 22)


class Run:
    """Three steps: inputs, states, and the factors of the way back."""

    def __init__(self, cell: RNNCell, x: Tensor):
        with torch.no_grad():
            states, U = [cell.start(1)], cell.from_state.weight
            for x_t in x:
                states.append(cell(x_t[None], states[-1]))
            self.h = [state[0][0] for state in states[1:]]
            self.factors = [(1 - h**2)[:, None] * U for h in self.h]
            self.product = self.factors[2] @ self.factors[1]
        self.x = x.flatten().tolist()


def unrolled(cell: RNNCell, x: Float[Tensor, "T 1"]) -> Drawing:
    """The same two matrices at every step; a gradient that goes back two steps meets both twice.

    `cell` has width 2. Below each step its input, after it its state; along the dashed way back
    the factors diag(1 − h²) U, and their product. Elman 1990; Werbos 1990.
    """
    if tuple(x.shape) != (3, 1) or cell.width != 2:
        got = f"{tuple(x.shape)}, width {cell.width}"
        raise ValueError(f"three inputs of one number and width 2 fit; got {got}")
    run = Run(cell, x)
    h = "; ".join(" and ".join(printed(v) for v in state.tolist()) for state in run.h)
    product = ", ".join(printed(v) for v in run.product.flatten().tolist())
    desc = (
        f"Three copies of one cell, one for each of the inputs {', '.join(map(printed, run.x))}. "
        f"The state goes through them as a thick line: {h}. Dots join the copies: their matrices "
        "are the same. A dashed line leads a gradient back from the third state to the first; at "
        "each cell it is multiplied by a table of two rows and two columns, and the product of "
        f"the two holds {product}."
    )
    return Drawing(wide(run), tall(run), "A recurrent network, unrolled over three steps", desc)


def square(pen: Pen, x: Length, y: Length) -> None:
    """The cell, centred on (x, y)."""
    pen.box(x - 51, y - 24, (102, 48), "state edge", 6)
    pen.text(x, y + 5, "tanh(Wx + Uh)", "s")


def wide(run: Run) -> Pen:
    pen = Pen(720, 316)
    line, places = 206, [110, 330, 550]
    pen.stream([(16, line), (700, line)])
    pen.back([(648, 52), (220, 52), (220, 80)])
    for t, x in enumerate(places):
        square(pen, x, line)
        pen.line([(x, 268), (x, line + 26)])
        pen.cells(f"x{t}", (x - 14, 270), [[run.x[t]]], "ink", CELL)
        pen.text(x - 22, 286, f"x_{t + 1}", "m e")
        pen.box(x + 82, line - 11, (56, 22), "paper", 0)
        pen.cells(f"h{t}", (x + 82, line - 11), [run.h[t].tolist()], "state", CELL)
        pen.text(x + 110, line - 20, f"h_{t + 1}", "m")
        if t < 2:
            pen.mark("path", "tie", d=f"M{x + 20:g} {line + 36:g}H{places[t + 1] - 20:g}")
        if t:
            pen.cells(f"factor{t}", (x - 28, 84), run.factors[t].tolist(), "gradient", CELL)
            pen.text(x, 146, "diag(1 − h²) U", "gradient f s")
    pen.cells("product", (192, 84), run.product.tolist(), "gradient", CELL)
    pen.text(220, 146, "their product", "gradient f s")
    pen.text(660, 36, "gradient: from h_3 back to h_1", "gradient f s b e")
    pen.text(220, line + 56, "the same W and U", "s muted f")
    return pen


def tall(run: Run) -> Pen:
    pen = Pen(360, 500)
    line, places = 176, [70, 216, 362]
    pen.stream([(line, 8), (line, 470)])
    pen.back([(260, 452), (260, 137), (238, 137)])
    for t, y in enumerate(places):
        square(pen, line, y)
        pen.line([(84, y), (line - 53, y)])
        pen.cells(f"x{t}", (54, y - 11), [[run.x[t]]], "ink", CELL)
        pen.text(46, y + 5, f"x_{t + 1}", "m e")
        pen.box(line - 28, y + 56, (56, 22), "paper", 0)
        pen.cells(f"h{t}", (line - 28, y + 56), [run.h[t].tolist()], "state", CELL)
        pen.text(line - 38, y + 72, f"h_{t + 1}", "m e")
        if t < 2:
            pen.mark("path", "tie", d=f"M108 {y + 16:g}V{places[t + 1] - 16:g}")
        if t:
            pen.cells(f"factor{t}", (282, y - 22), run.factors[t].tolist(), "gradient", CELL)
    pen.text(98, 148, "same W, U", "s muted f e")
    pen.text(310, 252, "diag(1 − h²) U", "gradient f s")
    pen.cells("product", (282, 115), run.product.tolist(), "gradient", CELL)
    pen.text(310, 105, "their product", "gradient f s")
    pen.text(356, 488, "gradient: from h_3 back to h_1", "gradient f s b e")
    return pen
