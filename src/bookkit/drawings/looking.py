"""Attention by hand: two queries over the same states, and three ways to score a pair."""

from collections.abc import Sequence

import torch

from attnbook.attention import MultiplicativeScores, dot_scores
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed
from bookkit.drawings.translating import pair
from bookkit.experiments.on_paper import READS, STATES, Step, score

CELL = (34, 24)


def two_looks(first: Step, second: Step) -> Drawing:
    """The same states, two queries: sums, scores, weights, context, new state, word.

    Both steps need scores, so a decoder with attention made them. Bahdanau et al. 2015, section
    3.1, with the score of `on_paper`.
    """
    if first.weights is None or second.weights is None:
        raise ValueError("both steps are of a decoder with attention; one has no weights")
    desc = f"Two looks at the same states. {told(first)} {told(second)}"
    wide, tall = Pen(720, 246), Pen(360, 510)
    for pen, places in ((wide, ((0, 0), (368, 0))), (tall, ((4, 0), (4, 264)))):
        look(pen, "first", first, places[0])
        look(pen, "second", second, places[1])
    return Drawing(wide, tall, "Two queries, the same keys, two maps", desc)


def told(step: Step) -> str:
    """A look as one would say it on the telephone."""
    assert step.scores is not None and step.weights is not None
    rows = ", ".join(
        f"{word} {printed(e)} and {printed(a)}"
        for word, e, a in zip(READS, step.scores.tolist(), step.weights.tolist(), strict=True)
    )
    return (
        f"After {step.read} the query is {pair(step.query.tolist())}; scores and weights are "
        f"{rows}; the context is {pair(step.context.tolist())}, the new state "
        f"{pair(step.state.tolist())}, the word {step.said}."
    )


def look(pen: Pen, name: str, step: Step, place: Point) -> None:
    """One query above, a row for each state, and below what comes of it."""
    left, top = place
    assert step.scores is not None and step.weights is not None
    pen.text(left + 44, top + 28, f"after {step.read}", "s b")
    pen.text(left + 44, top + 44, "query s", "query f s")
    pen.cells(f"{name} query", (left + 108, top + 20), [step.query.tolist()], "query", CELL, (0, 4))
    heads = (("keys h", 82, "key"), ("s + h", 164, "ink"), ("score", 232, "ink"))
    for words, x, role in (*heads, ("weight", 300, "weight")):
        pen.text(left + x, top + 66, words, f"{role} f s")
    for n, (word, h) in enumerate(zip(READS, STATES, strict=True)):
        y = top + 74 + 28 * n
        pen.text(left + 40, y + 16, word, "s e")
        pen.cells(f"{name} h{n}", (left + 48, y), [h], "key", CELL, (0, 4))
        both = [[a + b for a, b in zip(step.query.tolist(), h, strict=True)]]
        pen.cells(f"{name} sum{n}", (left + 130, y), both, "ink", CELL, (0, 4))
        pen.cells(f"{name} score{n}", (left + 212, y), [[step.scores[n].item()]], "ink", (40, 24))
        weight = step.weights[n].item()
        pen.box(left + 262, y + 3, (max(48 * weight, 1), 18), "weight t", 2)
        pen.text(left + 268 + 48 * weight, y + 16, printed(weight), "weight f s l")
    after(pen, name, step, (left, top + 174))


def after(pen: Pen, name: str, step: Step, place: Point) -> None:
    """The weighted mean, the new state and the word."""
    left, top = place
    context, state = [step.context.tolist()], [step.state.tolist()]
    pen.text(left + 82, top + 10, "context c", "output f s")
    pen.cells(f"{name} context", (left + 48, top + 18), context, "output", CELL, (0, 4))
    pen.line([(left + 120, top + 30), (left + 140, top + 30)], "output k")
    pen.text(left + 180, top + 10, "new state", "query f s")
    pen.cells(f"{name} state", (left + 146, top + 18), state, "query", CELL, (0, 4))
    pen.line([(left + 218, top + 30), (left + 238, top + 30)], "output k")
    p = max(step.p.tolist())
    pen.text(left + 244, top + 34, f"{step.said} {printed(p)}", "output f b l")
    tanh = f"tanh(s + {step.read} + c)"
    pen.text(left + 180, top + 62, tanh, "s muted f")


