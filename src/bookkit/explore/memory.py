"""Explorable: a matrix as a memory, written and overwritten pair by pair, and read back."""

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from attnbook.recurrence.delta import delta_step
from attnbook.recurrence.gated import gated_step
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

NAMES = "abcdef"
KEYS = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0.5,) * 4, (0.5, 0.5, -0.5, -0.5))
LISTS = {  # pairs of a name and the number that is written under it
    "returns": ((0, 0), (1, 1), (0, 2), (2, 0), (1, 2), (0, 1)),
    "crowd": ((0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2)),
}
STEPS = 6


class MatrixMemory(Explorable):
    """Six pairs are written into a matrix of 4 × 3 numbers; each row below asks for one name.

    `pairs` is a list in which names return, or one with more names than the matrix has rows. The
    `rule` adds key times value, or corrects first what the memory answers: the delta rule with a
    `strength` from 0 to 2. Before each pair the memory is multiplied by `keep`. Shown is the memory
    after `step` pairs.
    """

    tag = "memory"
    needs = ("maths", "stepper")
    question = "What does the memory answer when a name comes again?"

    def __init__(
        self,
        pairs: str = "returns",
        rule: str = "add",
        step: int = 3,
        strength: float = 1.0,
        keep: float = 1.0,
    ):
        if pairs not in LISTS or rule not in ("add", "delta") or not 0 <= step <= STEPS:
            raise ValueError(
                f"lists are {', '.join(LISTS)}, rules add and delta, steps 0 to {STEPS}; "
                f"got {pairs!r}, {rule!r}, {step}"
            )
        if not 0 <= strength <= 2 or not 0.5 <= keep <= 1:
            raise ValueError(f"strength is 0 to 2, keep 0.5 to 1; got {strength} and {keep}")
        self.begin = {
            "pairs": pairs,
            "rule": rule,
            "step": step,
            "strength": strength,
            "keep": keep,
        }

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        return {"keys": KEYS, "lists": LISTS}

    def result(self, state: dict) -> dict:
        """The matrix, what it answered before the last pair, and its answers to all names."""
        S, old = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
        for name, which in LISTS[state["pairs"]][: state["step"]]:
            old, S = written(S, key(name), torch.eye(3).double()[which], state)
        answers = torch.stack([S.T @ key(name) for name in range(len(NAMES))])
        newest = dict(LISTS[state["pairs"]][: state["step"]])
        right = [newest[name] == says(answers[name]) for name in newest]
        return {
            "S": S.tolist(),
            "old": old.tolist(),
            "answers": answers.tolist(),
            "known": len(right),
            "right": sum(right),
        }

    def cases(self) -> Iterator[dict]:
        for n, (pairs, rule) in enumerate(product(LISTS, ("add", "delta"))):
            for step in range(STEPS + 1):
                yield {"pairs": pairs, "rule": rule, "step": step}
                keep, strength = (0.9, 1.5) if n % 2 else (0.6, 0.5)
                yield {"pairs": pairs, "rule": rule, "step": step} | {
                    "keep": keep,
                    "strength": strength,
                }

    def picture(self) -> str:
        """The pairs, the matrix, and for each name what it answers."""
        state, now = self.start(), self.result(self.start())
        picture = Still(430, 300, self.sentence())
        for n, (letter, which) in enumerate(LISTS[state["pairs"]]):
            role = "ink" if n < state["step"] else "muted"
            picture.text(40 + 70 * n, 20, f"{NAMES[letter]} is {which + 1}", role)
        picture.text(76, 52, "memory", bold=True)
        table(picture, now["S"], 10, 64)
        picture.text(310, 52, "answers to each name", bold=True)
        for n, words in enumerate(NAMES):
            picture.text(230, 84 + 34 * n, words)
        asked = sorted({name for name, _ in LISTS[state["pairs"]][: state["step"]]})
        for name in asked:
            table(picture, [now["answers"][name]], 244, 64 + 34 * name)
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        if not state["step"]:
            return "Nothing is written yet: the memory answers 0 to every name."
        name, which = LISTS[state["pairs"]][state["step"] - 1]
        answer = ", ".join(f"{x:.2f}".replace("-", "−") for x in now["answers"][name])
        return (
            f"Written last: {NAMES[name]} is {which + 1}. Asked for {NAMES[name]}, the memory "
            f"answers ({answer}). Of {now['known']} names, {now['right']} "
            f"{'is' if now['right'] == 1 else 'are'} answered with the newest number."
        )


def key(name: int) -> Tensor:
    return torch.tensor(KEYS[name], dtype=torch.float64)


def written(S: Tensor, k: Tensor, v: Tensor, state: dict) -> tuple[Tensor, Tensor]:
    """What the faded memory answers to `k`, and the memory after the pair."""
    log_decay = torch.tensor([state["keep"]], dtype=torch.float64).log()
    old = state["keep"] * S.T @ k
    if state["rule"] == "add":
        return old, gated_step(S, k, k, v, log_decay)[1]
    beta = torch.tensor(state["strength"], dtype=torch.float64)
    return old, delta_step(S, k, k, v, beta, log_decay)[1]


def says(answer: Tensor) -> int:
    """The number with the largest share; −1 if two are equally large, or all are 0."""
    best = answer.max().item()
    alike = [n for n, x in enumerate(answer.tolist()) if abs(x - best) < 1e-9]
    return alike[0] if len(alike) == 1 and best > 1e-9 else -1


def table(picture: Still, rows: list[list[float]], x: int, y: int) -> None:
    """Cells with numbers."""
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            role = "state" if x < 200 else "output"
            picture.cell(x + 44 * j, y + 34 * i, 42, 32, role, min(1, abs(value)), number(value))
