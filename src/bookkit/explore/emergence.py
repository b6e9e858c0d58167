"""Explorable: the two heads of an induction circuit while they are learned, step by step."""

import base64
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

from bookkit.explore.coded import Coder
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

STOPS = (0, 20, *range(40, 125, 5), 140, 160, 200)  # steps of training
SEEDS, T = 3, 16
BITS, TOP, STAY = 4, 10, 0.75  # a weight is a level of 0 to TOP
CELLS = T * (T + 1) // 2  # of a map that are not masked
CURVES = {"before": 1.0, "follows": 1.0, "loss": 4.0}  # the greatest that each is stored to
UNIT = 4095  # a point of a curve has twelve bits
FREEZE = {"none": "both", "layer 0": "layer 0", "layer 1": "layer 1"}
EVERY = 5  # steps between two measurements


@cache
def run() -> dict[str, Any]:
    """The stored run of `results/emergence.py`."""
    return stored_run("emergence")


def curve(seed: int, freeze: str, name: str) -> list[float]:
    """A measured curve, every five steps."""
    found: list[float] = run()["runs"][f"{FREEZE[freeze]}/{seed}"][name]
    return found


@cache
def frames(seed: int, freeze: str) -> dict[int, list[int]]:
    """For each step the levels of both maps, row by row, and of each next token's probability.

    A level stays until the number is more than STAY levels away: nothing flickers, little is said.
    """
    stored, until = run()["runs"][f"{FREEZE[freeze]}/{seed}"]["frames"], run()["from"]
    found: dict[int, list[int]] = {}
    last = [0] * (2 * CELLS + T - 1)
    for step in STOPS:
        if freeze != "none" and step <= until:
            last = frames(seed, "none")[step]
        else:
            exact = [TOP * byte / 255 for byte in base64.b64decode(stored[place(step)])]
            pairs = zip(exact, last, strict=True)
            last = [old if abs(x - old) <= STAY else math.floor(x + 0.5) for x, old in pairs]
        found[step] = last
    return found


def place(step: int) -> int:
    found: int = run()["stops"].index(step)
    return found


def point(value: float, name: str) -> int:
    return math.floor(UNIT * value / CURVES[name] + 0.5)


@cache
def coded() -> str:
    """All that the page has, seed by seed; what was before a layer was frozen is not repeated."""
    coder = Coder(BITS, TOP + 4)
    for seed in range(SEEDS):
        for freeze in FREEZE:
            last = [0] * (2 * CELLS + T - 1)
            for step, now in frames(seed, freeze).items():
                if freeze == "none" or step > run()["from"]:
                    for name in CURVES:
                        value = point(curve(seed, freeze, name)[step // EVERY], name)
                        for n in range(3):
                            coder.put(value >> BITS * (2 - n) & 15, TOP + 1 + n)
                    for level, old in zip(now, last, strict=True):
                        coder.put(level, old)
                last = now
    return coder.letters()


class Emergence(Explorable):
    """A time slider under the training of a two-layer model: both maps, both scores, the loss.

    `stop` counts the stored steps, `freeze` names the layer whose weights stay what they are after
    step 40, `guess` the layer whose head the reader takes to be first: until then the future is not
    drawn.
    """

    tag = "emergence"
    needs = ("coded",)
    question = "Which is learned first: previous-token or induction head?"

    def start(self) -> dict:
        return {"stop": STOPS.index(50), "seed": 0, "freeze": "none", "guess": "none"}

    def fixed(self) -> dict:
        halves = run()["order"]["one head"]["0.5"]["steps"]
        return {
            "stops": STOPS,
            "from": run()["from"],
            "row": "".join(chr(65 + token) for token in run()["row"]),
            "even": run()["even"]["before"],
            "half": [[halves[name][seed] for name in CURVES] for seed in range(SEEDS)],
            "ends": [
                [round(curve(seed, freeze, "loss")[-1], 2) for freeze in FREEZE]
                for seed in range(SEEDS)
            ],
            "coded": coded(),
        }

    def result(self, state: dict) -> dict:
        """What was measured at this step, the maps in tenths."""
        seed, freeze, step = state["seed"], state["freeze"], STOPS[state["stop"]]
        values = {
            name: point(curve(seed, freeze, name)[step // EVERY], name) * most / UNIT
            for name, most in CURVES.items()
        }
        levels = [level / TOP for level in frames(seed, freeze)[step]]
        return {
            "step": step,
            **values,
            "maps": [levels[:CELLS], levels[CELLS : 2 * CELLS]],
            "right": levels[2 * CELLS :],
        }

    def cases(self) -> Iterator[dict]:
        yield {"stop": STOPS.index(80), "guess": "layer 1"}
        yield {"stop": STOPS.index(200), "guess": "layer 0", "freeze": "layer 0"}
        yield {"stop": STOPS.index(90), "freeze": "layer 1", "seed": 1}
        for n in range(3 * len(STOPS)):
            freeze = list(FREEZE)[(n // len(STOPS) + n) % 3]
            yield {"stop": n % len(STOPS), "seed": n // len(STOPS), "freeze": freeze}

    def picture(self) -> str:
        """Both maps at the start, and the curves to their end, which the page keeps back."""
        now, still = self.result(self.start()), Still(640, 212, self.sentence())
        for n, (role, words) in enumerate((("key", "layer 0"), ("weight", "layer 1"))):
            left = 4 + 178 * n
            still.text(left + 80, 16, words, role, bold=True)
            rows: dict[float, str] = {}
            cells = ((t, s) for t in range(T) for s in range(t + 1))
            for (t, s), level in zip(cells, now["maps"][n], strict=True):
                if level:
                    rows[level] = rows.get(level, "") + f"M{left + 10 * s} {31 + 10 * t}h10"
            for level, path in rows.items():
                look = f"stroke-width:10;stroke:var(--d-{role});stroke-opacity:{level:.2f}"
                still.add(f'<path d="{path}" style="{look}"/>')
        x, y = (lambda step: 360 + 1.15 * step), (lambda share: 180 - 150 * share)
        still.line([(x(0), y(0)), (x(200), y(0))])
        still.line([(x(now["step"]), 26), (x(now["step"]), y(0))], "ink", 1, "3 3")
        for name, role in (("before", "key"), ("follows", "weight"), ("loss", "output")):
            points = curve(0, "none", name)[: 1 + 200 // EVERY]
            line = [(x(EVERY * n), y(v / CURVES[name])) for n, v in enumerate(points)]
            still.line(line, role, 2, "5 3" if name == "loss" else "")
        for step in (0, 50, 100, 150, 200):
            still.text(x(step), 198, step, "muted", size=12)
        still.text(x(206), y(0.95), "layer 1", "weight", "start", 12)
        still.text(x(206), y(0.84), "layer 0", "key", "start", 12)
        still.text(x(206), y(0.02), "loss", "output", "start", 12)
        return still.svg()

    def sentence(self) -> str:
        now = self.result(self.start())
        return (
            f"After {now['step']} steps {now['before']:.2f} of layer 0’s attention is on the token "
            f"before, {now['follows']:.2f} of layer 1’s on what followed last time; the loss is "
            f"{now['loss']:.2f} nats. Even attention gives both "
            f"{run()['even']['before']:.2f}. Which head is half-way first?"
        )
