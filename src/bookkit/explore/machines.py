"""Explorable: one sentence in four machines, and which of its words move their answers."""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from bookkit.experiments.agreement import MACHINES, VARIANTS, sentence
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
CHAPTERS = {
    "RNN": ("1", "01-recurrent-networks"),
    "LSTM": ("1", "01-recurrent-networks"),
    "attention": ("2", "02-bahdanau-attention"),
    "transformer": ("6", "06-the-transformer"),
}
WIDTHS = (30, 38, 20, 28, 30, 64, 22, 28, 40)  # of the words in the still picture
STAGES, SEEDS = (40, 80, 320), 3  # those of the stored run that the page has
FULL = 0.52  # what a word moves that decides alone: half of the others have the other number


@cache
def run() -> dict[str, Any]:
    """The stored run of `results/four_machines.py`."""
    return stored_run("four_machines")


def stored(machine: str, seed: int, steps: int) -> dict[str, Any]:
    """What the run found with one machine and seed after so many steps."""
    return run()["machines"][machine]["seeds"][seed][run()["stages"].index(steps)]


def letter(share: float) -> str:
    """A number from 0 to 1 as one letter, in steps of 1/63."""
    return LEVELS[math.floor(63 * share + 0.5)]


def packed(machine: str) -> str:
    """All that is stored of a machine: seed, stage, variant; the answer, influence, looks."""
    found = []
    for seed in range(SEEDS):
        for steps in STAGES:
            stage = stored(machine, seed, steps)
            parts = zip(stage["are"], stage["influence"], stage["looks"], strict=True)
            for are, influence, looks in parts:
                found += [are, *influence, *(weight for row in looks for weight in row)]
    return "".join(map(letter, found))


class FourMachines(Explorable):
    """A sentence whose nouns are exchanged by touch, read by four networks that learn.

    The numbers are those of a stored run, in steps of 1/63. `here` names the machines of the page
    on which it stands: they are marked. `stage` counts the stored stages of training.
    """

    tag = "machines"
    near = 0.009  # numbers are stored in steps of 1/63

    def __init__(
        self,
        here: Sequence[str] = (),
        stage: int = 0,
        seed: int = 0,
        many: Sequence[bool] = (True, False, False),
        question: str = "Is, or are? Which words decide, in four machines?",
    ):
        if set(here) - set(MACHINES) or not (0 <= stage < len(STAGES) and 0 <= seed < SEEDS):
            raise ValueError(
                f"machines of {', '.join(MACHINES)}, a stage below {len(STAGES)} and a seed below "
                f"{SEEDS} fit; got {', '.join(here)}, {stage}, {seed}"
            )
        if len(many) not in (2, 3):
            raise ValueError(f"two nouns or three, each one or many; got {len(many)}")
        self.here, self.ask = list(here), question
        nouns = dict(zip(("subject", "second", "third"), [*many, False], strict=False))
        self.begin = {**nouns, "long": len(many) == 3, "stage": stage, "seed": seed, "word": -1}

    @property
    def question(self) -> str:
        return self.ask

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {
            "stages": STAGES,
            "here": self.here,
            "machines": [
                [name, packed(name), *CHAPTERS[name], run()["machines"][name]["parameters"]]
                for name in MACHINES
            ],
        }

    def result(self, state: dict) -> dict:
        """What the run stores of this sentence: the chance of *are*, influences, looks."""
        many = state["subject"], state["second"], state["third"]
        at = VARIANTS.index(many if state["long"] else many[:2])
        found: dict[str, Any] = {}
        for name in MACHINES:
            run_of = stored(name, state["seed"], STAGES[state["stage"]])
            found[name] = {key: run_of[key][at] for key in ("are", "influence", "looks")}
        return found

    def cases(self) -> Iterator[dict]:
        for n, many in enumerate(VARIANTS):
            nouns = dict(zip(("subject", "second", "third"), many, strict=False))
            for stage in range(len(STAGES)):
                seed = (n + stage) % SEEDS
                yield {**nouns, "long": len(many) == 3, "stage": stage, "seed": seed}
        yield {"word": 1}

    def picture(self) -> str:
        """The sentence four times, each word as strong as its influence, and the answers."""
        state, now = self.start(), self.result(self.start())
        words = sentence([state["subject"], state["second"], state["third"]][: 2 + state["long"]])
        picture = Still(520, 4 * 52 + 6, self.sentence())
        for row, name in enumerate(MACHINES):
            x, y = 8.0, 52 * row
            picture.text(8, y + 16, name, anchor="start", bold=True)
            cells = letters = ""
            for word, width, moved in zip(words, WIDTHS, now[name]["influence"], strict=False):
                wide = width + 10 * (word in ("keys", "cabinets", "halls"))
                cells += f'<path d="M{x:g} {y + 24}h{wide}v24h-{wide}z" style="fill-opacity:calc('
                cells += f'.13 + {min(1, moved / FULL):.2f}*(var(--d-output-reach) - .13))"/>'
                letters += f'<text x="{x + wide / 2:g}" y="{y + 41}">{word}</text>'
                x += wide + 4
            picture.add(f'<g style="fill:var(--d-output-fill)">{cells}</g>')
            look = 'text-anchor="middle" font-size="13" style="fill:var(--d-cell)"'
            picture.add(f"<g {look}>{letters}</g>")
            verb, mark = said(now[name]["are"], state["subject"])
            picture.text(x + 6, y + 41, f"{verb} {mark}", anchor="start", bold=True)
            picture.text(x + 54, y + 41, f"{sure(now[name]['are'])} %", "muted", "start", 13)
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        steps = STAGES[state["stage"]]
        good = [name for name in MACHINES if right(now[name]["are"], state["subject"])]
        verb = "are" if state["subject"] else "is"
        words = sentence([state["subject"], state["second"], state["third"]][: 2 + state["long"]])
        strongest = [
            words[now[name]["influence"].index(max(now[name]["influence"]))] for name in MACHINES
        ]
        who = ", ".join(f"{name} {word}" for name, word in zip(MACHINES, strongest, strict=True))
        return (
            f"After {steps} steps of training {len(good)} of 4 say {verb}. "
            f"What moves each most: {who}."
        )


def right(are: float, subject: bool) -> bool:
    return (level(are) > 0.5) == subject


def level(share: float) -> float:
    """The number as it is stored in the page."""
    return LEVELS.index(letter(share)) / 63


def sure(are: float) -> int:
    """How sure the machine is of what it says, in per cent."""
    return math.floor(100 * max(level(are), 1 - level(are)) + 0.5)


def said(are: float, subject: bool) -> tuple[str, str]:
    """The verb that the machine says, and whether it is right."""
    return ("are" if level(are) > 0.5 else "is"), ("✓" if right(are, subject) else "✗")
