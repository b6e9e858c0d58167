"""Explorable: move a query in the plane; see the weights and their mean follow."""

import html

import torch
from torch import Tensor

from attnbook.attention import AdditiveScores, attend, dot_scores
from attnbook.explore.element import Explorable


class Lookup(Explorable):
    """A query among encoder states of width 2. The reader drags it and chooses the score.

    `words` name the `states` (Tk, 2); `query` (2,) is where the query starts; `additive`, if given,
    is an `AdditiveScores(2, 2, width)` whose weights the element uses; the other score is the dot.
    `names` is what the picture calls the query and the weighted mean.
    """

    tag = "lookup"

    def __init__(
        self,
        words: list[str],
        states: Tensor,
        query: Tensor,
        additive=None,
        names: tuple[str, str] = ("decoder state", "context"),
    ):
        if tuple(states.shape) != (len(words), 2):
            raise ValueError(
                f"{len(words)} words need states ({len(words)}, 2), not {tuple(states.shape)}"
            )
        if tuple(query.shape) != (2,):
            raise ValueError(f"the query has 2 coordinates, not shape {tuple(query.shape)}")
        self.words, self.states, self.query = words, states, query
        self.additive, self.names = additive, names

    def weights(self, query: Tensor, score: str = "dot") -> Tensor:
        """The attention weights (Tk,) at this query, as the browser must compute them."""
        score = self.additive if score == "additive" else dot_scores
        with torch.no_grad():
            return attend(query[None], self.states, self.states, score=score)[1][0]

    def numbers(self) -> dict:
        numbers = {
            "words": self.words,
            "states": rounded(self.states),
            "query": rounded(self.query),
            "names": list(self.names),
        }
        if isinstance(self.additive, AdditiveScores):
            W, U, v = (part.weight for part in self.additive.children())
            numbers["additive"] = {"W": rounded(W), "U": rounded(U), "v": rounded(v[0])}
        return numbers

    def still(self) -> str:
        """Bars of the weights at the start."""
        weights = self.weights(self.query, "additive" if self.additive else "dot").tolist()
        rows = "".join(
            f'<text x="90" y="{30 * i + 21}" text-anchor="end">{html.escape(word)}</text>'
            f'<rect x="100" y="{30 * i + 5}" width="{200 * w:.0f}" height="20" fill="#D55E00"/>'
            f'<text x="{200 * w + 108:.0f}" y="{30 * i + 21}">{w:.2f}</text>'
            for i, (word, w) in enumerate(zip(self.words, weights, strict=True))
        )
        size = f'viewBox="0 0 360 {30 * len(self.words)}" width="360"'
        label = "attention weights: " + ", ".join(
            f"{html.escape(word)} {w:.2f}" for word, w in zip(self.words, weights, strict=True)
        )
        return f'<svg {size} role="img" aria-label="{label}" fill="currentColor">{rows}</svg>'


def rounded(tensor: Tensor) -> list:
    """Nested lists with six decimals: the same text on every machine."""
    return [
        rounded(part) if part.dim() else round(part.item(), 6) for part in tensor.detach().unbind()
    ]
