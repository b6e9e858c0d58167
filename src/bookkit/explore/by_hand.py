"""Explorable: attention with every number in sight, each of which the reader may change."""

import math
import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnbook.attention import attend, dot_scores, masked_softmax
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

WORDS = ("The", "cat", "sat", "on", "the", "mat")
FEATURES = ("animal", "action", "object", "definite")
ASKS = ("animal?", "action?")
QUERIES = ((6, 1, 1, 2), (1, 6, 0, 1))
KEYS = ((0, 0, 0, 1), (1, 0, 0.3, 0), (0, 1, 0, 0), (0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0))
VALUES = (
    (0.1, 0, 0, 0.8),
    (0.9, 0, 0.1, 0.7),
    (0, 0.9, 0, 0.3),
    (0, 0, 0.5, 0),
    (0, 0, 0, 0.9),
    (0, 0, 0.9, 0.6),
)
SHARES = (
    (0.25, "less than a quarter"),
    (0.5, "less than half"),
    (0.75, "more than half"),
    (0.95, "most"),
)


class AttentionByHand(Explorable):
    """Queries q (Tq, D), keys k (Tk, D), values v (Tk, Dv) as numbers that can be dragged.

    Shown are the scores, the weights and the outputs of one query or two; words can be masked,
    the scores divided by √D, by 1 or by √D τ, the softmax taken along the wrong axis. `words` name
    the keys, `features` the columns, `asks` the queries. Without tensors: the example of chapter 3.
    """

    tag = "by-hand"
    needs = ("maths", "explain")

    def __init__(
        self,
        q: Tensor | None = None,
        k: Tensor | None = None,
        v: Tensor | None = None,
        words: Sequence[str] = WORDS,
        features: Sequence[str] = FEATURES,
        asks: Sequence[str] = ASKS,
    ):
        given = {"q": (q, QUERIES), "k": (k, KEYS), "v": (v, VALUES)}
        self.tables = {name: listed(x, default) for name, (x, default) in given.items()}
        self.words, self.features, self.asks = list(words), list(features), list(asks)
        q, k, v = (torch.tensor(table) for table in self.tables.values())
        if len(k) != len(self.words) or len(v) != len(self.words):
            raise ValueError(f"{len(self.words)} words, but {len(k)} keys and {len(v)} values")
        if not q.shape[1] == k.shape[1] == len(self.features):
            raise ValueError(
                f"{len(self.features)} features, but queries have width {q.shape[1]} "
                f"and keys {k.shape[1]}"
            )
        if not 1 <= len(q) <= 2 or len(q) != len(self.asks):
            raise ValueError(f"1 or 2 queries with a name each; got {len(q)} and {len(self.asks)}")
        if max(x.abs().max().item() for x in (q / 4, k, v)) > 2:
            raise ValueError(
                "keys and values can be dragged between −2 and 2, queries between −8 and 8; "
                "one is outside"
            )

    @property
    def question(self) -> str:
        return f"How much of the answer comes from “{self.words[self.best()]}”?"

    def best(self) -> int:
        """Which word has the best score for the first query."""
        scores = self.result(self.start())["scores"][0]
        return max(range(len(scores)), key=scores.__getitem__)

    def start(self) -> dict:
        settings = {"queries": 1, "divide": "root", "tau": 0.5, "over": "words"}
        return {**self.tables, **settings, "mask": [True] * len(self.words)}

    def fixed(self) -> dict:
        return {"words": self.words, "features": self.features, "asks": self.asks}

    def result(self, state: dict) -> dict:
        """Scores after the division, weights, outputs: those of `attend`."""
        q, k, v = (torch.tensor(state[name], dtype=torch.float64) for name in "qkv")
        q, mask = q[: state["queries"]], torch.tensor(state["mask"])
        root = math.sqrt(k.shape[1])
        divisor = {"root": root, "one": 1.0, "tau": root * state["tau"]}[state["divide"]]
        scores = dot_scores(q, k) / divisor
        if state["over"] == "words":
            output, weights = attend(q, k, v, mask, score=lambda q, k: dot_scores(q, k) / divisor)
        else:
            weights = masked_softmax(scores.mT, mask[:, None]).mT
            output = weights @ v
        tables = {"scores": scores, "weights": weights, "output": output}
        return {name: table.tolist() for name, table in tables.items()}

    def cases(self) -> Iterator[dict]:
        yield from ({"divide": "tau", "tau": 0.1}, {"queries": 2}, {"over": "queries"})
        words, pick = len(self.words), random.Random(0)
        yield {"mask": [False] * words}
        yield {"k": [[2.0] * len(self.features)] * words, "divide": "tau", "tau": 0.05}
        for _ in range(100):
            tables = {
                name: [[pick.randint(-20, 20) / 10 for _ in row] for row in table]
                for name, table in self.tables.items()
            }
            yield {
                **tables,
                "queries": pick.randint(1, len(self.asks)),
                "divide": pick.choice(("root", "one", "tau")),
                "tau": pick.randint(1, 60) / 20,
                "over": pick.choice(("words", "words", "queries")),
                "mask": [pick.random() < 0.8 for _ in range(words)],
            }

    def picture(self) -> str:
        """Words, scores, weights as bars; the output and the plain mean of the values below."""
        now = self.result(self.start())
        scores, weights, output = (now[name][0] for name in ("scores", "weights", "output"))
        rows = list(zip(self.words, scores, weights, strict=True))
        label = "weights: " + ", ".join(f"{word} {w:.2f}" for word, _, w in rows)
        picture = Still(400, 30 * (len(rows) + 3), label)
        for x, name, role in ((110, "score", "ink"), (180, "weight", "weight")):
            picture.text(x, 20, name, role, "start", bold=True)
        for y, (word, score, w) in enumerate(rows, 1):
            picture.text(90, 30 * y + 20, word, anchor="end")
            picture.cell(
                100, 30 * y, 60, 27, "ink", abs(score) / max(map(abs, scores)), number(score)
            )
            picture.bar(180, 30 * y, 180 * w, 27, "weight")
            picture.text(188 + 180 * w, 30 * y + 19, number(w), anchor="start")
        mean = torch.tensor(self.tables["v"]).mean(0).tolist()
        for y, (name, role, row) in enumerate(
            (("output", "output", output), ("plain mean", "muted", mean)), len(rows) + 1
        ):
            picture.text(90, 30 * y + 20, name, role, "end")
            for i, x in enumerate(row):
                picture.cell(100 + 56 * i, 30 * y, 53, 27, role, abs(x), number(x))
        return picture.svg()

    def sentence(self) -> str:
        now = self.result(self.start())
        scores, weights = now["scores"][0], now["weights"][0]
        best, w = self.best(), weights[self.best()]
        share = next((words for limit, words in SHARES if w < limit), "nearly all")
        return (
            f"“{self.words[best]}” has the best score, {scores[best]:.2f}, and {share} "
            f"of the weight: {w:.2f}; the others have {1 - w:.2f} between them."
        )


def listed(matrix: Tensor | None, default: Sequence) -> list[list[float]]:
    """A matrix as rows of numbers with six decimals: the same text on every machine."""
    rows = default if matrix is None else matrix.detach().tolist()
    return [[round(float(x), 6) for x in row] for row in rows]
