"""Explorable: move a query in the plane; see the weights and their mean follow."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attnbook.attention import AdditiveScores, ScoreFunction, attend, dot_scores
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number


class Lookup(Explorable):
    """A query among encoder states of width 2. The reader drags it and chooses the score.

    `words` name the `states` (Tk, 2); `query` (2,) is where the query starts; `additive`, if given,
    is an `AdditiveScores(2, 2, width)` whose weights the element uses; the other score is the dot.
    `names` is what the picture calls the query and the weighted mean, `question` stands above it.
    """

    tag = "lookup"
    question = ""
    near = 1e-4  # the weights of an additive score travel with six decimals

    def __init__(
        self,
        words: list[str],
        states: Tensor,
        query: Tensor,
        additive: nn.Module | None = None,
        names: tuple[str, str] = ("decoder state", "context"),
        question: str | None = None,
    ):
        if tuple(states.shape) != (len(words), 2):
            raise ValueError(
                f"{len(words)} words need states ({len(words)}, 2), not {tuple(states.shape)}"
            )
        if tuple(query.shape) != (2,):
            raise ValueError(f"the query has 2 coordinates, not shape {tuple(query.shape)}")
        self.words, self.states, self.query = words, states, query
        self.additive, self.names = additive, names
        self.question = question or f"Where does the {names[0]} look?"

    def weights(self, query: Tensor, score: str = "dot") -> Tensor:
        """The attention weights (Tk,) at this query, as the browser must compute them."""
        how = self.additive if score == "additive" and self.additive else dot_scores
        with torch.no_grad():
            return attend(query[None], self.states, self.states, score=how)[1][0]

    def start(self) -> dict:
        return {"query": rounded(self.query), "score": "additive" if self.additive else "dot"}

    def fixed(self) -> dict:
        given: dict[str, Any] = {
            "words": self.words,
            "states": rounded(self.states),
            "names": list(self.names),
        }
        if isinstance(self.additive, AdditiveScores):
            maps = zip("WUv", self.additive.children(), strict=True)
            parts = {name: rounded(part.get_parameter("weight")) for name, part in maps}
            given["additive"] = {**parts, "v": parts["v"][0]}
        return given

    def result(self, state: dict) -> dict:
        """The weights and the mean that they give: those of `attend`, in float64."""
        score: ScoreFunction = dot_scores
        if state["score"] == "additive" and self.additive:
            score = copy.deepcopy(self.additive).double()
        query = torch.tensor([state["query"]], dtype=torch.float64)
        with torch.no_grad():
            states = self.states.double()
            context, weights = attend(query, states, states, score=score)
        return {"weights": weights[0].tolist(), "context": context[0].tolist()}

    def cases(self) -> Iterator[dict]:
        pick = random.Random(0)
        scores = ("additive", "dot") if self.additive else ("dot",)
        corners = [(0.0, 0.0), (1.0, -1.5), (-1.5, 1.5)]
        spots = [(pick.uniform(-1.5, 1.5), pick.uniform(-1.5, 1.5)) for _ in range(47)]
        for query in corners + spots:
            yield {"query": [round(x, 4) for x in query], "score": pick.choice(scores)}

    def picture(self) -> str:
        """Bars of the weights at the start."""
        weights = self.result(self.start())["weights"]
        rows = list(zip(self.words, weights, strict=True))
        label = "weights: " + ", ".join(f"{word} {w:.2f}" for word, w in rows)
        picture = Still(360, 32 * len(rows), label)
        for y, (word, w) in enumerate(rows):
            picture.text(110, 32 * y + 20, word, "key", "end")
            picture.bar(120, 32 * y + 3, 180 * w, 26, "weight")
            picture.text(128 + 180 * w, 32 * y + 21, number(w), anchor="start")
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        w = max(now["weights"])
        word = self.words[now["weights"].index(w)]
        at, mean = (
            ", ".join(f"{x:.{digits}f}" for x in row).replace("-", "−")
            for row, digits in ((state["query"], 1), (now["context"], 2))
        )
        asks = self.names[0][0].upper() + self.names[0][1:]
        return f"{asks} ({at}): most weight on “{word}”, {w:.2f}; {self.names[1]} ({mean})."


def rounded(tensor: Tensor) -> list:
    """Nested lists with six decimals: the same text on every machine."""
    return [
        rounded(part) if part.dim() else round(part.item(), 6) for part in tensor.detach().unbind()
    ]
