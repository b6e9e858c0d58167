"""Explorable: a draft proposes a token, the model accepts it or not, at real places of a text."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number
from bookkit.results.stored_run import stored_run

DRAFTS = {"counts": "table of counts", "coarse": "itself in 3 bits"}
MOST = 6  # rows: up to five tokens, and all others as one


class DraftCheck(Explorable):
    """Twelve places of unseen documentation: what the book's language model expects, what a draft.

    `place` counts from 1; `draft` is "counts", a table, or "coarse", the model itself in three
    bits; `token` is the row of the token that was proposed. From the stored run of
    `results/fast.py`. Leviathan et al. 2023, section 2.3.
    """

    tag = "draft-check"
    question = "How often may a proposed token stay?"

    def __init__(self, place: int = 1, draft: str = "counts", token: int = 2):
        self.places: list[dict[str, Any]] = stored_run("fast")["runs"]["places"]["places"]
        if not 1 <= place <= len(self.places) or draft not in DRAFTS or not 0 <= token < MOST - 1:
            raise ValueError(
                f"places are 1 to {len(self.places)}, drafts {' and '.join(DRAFTS)}, tokens 0 to "
                f"{MOST - 2}; got {place}, {draft!r} and {token}"
            )
        self.begin = {"place": place, "draft": draft, "token": token}

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {"places": self.places}

    def result(self, state: dict) -> dict:
        """Of each row what is kept, and its share among what is drawn after a rejection; the chance
        that the proposed token is kept, and that any is."""
        here = self.places[state["place"] - 1]
        p, q = here["p"], here[state["draft"]]["q"]
        kept = [min(a, b) for a, b in zip(p[:-1], q[:-1], strict=True)]
        kept.append(here[state["draft"]]["both"])
        overlap, token = sum(kept), min(state["token"], len(p) - 2)
        rest = [(a - k) / (1 - overlap) for a, k in zip(p, kept, strict=True)]
        chance = kept[token] / q[token] if q[token] else 0
        return {"kept": kept, "rest": rest, "overlap": overlap, "chance": chance}

    def cases(self) -> Iterator[dict]:
        for place, draft, token in product((1, 4, 9, len(self.places)), DRAFTS, (0, 2, 4)):
            yield {"place": place, "draft": draft, "token": token}

    def picture(self) -> str:
        """Of each token the model's share, its kept part dark, and the draft's below it."""
        state, picture = self.start(), Still(430, 250, self.sentence())
        here, now = self.places[state["place"] - 1], self.result(state)
        names, p, q = [*here["tokens"], "others"], here["p"], here[state["draft"]]["q"]
        for n, name in enumerate(names):
            y = 20 + 38 * n
            picture.text(82, y + 14, repr(name) if n < len(p) - 1 else name, "ink", "end")
            picture.bar(92, y, 290 * p[n], 13, "output")
            picture.bar(92, y, 290 * now["kept"][n], 13, "value")
            picture.bar(92, y + 16, 290 * q[n], 6, "key")
            picture.text(390, y + 14, number(p[n]), "output", "start")
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        here = self.places[state["place"] - 1]
        token = min(state["token"], len(here["p"]) - 2)
        p, q = here["p"][token], here[state["draft"]]["q"][token]
        return (
            f"“{here['tokens'][token]}” was proposed with probability {q:.2f}; the model has "
            f"{p:.2f}, so it stays with {now['chance']:.2f}. Of all proposals here "
            f"{100 * now['overlap']:.0f} % stay."
        )
