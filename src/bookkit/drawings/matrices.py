"""Attention as tables: queries, keys, scores, weights, values and output, every number of them."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnbook.attention import attend, scaled_dot_scores
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

SIZE = (26, 24)  # of a cell
AboutCell = Callable[[int, int], dict[str, str]]  # row, column → its part, on, says
AboutRow = Callable[[int, str], dict[str, str]]  # a word's number, the part's name → the same


class Tables:
    """The six tables of an attention, the words beside them, and what each number is made of."""

    def __init__(
        self,
        q: Float[Tensor, "Tq D"],
        k: Float[Tensor, "Tk D"],
        v: Float[Tensor, "Tk Dv"],
        names: tuple[list[str], list[str], list[str]],
        mask: Bool[Tensor, "Tq Tk"] | None,
    ):
        self.queries, self.words, self.features = names
        self.mask = torch.ones(len(q), len(k), dtype=torch.bool) if mask is None else mask
        output, weights = attend(q, k, v, self.mask)
        self.q, self.k, self.v = listed(q), listed(k), listed(v)
        self.s, self.a, self.y = listed(scaled_dot_scores(q, k)), listed(weights), listed(output)
        self.root = math.sqrt(q.shape[-1])

    def score(self, i: int, j: int) -> str:
        """The dot product, term by term."""
        terms = zip(self.q[i], self.k[j], strict=True)
        total = " + ".join(f"{short(a)} · {short(b)}" for a, b in terms)
        return f"({total}) / {short(self.root)} = {printed(self.s[i][j])}"

    def weight(self, i: int, j: int) -> str:
        """e to the score, over the sum of the row."""
        if not self.mask[i][j]:
            return "masked: no weight"
        powers = [math.exp(s) for s, seen in zip(self.s[i], self.mask[i], strict=True) if seen]
        up, down = (f"{x:.2f}" for x in (math.exp(self.s[i][j]), sum(powers)))
        score, weight = printed(self.s[i][j]), printed(self.a[i][j])
        return f"e^{{{score}}} / row’s sum = {up} / {down} = {weight}"

    def output(self, i: int, c: int) -> str:
        """The weighted values that are not 0, the weights with a digit more than in their cells."""
        pairs = [(a, row[c]) for a, row in zip(self.a[i], self.v, strict=True)]
        terms = " + ".join(f"{short(a, 3)} · {short(x)}" for a, x in pairs if a and x)
        return f"{terms or '0'} = {printed(self.y[i][c])}"


def listed(table: Float[Tensor, "rows columns"]) -> list[list[float]]:
    return [[float(x) for x in row] for row in table.tolist()]


def short(x: Length, digits: int = 2) -> str:
    """A number in a sum: without zeros at its end."""
    words = printed(x, digits)
    return words.rstrip("0") if "." in words else words


def attention_matrices(
    q: Float[Tensor, "Tq D"],
    k: Float[Tensor, "Tk D"],
    v: Float[Tensor, "Tk Dv"],
    queries: Sequence[str],
    words: Sequence[str],
    features: Sequence[str] = (),
    mask: Bool[Tensor, "Tq Tk"] | None = None,
) -> Drawing:
    """Attention is two matrix products with a softmax between them; each number says what it is.

    `queries` names the rows of `q`, `words` those of `k` and `v`, `features` their columns.
    Pointed at, a score lights its query and its key, a weight its row of scores, an output its
    weights and values. Vaswani et al. 2017, equation 1.
    """
    check(q, k, v, queries, words, features)
    tables = Tables(q, k, v, (list(queries), list(words), list(features)), mask)
    title = "Attention as two matrix products with a softmax between them"
    return Drawing(wide(tables), tall(tables), title, telephone(tables))


def check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sequence[str],
    words: Sequence[str],
    features: Sequence[str],
) -> None:
    """Raise a ValueError unless every row has its name and the tables fit on the sheet."""
    if len(queries) != len(q) or len(words) != len(k):
        have = f"{len(queries)} queries and {len(words)} words are named"
        raise ValueError(f"{have}; there are {len(q)} and {len(k)}")
    if features and not len(features) == q.shape[-1] == v.shape[-1]:
        raise ValueError(f"{len(features)} features for widths {q.shape[-1]} and {v.shape[-1]}")
    if len(q) > 6 or len(k) > 6 or max(q.shape[-1], v.shape[-1]) > 4:
        raise ValueError(
            f"at most 6 rows and 4 columns fit; got q {tuple(q.shape)}, v {tuple(v.shape)}"
        )


def telephone(t: Tables) -> str:
    best = most(t)
    rows = f"{len(t.queries)} queries, {len(t.words)} keys and {len(t.words)} values"
    return (
        f"{rows} as tables of numbers. Each query row meets each key column in a dot product, "
        f"divided by the root of {round(t.root**2)}: the scores. The softmax of each row of "
        f"scores gives weights that sum to 1; for {t.queries[0]} the largest is that of "
        f"{t.words[best]}, {t.a[0][best]:.2f}. Each row of weights mixes the rows of the "
        "values into an output row."
    )


def wide(t: Tables) -> Pen:
    w, h = SIZE
    D, Tq, Tk = len(t.q[0]), len(t.q), len(t.k)
    left, above = 62, 40
    foot = above + max(D, Tk) * h + 12  # where the rows of the queries begin
    s = left + D * w + 12
    a = s + Tk * w + 68
    y = a + Tk * w + 54
    pen = Pen(720, foot + Tq * h + 76)
    low = foot - 12
    places = {"q": (left, foot), "k": (s, low - D * h), "s": (s, foot), "a": (a, foot)}
    places |= {"v": (y, low - Tk * h), "y": (y, foot)}
    draw(pen, t, places)
    middle = foot + Tq * h / 2
    pen.line([(s + Tk * w + 8, middle), (a - 8, middle)], "weight k")
    pen.text((s + Tk * w + a) / 2, middle - 9, "softmax", "weight f s b")
    pen.text((s + Tk * w + a) / 2, middle + 18, "each row", "s muted f")
    pen.text(s + Tk * w / 2, low - D * h - 26, "keys, transposed", "key f h")
    pen.text(y - 8, low - Tk * h - 12, "values", "value f h e")
    names(pen, t, places)
    follow(pen, t, places)
    for line, words in enumerate(("Point at a number:", "what it is made of", "lights up.")):
        pen.text(8, 22 + 17 * line, words, "muted f s l hint")
    notes(pen, t, (360, pen.height - 12))
    return pen


def tall(t: Tables) -> Pen:
    w, h = SIZE
    D, Tq, Tk = len(t.q[0]), len(t.q), len(t.k)
    left, first = 60, 54 + D * h + 12
    s = left + D * w + 12
    second = first + Tq * h + 62 + Tk * h + 30
    y = left + Tk * w + 26
    pen = Pen(360, second + Tq * h + 86)
    places = {"q": (left, first), "k": (s, 54), "s": (s, first), "a": (left, second)}
    places |= {"v": (y, second - 12 - Tk * h), "y": (y, second)}
    draw(pen, t, places)
    x, low = left + Tk * w / 2 - 30, first + Tq * h + 48
    pen.line([(s + 36, low), (s + 36, low + 18), (x, low + 18), (x, second - 8)], "weight k")
    pen.text(x - 8, (low + second) / 2 - 4, "softmax", "weight f s b e")
    pen.text(x - 8, (low + second) / 2 + 12, "each row", "s muted f e")
    pen.text(s + Tk * w / 2, 16, "keys, transposed", "key f h")
    pen.text(y + 2 * w, second - 20 - Tk * h, "values", "value f h")
    names(pen, t, places)
    follow(pen, t, places)
    pen.text(8, 16, "Touch a number.", "muted f s l hint")
    notes(pen, t, (180, pen.height - 12))
    return pen


def draw(pen: Pen, t: Tables, places: Mapping[str, Point]) -> None:
    """The six tables; each cell knows what it is made of, and what it makes."""
    word, query = about_word(t), about_query(t)
    low = math.floor(min(min(row) for row in t.a) * 10) / 10
    tables = {
        "q": (t.q, "query", lambda i, j: query(i, f"q{i}")),
        "k": ([list(row) for row in zip(*t.k, strict=True)], "key", lambda i, j: word(j, f"k{j}")),
        "v": (t.v, "value", lambda i, j: word(i, f"v{i} c{j}")),
        "s": (t.s, "ink", about_sum("s{i}{j} r{i} w{j}", "q{i} k{j}", t.score)),
        "a": (t.a, "weight", about_sum("a{i}{j} a{i} w{j}", "r{i}", t.weight)),
        "y": (t.y, "output", about_sum("y{i}{j} y{i}", "a{i} c{j}", t.output)),
    }
    for name, (numbers, role, about) in tables.items():
        scale = (low if name == "a" else 0, max(abs(x) for row in numbers for x in row) or 1)
        pen.cells(name, places[name], numbers, role, SIZE, scale, about=about)
    for i, j in (~t.mask).nonzero().tolist():
        for x, y in (places["s"], places["a"]):
            at = x + j * SIZE[0], y + i * SIZE[1]
            pen.box(*at, SIZE, "paper", 0)
            pen.hatch(*at, SIZE)


def about_sum(part: str, made_of: str, says: Callable[[int, int], str]) -> AboutCell:
    """How a number answers: with what it is made of, and with the sum spelled out."""

    def about(i: int, j: int) -> dict[str, str]:
        own = part.format(i=i, j=j)
        on = f"{made_of.format(i=i, j=j)} {own.split()[0]} n-{own.split()[0]}"
        return {"part": own, "on": on, "says": says(i, j)}

    return about


def about_query(t: Tables) -> AboutRow:
    """How a part of query `i` answers: with its row in every table."""

    def about(i: int, part: str) -> dict[str, str]:
        says = f"{t.queries[i]}: its query, scores, weights and output"
        return {"part": part, "on": f"q{i} r{i} a{i} y{i}", "says": says}

    return about


def about_word(t: Tables) -> AboutRow:
    """How a part of word `j` answers: with its key, its value and its column between them."""

    def about(j: int, part: str) -> dict[str, str]:
        says = f"{t.words[j]}: its key, scores, weights and value"
        return {"part": part, "on": f"k{j} w{j} v{j}", "says": says}

    return about


def names(pen: Pen, t: Tables, places: Mapping[str, Point]) -> None:
    """Words beside rows and above columns, and below each table its name and its shape."""
    w, h = SIZE
    for name, look, labels in (
        ("q", "query", t.queries),
        ("a", "query", t.queries),
        ("v", "value", t.words),
    ):
        x, y = places[name]
        if name == "a" and x > 100:  # beside the scores' table nothing has to be said again
            continue
        for i, label in enumerate(labels):
            pen.text(x - 8, y + (i + 0.5) * h + 4, label, f"{look} f s e")
    x, y = places["k"]
    for j, word in enumerate(t.words):
        pen.text(x + (j + 0.5) * w, y - 8, word, "key f s")
    for i, feature in enumerate(t.features):
        pen.text(x - 8, y + (i + 0.5) * h + 4, feature, "muted f s e")
    below = {"q": ("queries", "query", "Q (Tq, D)"), "s": ("scores", "ink", "QKᵀ/√D (Tq, Tk)")}
    below |= {"a": ("weights", "weight", "A (Tq, Tk)"), "y": ("output", "output", "A V (Tq, Dv)")}
    widths = {"q": len(t.q[0]), "s": len(t.k), "a": len(t.k), "y": len(t.v[0])}
    for name, (title, role, shape) in below.items():
        x, y = places[name][0] + widths[name] * w / 2, places[name][1] + len(t.q) * h
        pen.text(x, y + 20, title, f"{role} f h")
        pen.text(x, y + 37, shape, "c")


def most(t: Tables) -> int:
    """The word that the first query looks at most."""
    return max(range(len(t.words)), key=lambda j: t.a[0][j])


def follow(pen: Pen, t: Tables, places: Mapping[str, Point]) -> None:
    """Frames around one number of each product and around what it is made of."""
    (w, h), D, Tk, j = SIZE, len(t.q[0]), len(t.k), most(t)
    frames = [("q", 0, D, 1), ("k", j, 1, D), ("s", j, 1, 1)]
    frames += [("a", 0, Tk, 1), ("v", 0, 1, Tk), ("y", 0, 1, 1)]
    with pen.group("rest"):
        for name, column, columns, rows in frames:
            x, y = places[name]
            pen.box(x + column * w, y, (columns * w, rows * h), "mark", 3)


def notes(pen: Pen, t: Tables, place: Point) -> None:
    """What a number is made of: of one score it stands there, of the others when they are asked."""
    put(pen, place, t.score(0, most(t)), "rest")
    Tk, Dv = len(t.k), len(t.v[0])
    for name, make, columns in (("s", t.score, Tk), ("a", t.weight, Tk), ("y", t.output, Dv)):
        for i in range(len(t.queries)):
            for j in range(columns):
                put(pen, place, make(i, j), "note", f"n-{name}{i}{j}")


def put(pen: Pen, place: Point, words: str, look: str, part: str = "") -> None:
    """A sum in one line, or in two where the sheet is narrow."""
    x, y = place
    lines = [words]
    if len(words) * 6.9 > pen.width:
        cut = words.rindex(" + ", 0, 2 * len(words) // 3)
        lines = [words[:cut], words[cut + 1 :]]
    with pen.group(look, part):
        for n, line in enumerate(lines):
            pen.text(x, y + 16 * (n + 1 - len(lines)), line, "s")
