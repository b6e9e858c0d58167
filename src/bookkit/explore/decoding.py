"""Explorable: a decoder small enough for paper writes a translation, sum by sum."""

from collections.abc import Callable, Iterator
from itertools import product

from torch import nn

from bookkit.experiments import on_paper
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

HOWS: dict[str, Callable[[], nn.Module | None]] = {
    "look back": on_paper.score,
    "without tanh": on_paper.Straight,
    "one vector": lambda: None,
}
MOST = 6  # steps: through one vector it does not end by itself
PARTS = ("scores", "weights", "context", "state", "word")


class Decoding(Explorable):
    """The translator of `on_paper` decodes greedily; each step comes in five parts.

    `how` is "look back" (additive attention), "without tanh" (the same score, straight) or "one
    vector"; `step` counts from 1, at most to the last one; `part` is how much of it is shown.
    """

    tag = "decoding"
    question = "What does the decoder compute before it writes “voiture”?"
    near = 1e-5  # the module computes in 32 bits

    def __init__(self, how: str = "look back", step: int = 2, part: str = "word"):
        if how not in HOWS or part not in PARTS or not 1 <= step <= MOST:
            raise ValueError(
                f"how is one of {', '.join(HOWS)}, step 1 to {MOST}, part one of "
                f"{', '.join(PARTS)}; got {how!r}, {step}, {part!r}"
            )
        self.begin = {"how": how, "step": step, "part": part}

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {
            "reads": on_paper.READS,
            "writes": on_paper.WRITES,
            "states": on_paper.STATES,
            "vectors": on_paper.VECTORS,
            "toVocab": on_paper.TO_VOCAB,
        }

    def result(self, state: dict) -> dict:
        """All words up to the last step, and the numbers of the step that is shown."""
        found = on_paper.steps(HOWS[state["how"]](), limit=MOST)
        at = min(state["step"], len(found)) - 1
        now = found[at]
        return {
            "read": now.read,
            "words": [step.said for step in found],
            "at": at,
            "scores": [] if now.scores is None else now.scores.tolist(),
            "weights": [] if now.weights is None else now.weights.tolist(),
            "query": now.query.tolist(),
            "context": now.context.tolist(),
            "state": now.state.tolist(),
            "p": now.p.tolist(),
        }

    def cases(self) -> Iterator[dict]:
        for how, step, part in product(HOWS, (1, 2, 3, 4, 6), ("scores", "context", "word")):
            yield {"how": how, "step": step, "part": part}

    def picture(self) -> str:
        """A row for each source word: key, score, weight; below it context, state and words."""
        now, picture = self.result(self.start()), Still(440, 236, self.sentence())
        picture.text(8, 20, f"query {pair(now['query'])}", "query", "start", bold=True)
        for n, (word, h) in enumerate(zip(on_paper.READS, on_paper.STATES, strict=True)):
            y = 34 + 34 * n
            picture.text(60, y + 19, word, anchor="end")
            for i, x in enumerate(h):
                picture.cell(70 + 42 * i, y, 40, 27, "key", abs(x) / 4, number(x))
            if now["scores"]:
                picture.cell(172, y, 52, 27, "ink", 0, number(now["scores"][n]))
                picture.bar(240, y + 4, 140 * now["weights"][n], 19, "weight")
                x = 248 + 140 * now["weights"][n]
                picture.text(x, y + 19, number(now["weights"][n]), "weight", "start")
        rows = (("context", "output"), ("state", "query"))
        for n, (name, role) in enumerate(rows):
            picture.text(8, 164 + 26 * n, f"{name} {pair(now[name])}", role, "start", bold=True)
        told = ", ".join(f"{w} {number(p)}" for w, p in zip(on_paper.WRITES, now["p"], strict=True))
        picture.text(8, 216, told, "output", "start")
        return picture.svg()

    def sentence(self) -> str:
        now = self.result(self.start())
        said, p = now["words"][now["at"]], max(now["p"])
        return (
            f"Step {now['at'] + 1}: the new state {pair(now['state'])} gives “{said}” the "
            f"probability {number(p)}, the largest; {after(now)}."
        )


def after(now: dict) -> str:
    """What happens to the word that was said."""
    last = now["at"] == len(now["words"]) - 1
    if not last:
        return "the next step reads it"
    return "the sentence has ended" if now["words"][-1] == "</s>" else "and so on without an end"


def pair(numbers: list[float]) -> str:
    return f"({', '.join(number(x) for x in numbers)})"