def three_scores(query: Sequence[Length] = (-1, 1), key: Sequence[Length] = (2, 0)) -> Drawing:
    """Dot product, bilinear form and small network for one query and one key of two numbers.

    The matrix of the second is minus the identity; the network is that of `on_paper`. Luong et al.
    2015, section 3.1.
    """
    if len(query) != 2 or len(key) != 2:
        raise ValueError(f"a query and a key of two numbers fit; got {len(query)} and {len(key)}")
    s, h = torch.tensor([[*map(float, query)]]), torch.tensor([[*map(float, key)]])
    bilinear = MultiplicativeScores(2, 2).float()
    bilinear.to_query.weight.data = -torch.eye(2, dtype=torch.float)
    s, h = s.float(), h.float()
    with torch.no_grad():
        found = [f(s, h).item() for f in (dot_scores, bilinear, score())]
    desc = (
        f"The query {pair(query)} and the key {pair(key)}, scored in three ways. Dot product: "
        f"{printed(found[0])}, no parameters. General, with minus the identity between them: "
        f"{printed(found[1])}. Additive, the sum {pair(sum_of(query, key))} through tanh and then "
        f"times (2, 2): {printed(found[2])}."
    )
    wide, tall = Pen(720, 160), Pen(360, 474)
    for pen, places in (
        (wide, ((0, 0), (202, 0), (452, 0))),
        (tall, ((70, 0), (50, 156), (50, 314))),
    ):
        for n, (draw, place) in enumerate(zip((dot, general, additive), places, strict=True)):
            draw(pen, query, key, found[n], place)
    return Drawing(wide, tall, "Three scores for one query and one key", desc)


def sum_of(a: Sequence[Length], b: Sequence[Length]) -> list[Length]:
    return [x + y for x, y in zip(a, b, strict=True)]


def upright(pen: Pen, name: str, place: Point, numbers: Sequence[Length], role: str) -> None:
    pen.cells(name, place, [[x] for x in numbers], role, CELL, (0, 4))


def dot(pen: Pen, query: Sequence, key: Sequence, found: float, place: Point) -> None:
    """A row times a column."""
    left, top = place
    pen.text(left + 100, top + 18, "dot product", "b")
    pen.cells("dot s", (left + 16, top + 64), [query], "query", CELL, (0, 4))
    upright(pen, "dot h", (left + 94, top + 52), key, "key")
    result(pen, "dot", (left + 136, top + 64), found)
    pen.text(left + 50, top + 56, "s", "query m f")
    pen.text(left + 111, top + 44, "h", "key m f")
    pen.text(left + 100, top + 128, "nothing to learn,", "s muted f")
    pen.text(left + 100, top + 146, "equal widths", "s muted f")


def general(pen: Pen, query: Sequence, key: Sequence, found: float, place: Point) -> None:
    """A matrix stands between them."""
    left, top = place
    pen.text(left + 126, top + 18, "general (bilinear)", "b")
    pen.cells("general s", (left + 4, top + 64), [query], "query", CELL, (0, 4))
    pen.cells("general W", (left + 78, top + 52), [[-1, 0], [0, -1]], "ink", CELL, (0, 4))
    upright(pen, "general h", (left + 152, top + 52), key, "key")
    result(pen, "general", (left + 192, top + 64), found)
    pen.text(left + 38, top + 56, "s", "query m f")
    pen.text(left + 112, top + 44, "W", "m")
    pen.text(left + 169, top + 44, "h", "key m f")
    pen.text(left + 126, top + 128, "one matrix, D · C numbers:", "s muted f")
    pen.text(left + 126, top + 146, "any pair of directions", "s muted f")


def additive(pen: Pen, query: Sequence, key: Sequence, found: float, place: Point) -> None:
    """A network with one hidden layer sees both."""
    left, top = place
    pen.text(left + 134, top + 18, "additive (MLP)", "b")
    upright(pen, "additive s", (left + 2, top + 52), query, "query")
    pen.text(left + 45, top + 80, "+", "h")
    upright(pen, "additive h", (left + 54, top + 52), key, "key")
    pen.text(left + 109, top + 72, "tanh", "s")
    pen.line([(left + 92, top + 78), (left + 126, top + 78)], "muted k")
    upright(pen, "additive hidden", (left + 132, top + 52), hidden(query, key), "ink")
    pen.text(left + 188, top + 80, "· (2, 2)", "s")
    result(pen, "additive", (left + 218, top + 64), found)
    for x, words, role in ((19, "Ws", "query "), (71, "Uh", "key "), (149, "hidden", "")):
        pen.text(left + x, top + 44, words, f"{role}{'s' if x > 100 else 'm'} {role and 'f'}")
    pen.text(left + 134, top + 128, "two matrices and v,", "s muted f")
    pen.text(left + 134, top + 146, "A · (D + C + 1) numbers", "s muted f")


def hidden(query: Sequence[Length], key: Sequence[Length]) -> list[float]:
    return torch.tensor(sum_of(query, key), dtype=torch.float).tanh().tolist()


def result(pen: Pen, name: str, place: Point, found: float) -> None:
    """The score, behind a sign of equality."""
    pen.text(place[0], place[1] + 16, "=", "h")
    pen.cells(f"{name} score", (place[0] + 8, place[1]), [[found]], "weight", (40, 24), (0, 6))
