"""Beam search as a tree: the likeliest first word does not begin the likeliest sentence."""

from collections.abc import Mapping

from attnbook.drawings.drawing import Drawing
from attnbook.drawings.pen import Pen, printed

Tree = Mapping[str, tuple[float, Mapping[str, float]]]
CASE: Tree = {
    "le": (0.6, {"chien": 0.25, "chat": 0.25, "livre": 0.25, "cheval": 0.25}),
    "la": (0.4, {"voiture": 0.9, "table": 0.1}),
}


def beams(tree: Tree = CASE, width: int = 2) -> Drawing:
    """Two words from `<s>` on, with their probabilities and products; `width` are kept.

    Lines are as wide as the probabilities. Greedy decoding's choice is said, the best is bold.
    """
    leaves = [
        (first, word, p, p * q) for first, (p, then) in tree.items() for word, q in then.items()
    ]
    if len(leaves) > 8 or not 1 <= width <= len(leaves):
        raise ValueError(f"up to 8 pairs of words, 1 to as many beams; got {len(leaves)}, {width}")
    best = sorted(leaves, key=lambda leaf: -leaf[3])[:width]
    first = max(tree, key=lambda word: tree[word][0])
    greedy = max((leaf for leaf in leaves if leaf[0] == first), key=lambda leaf: leaf[3])
    desc = (
        f"A tree of two words. {'; '.join(said(word, *tree[word]) for word in tree)}. Greedy "
        f"decoding takes {greedy[0]} first and ends with {greedy[0]} {greedy[1]}, together "
        f"{printed(greedy[3])}. With {width} beams the best pair is found: {best[0][0]} "
        f"{best[0][1]}, together {printed(best[0][3])}."
    )
    height = 30 * len(leaves) + 34
    wide, tall = Pen(720, height), Pen(360, height)
    for pen, columns in ((wide, (90, 250, 470, 620)), (tall, (28, 100, 214, 316))):
        draw(pen, columns, tree, (greedy, best))
    return Drawing(wide, tall, "Beam search as a tree of two words", desc)


def said(word: str, p: float, then: Mapping[str, float]) -> str:
    rest = ", ".join(f"{next_word} {printed(q)}" for next_word, q in then.items())
    return f"{word} has {printed(p)} and is followed by {rest}"


def draw(pen: Pen, columns: tuple, tree: Tree, chosen: tuple) -> None:
    """Three columns of words, lines between them, and the products at the right."""
    (greedy, best), (start, one, two, end) = chosen, columns
    pen.text(end, 20, "together", "s")
    rows: list[list[str]] = []
    middle = 30 * sum(len(then) for _, then in tree.values()) / 2 + 34
    pen.text(start, middle + 4, "<s>", "b s")
    for word, (p, then) in tree.items():
        y = 30 * (len(rows) + len(then) / 2) + 34
        pen.share((start + 18, middle), (one - 26, y), p, "output")
        pen.text(one, y + 4, f"{word} {printed(p)}", "b s")
        for next_word, q in then.items():
            here = 30 * len(rows) + 49
            leaf = (word, next_word, p, p * q)
            look = "output f b" if leaf == best[0] else "s"
            pen.share((one + 28, y), (two - 50, here), q, "output")
            pen.text(two, here + 4, f"{next_word} {printed(q)}", look)
            note = " best" if leaf == best[0] else " greedy" if leaf == greedy else ""
            pen.text(end, here + 4, printed(p * q) + note, look)
            rows.append([printed(p * q)])
    pen.tables["together"] = rows
