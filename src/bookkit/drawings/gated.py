"""A hidden layer whose values are their own switch, and one that has a gate."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

SHOWN, APART, UNIT = 8, 34, 13  # units that are drawn, their distance, and the height of 1
ROWS, ROLES = (84, 162, 246), ("value", "weight", "output")  # zero lines of the three rows


class Case:
    """One way to switch the value: its rows, each of all hidden units."""

    def __init__(self, title: str, made: str, value: Tensor, switch: Tensor, found: str):
        self.title, self.made, self.found = title, made, found
        self.rows = (value, switch, value * switch)


def gated_units(
    gate: Float[Tensor, " hidden"], value: Float[Tensor, " hidden"], token: str
) -> Drawing:
    """The first units of a hidden layer at one token, switched by ReLU and by a gate.

    `value` is x W_u, `gate` is x W_g before SiLU. Shazeer 2020, equations 3 and 6.
    """
    if len(value) < SHOWN or gate.shape != value.shape:
        raise ValueError(
            f"gate and value of at least {SHOWN} units fit; got {tuple(gate.shape)}, "
            f"{tuple(value.shape)}"
        )
    opened, on = F.silu(gate), (value > 0).to(value.dtype)
    passed, wide_open, turned = (int(x.sum()) for x in (on, opened > 0.5, opened < 0))
    own = f"of {len(value)} values {passed} pass"
    gates = f"of {len(value)} gates {wide_open} over ½, {turned} below 0"
    cases = (
        Case("ReLU: switched by its own sign", "1 or 0", value, on, own),
        Case("SwiGLU: switched by a gate", "SiLU", value, opened, gates),
    )
    first = ", ".join(
        f"{printed(u)} times {printed(g)} gives {printed(y)}"
        for u, g, y in zip(*(row[:SHOWN].tolist() for row in cases[1].rows), strict=True)
    )
    desc = (
        f"The first {SHOWN} of {len(value)} hidden units at the token “{token}”, as bars above "
        "and below a line, twice with the same values. With ReLU the switch is 1 where the value "
        f"is positive and else 0, so nothing negative passes; {passed} of all units do. With "
        f"SwiGLU the switch is the SiLU of a second vector, any number from −.28 up: {first}. Of "
        f"all gates {wide_open} stand above one half, and {turned} below 0 turn the sign."
    )
    wide, tall = Pen(720, 306), Pen(360, 632)
    for n, case in enumerate(cases):
        panel(wide, 362 * n, 0, case)
        panel(tall, 0, 326 * n, case)
    return Drawing(wide, tall, "A hidden layer with and without a gate", desc)


def panel(pen: Pen, x: Length, y: Length, case: Case) -> None:
    """Three rows of bars on the same coordinates: value times switch is what goes on."""
    left = x + 84
    pen.text(left + SHOWN * APART / 2, y + 16, case.title, "b")
    labels = (("value", "x W_u"), ("switch", case.made), ("goes on", ""))
    for n, ((name, made), row) in enumerate(zip(labels, case.rows, strict=True)):
        zero, role, first = y + ROWS[n], ROLES[n], row[:SHOWN].tolist()
        pen.text(x + 74, zero + 2 if made else zero + 4, name, f"{role} f s b e")
        if made:
            pen.text(x + 74, zero + 18, made, "s muted f e")
        if n:
            pen.text(x + 74, zero - 40, "×" if n == 1 else "=", "h muted f e")
        pen.mark("path", "hair", d=f"M{left} {zero}h{SHOWN * APART}")
        bars(pen, (left, zero), first, role)
        pen.tables[f"{case.title.split(':')[0]} {name}"] = [[printed(v) for v in first]]
    pen.text(left + SHOWN * APART / 2, y + 300, case.found, "weight f s b")


def bars(pen: Pen, place: Point, numbers: list[float], role: str) -> None:
    """Each number as a bar up or down, and its digits at the end."""
    for n, number in enumerate(numbers):
        x, height = place[0] + APART * (n + 0.5), abs(round(number, 2)) * UNIT
        up = number > 0
        if height:
            pen.box(x - 9, place[1] - (height if up else 0), (18, height), f"{role} f", 1)
        pen.text(x, place[1] + (-height - 5 if up else height + 14), printed(number), "n")
