"""What averages of averages do to two tokens, without and with a stream."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, printed


def averages(x: Float[Tensor, "2"], weights: Float[Tensor, "2 2"], layers: int = 4) -> Drawing:
    """Two numbers through layers that average; beside it the same averages added to a stream.

    Both panels have one scale: the difference as a share of the mean, which is what the next
    layer's norm would see.
    """
    if layers < 1 or layers > 5:
        raise ValueError(f"1 to 5 layers fit; got {layers}")
    alone, added = [x], [x]
    for _ in range(layers):
        alone.append(weights @ alone[-1])
        added.append(added[-1] + weights @ added[-1])
    panels = [[pair.tolist() for pair in pairs] for pairs in (alone, added)]
    shares = [[abs(a - b) / (a + b) * 2 for a, b in pairs] for pairs in panels]
    lasts = [f"{a:g} and {b:g}" for a, b in (pairs[-1] for pairs in panels)]
    desc = (
        f"Two numbers, {x[0]:g} and {x[1]:g}, run from left to right through {layers} layers that "
        "average them. Left, each layer replaces the numbers by the averages, and they meet: they "
        f"end as {lasts[0]}. Right, each layer adds the averages to the numbers, and they stay "
        f"apart: {lasts[1]}. Heights are shares of the mean; the difference shrinks to "
        f"{shares[0][-1]:.2f} of the mean on the left and to {shares[1][-1]:.2f} on the right."
    )
    wide, tall = Pen(720, 270), Pen(360, 556)
    for pen, second, y in ((wide, 372, 0), (tall, 0, 286)):
        panel(pen, 0, 0, panels[0], "averages replace", weights)
        panel(pen, second, y, panels[1], "averages are added", weights)
    return Drawing(wide, tall, "Averages of averages, without and with a stream", desc)


def panel(
    pen: Pen,
    x: Length,
    y: Length,
    pairs: Sequence[Sequence[float]],
    title: str,
    weights: Tensor,
) -> None:
    """Two numbers, layer by layer; who takes how much from whom as the width of a line."""
    added = title.endswith("added")
    pen.text(x + 8, y + 16, title, f"{'state' if added else 'weight'} f h l")
    step = 300 / (len(pairs) - 1)
    middle = y + 132

    def place(layer: int, token: int) -> tuple[Length, Length]:
        pair = pairs[layer]
        share = pair[token] / (pair[0] + pair[1]) * 2 - 1
        return x + 24 + layer * step, middle - 84 * share

    for layer in range(len(pairs) - 1):
        for i in (0, 1):
            if added:
                pen.stream([place(layer, i), place(layer + 1, i)])
            for j in (0, 1):
                pen.share(place(layer, j), place(layer + 1, i), float(weights[i, j]))
    for layer, pair in enumerate(pairs):
        for token, number in enumerate(pair):
            a, b = place(layer, token)
            pen.dot(a, b, "ring", 5)
            up = number == max(pair)
            pen.text(a, b + (-12 if up else 21), printed(number, 1), "s b")
        pen.text(x + 24 + layer * step, y + 262, str(layer), "s muted f")
    pen.text(x + 174, y + 262, "" if len(pairs) % 2 else "layers", "s muted f")
