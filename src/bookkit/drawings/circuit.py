"""How two layers copy: the induction circuit, with the weights of a trained model."""

from collections.abc import Mapping, Sequence

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

FIRST, AGAIN = 2, 7  # the columns of the token that is copied, and of the one that asks


def induction_circuit(
    tokens: Sequence[str],
    note: float,
    look: float,
    chance: float,
    costs: Mapping[str, float] | None = None,
) -> Drawing:
    """Five tokens of a name, a gap, and the name's first two again: what comes next?

    `tokens` are eight, of which the second and the last are equal. `note` is the weight of a
    previous-token head from the third to the second, `look` that of the induction head from the
    last to the third, `chance` the probability of the third after the last. `costs` says by how
    many nats the loss rises if the induction head's queries, keys or values know nothing of the
    notes. Olsson et al. 2022.
    """
    if len(tokens) != 8 or tokens[1] != tokens[7]:
        raise ValueError(f"eight tokens fit, the second as the last; got {', '.join(tokens)}")
    costs = dict(costs or {})
    if costs and set(costs) != {"queries", "keys", "values"}:
        raise ValueError(f"costs of queries, keys and values fit; got {', '.join(costs)}")
    again, copied = tokens[AGAIN], tokens[FIRST]
    cut = "".join(
        f" Without the notes in its {name}, the loss rises by {printed(cost)} nats."
        for name, cost in costs.items()
    )
    desc = (
        f"A row of tokens: {' '.join(tokens)}. Below it a row of notes: each position has noted, "
        f"with weight {printed(note)} where “{copied}” follows “{again}”, which token stood before "
        f"it. Below that the induction head. Its query comes from the last “{again}”, its key from "
        f"the note “after {again}” under “{copied}”; they match, with weight {printed(look)}. Its "
        f"value is “{copied}” itself, which gets the probability {printed(chance)}.{cut}"
    )
    numbers = (note, look, chance)
    wide, tall = (circuit(Pen(width, 346), tokens, numbers, costs) for width in (720, 360))
    return Drawing(wide, tall, "The induction circuit", desc)


def circuit(
    pen: Pen, tokens: Sequence[str], numbers: Sequence[float], costs: Mapping[str, float]
) -> Pen:
    """One layout: what is written fits in either."""
    step = pen.width / 8
    at = [step * (n + 0.5) for n in range(8)]
    size = (step - 8, 28)
    with pen.step(0):
        row_of_tokens(pen, at, size, tokens)
    with pen.step(1):
        notes(pen, at, size, tokens, numbers[0])
    with pen.step(2):
        head(pen, at, tokens, numbers)
    if costs:
        unit = " nats" if pen.width > 500 else ""
        key, query = at[FIRST] + 9, at[AGAIN] + step / 2 - 12
        pen.text(key, 166, f"cut: {sign(costs['keys'])}{unit}", "s b l")
        pen.text(query, 166, f"cut: {sign(costs['queries'])}{unit}", "s b e")
        pen.text(key, 264, f"cut: {sign(costs['values'])}{unit}", "s b l")
    return pen


def sign(cost: float) -> str:
    words = printed(cost)
    return words if words.startswith("−") or words == "0" else f"+{words}"


def row_of_tokens(pen: Pen, at: Sequence[Length], size: Point, tokens: Sequence[str]) -> None:
    """The text; the name's two halves are marked."""
    for n, token in enumerate(tokens):
        look = {1: "query edge", 7: "query edge", 2: "value edge"}.get(n, "box")
        pen.box(at[n] - size[0] / 2, 8, size, look)
        pen.text(at[n], 27, token, "b" if n in (1, 2, 7) else "")


def notes(
    pen: Pen, at: Sequence[Length], size: Point, tokens: Sequence[str], weight: float
) -> None:
    """What each position has noted about the one before it."""
    for n in range(1, 8):
        if "…" in tokens[n - 1 : n + 1]:
            continue
        marked = n == FIRST
        pen.line([(at[n - 1], 38), (at[n], 96)], "key k" if marked else "key k thin", "", 0)
        pen.box(at[n] - size[0] / 2, 98, size, "key edge" if marked else "box")
        pen.text(at[n], 117, f"←{tokens[n - 1]}", "key f b" if marked else "s")
    here = at[1] + (at[2] - at[1]) * (80 - 38) / 58 + 8  # beside the line, where there is room
    pen.text(here, 80, printed(weight), "key f b l")
    for line, words in enumerate(("layers 1, 2:", "what stood", "before me")):
        pen.text((at[5] + at[6]) / 2, 108 + 15 * line, words, "s")


def head(pen: Pen, at: Sequence[Length], tokens: Sequence[str], numbers: Sequence[float]) -> None:
    """The induction head: query, key and value meet, and the value goes on."""
    _, look, chance = numbers
    middle, top = (at[FIRST] + at[AGAIN]) / 2, 186
    pen.box(middle - 56, top, (112, 46), "weight edge", 8)
    pen.text(middle, top + 19, "head 3.3", "weight f b")
    pen.text(middle, top + 37, f"weight {printed(look)}", "s")
    edge = at[AGAIN] + (at[1] - at[0]) / 2 - 2
    ask = [(edge - 8, 38), (edge - 8, 88), (edge, 98), (edge, top + 14), (middle + 56, top + 14)]
    pen.line(ask, "query k")
    pen.line([(at[FIRST], 128), (at[FIRST], top + 14), (middle - 56, top + 14)], "key k")
    left = at[FIRST] - (at[1] - at[0]) / 2 + 1
    way = [(left + 6, 38), (left + 6, 90), (left - 1, 98), (left - 1, 246)]
    pen.line([*way, (middle, 246), (middle, 290)], "value k", "f", 7)
    pen.line([(middle, top + 46), (middle, 246)], "weight k", "")
    if pen.width > 500:
        pen.text(middle - 66, top + 8, f"“after {tokens[1]}”", "key f s e")
    pen.text(middle + 66, top + 8, f"“{tokens[7]}”?", "query f s l")
    pen.text(middle + 10, 268, f"“{tokens[FIRST]}”", "value f s l")
    pen.box(middle - 40, 292, (80, 30), "output edge", 6)
    pen.text(middle, 312, f"{tokens[FIRST]} {printed(chance)}", "output f b")
    pen.text(middle, 340, "what comes next", "s")
