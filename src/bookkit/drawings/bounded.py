"""The scores of one query as keys at their true lengths and angles, without and with QK-norm."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

REACH = 166  # of the longest key without a norm, and of the bound with one
OPEN = math.radians(118)  # how far the circles go round
Pair = tuple[Float[Tensor, " D"], Float[Tensor, "T D"]]


class Dial:
    """A query that points right and its keys, in units of the score.

    A key is as long as its score would be if it pointed where the query does, and stands at its
    angle to the query: so its score is how far right it ends.
    """

    def __init__(self, q: Tensor, k: Tensor, digits: int):
        self.digits = digits
        self.scores = (k @ q / len(q) ** 0.5).tolist()
        self.lengths = (k.norm(dim=-1) * q.norm() / len(q) ** 0.5).tolist()
        places = range(len(self.scores))
        self.least, self.best = (f(places, key=lambda j: self.scores[j]) for f in (min, max))
        self.weight = printed(torch.tensor(self.scores).softmax(-1)[self.best].item())
        self.words = [printed(score, digits) for score in self.scores]

    def tip(self, j: int, centre: Point, scale: Length) -> Point:
        across = math.sqrt(max(self.lengths[j] ** 2 - self.scores[j] ** 2, 0))
        return centre[0] + self.scores[j] * scale, centre[1] - across * scale


def bounded_scores(plain: Pair, normed: Pair, gain: float, tokens: list[str]) -> Drawing:
    """One query and its keys before and after their norm, whose largest gain is `gain`.

    Each pair is a query (D,) and keys (T, D), rotated; `tokens` are the keys', the last one the
    query's, too. Henry et al. 2020.
    """
    before, after = Dial(*plain, digits=0), Dial(*normed, digits=1)
    bound = gain**2 * math.sqrt(len(normed[0]))
    if max(after.lengths) > bound or not len(before.scores) == len(after.scores) == len(tokens):
        raise ValueError(
            f"keys of {len(tokens)} tokens within the bound of {bound:.1f} fit; got "
            f"{len(before.scores)} and {len(after.scores)}, the longest {max(after.lengths):.1f}"
        )
    desc = (
        f"Twice the query of “{tokens[-1].strip()}”, an arrow to the right, and the {len(tokens)} "
        "keys that it may look at, each at its true angle and length: how far right a key ends is "
        f"its score. Without the norm keys differ in length, scores go from "
        f"{before.words[before.least]} to {before.words[before.best]}, and softmax gives the "
        f"largest a weight of {before.weight}. With the norm all keys end near one circle, scores "
        f"go from {after.words[after.least]} to {after.words[after.best]}, and the largest weight "
        f"is {after.weight}; whatever the weights, no key could leave a circle of radius "
        f"{printed(bound, 1)}. At the scale of the first dial that circle is a small dot."
    )
    wide, tall = Pen(720, 262), Pen(360, 542)
    for pen, step in ((wide, (360, 0)), (tall, (0, 280))):
        first, second = (118, 196), (118 + step[0], 196 + step[1])
        scales = REACH / max(before.lengths), REACH / bound
        limit(pen, first, second, bound * scales[0], f"bound {printed(bound, 1)}")
        for title, dial, centre, scale in (
            ("without a norm", before, first, scales[0]),
            ("with QK-norm", after, second, scales[1]),
        ):
            panel(pen, centre, title, dial, scale, tokens)
        circle(pen, second, sum(after.lengths) / len(tokens) * scales[1], "hair")
    return Drawing(wide, tall, "Scores of one query without and with a norm", desc)


def circle(pen: Pen, centre: Point, radius: Length, look: str) -> None:
    """The upper part of a circle, from the query round."""
    (x, y), r = centre, f"{radius:.0f}"
    end = f"{x + radius * math.cos(OPEN):.0f} {y - radius * math.sin(OPEN):.0f}"
    pen.mark("path", look, d=f"M{x + radius:.0f} {y}A{r} {r} 0 0 0 {end}")


def limit(pen: Pen, small: Point, large: Point, radius: Length, words: str) -> None:
    """The circle that no key leaves at the first dial's scale, and again at the second's."""
    pen.dot(*small, "ink f", radius)
    pen.text(small[0] - 14, small[1] + 4, words, "s e")
    circle(pen, large, REACH, "tie")
    pen.text(large[0] + 104, large[1] - 146, words, "s l")


def panel(pen: Pen, centre: Point, title: str, dial: Dial, scale: float, tokens: list[str]) -> None:
    """The fan of keys over the axis of the scores."""
    x, y = centre
    pen.text(x + 62, y - 180, title, "h")
    pen.line([(x, y), (x + REACH + 30, y)], "query k")
    pen.text(x + REACH + 35, y + 5, "q", "query f m l")
    for j in range(len(tokens)):
        a, b = dial.tip(j, centre, scale)
        pen.line([centre, (a, b)], "key k" if j == dial.best else "key k thin", "")
        pen.dot(a, b, "key f", 5 if j == dial.best else 3)
    a, b = dial.tip(dial.best, centre, scale)
    pen.mark("path", "tie", d=f"M{a:.0f} {b + 7:.0f}V{y}")
    pen.text(a + 9, b + 4, shown(tokens[dial.best]), "key f s l")
    a, b = dial.tip(dial.least, centre, scale)
    pen.text(a - 8, b + 4, shown(tokens[dial.least]), "key f s e")
    step = 100 if dial.digits == 0 else 5
    for tick in range(math.ceil(min(dial.scores) / step) * step, int(REACH / scale) + 1, step):
        at = x + tick * scale
        pen.mark("path", "hair", d=f"M{at:.0f} {y + 2}v5")
        pen.text(round(at), y + 20, printed(tick), "s muted f")
    words = f"largest score {dial.words[dial.best]}, its weight {dial.weight}"
    pen.text(x + 62, y + 48, words, "s b")
    pen.tables[title] = [dial.words]


def shown(token: str) -> str:
    """A token as it can be read in a drawing."""
    return "line end" if token == "\n" else token.strip()
