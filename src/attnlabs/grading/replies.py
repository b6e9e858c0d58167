"""What comes back from the sandbox: its processes may have written anything; nothing is trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from attnlabs.grading.row import Answer
from attnlabs.inside.fingerprints import Outcome, Result, array
from attnlabs.judge import Effects
from attnlabs.question import Case, Sheet
from attnlabs.source import Asked

ENDED = {
    "timeout": "it takes too long; is there an endless loop?",
    "exited": "the process ended without an answer, as after sys.exit or os._exit.",
    "too much": "its results are far larger than they should be.",
    "memory": "its processes together take too much memory.",
    "lost": "it ended the sandbox in which it was tried.",
}


@dataclass(frozen=True)
class Reply:
    """What one process of the sandbox answered: how it ended ("ok", or a word of `ENDED`), after
    how many seconds, its note, and arrays under the names "case/place".

    `left` has the lines of the notebook without which it ended well, and only so.
    """

    status: str
    seconds: float = 0.0
    note: dict[str, Any] = field(default_factory=dict)
    results: dict[str, np.ndarray] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    @property
    def is_there(self) -> bool:
        """Has a function been tried?"""
        return self.status == "ok" and not self.note.get("missing")

    def lines(self, key: str) -> list[str]:
        """A list of short sentences out of the note, whatever the process has written there."""
        listed = self.note.get(key)
        return [str(line)[:300] for line in listed[:20]] if isinstance(listed, list) else []

    def outcomes(self, sheet: Sheet) -> list[Outcome]:
        """For each case the arrays that came back, or a sentence."""
        notes, outcomes = self.lines("notes"), []
        for number in range(len(sheet.cases)):
            parts = self.parts(str(number))
            note = notes[number] if number < len(notes) else ""
            outcomes.append(parts if parts and not note else note or "no result")
        return outcomes

    def parts(self, case: str) -> Result:
        """The arrays that came back under a name, in their order."""
        parts: list[np.ndarray] = []
        while f"{case}/{len(parts)}" in self.results:
            parts.append(self.results[f"{case}/{len(parts)}"])
        return tuple(parts)

    def effects(self, sheet: Sheet, slopes: "Reply") -> Effects:
        """Which arguments are not what they were, and the gradients in the reply `slopes`.

        Both are compared here, with numbers that the process has sent back. What it has not sent
        counts against it: nothing in it can switch this off.
        """
        places = {place for n, case in enumerate(sheet.cases) for place in self.touched(n, case)}
        plain = [n for n, case in enumerate(sheet.cases) if not case.robust]
        found = [slopes.parts(f"slopes/{n}") or "no gradient" for n in plain]
        return Effects(sorted(places), found if sheet.trained else None)

    def touched(self, number: int, case: Case) -> list[int]:
        """The places of the tensors of a case that did not come back as they were."""
        given = [(n, a) for n, a in enumerate(case.arguments) if isinstance(a, torch.Tensor)]
        after = self.parts(f"after/{number}")
        if len(after) != len(given):
            return [place for place, _ in given]
        pairs = zip(given, after, strict=True)
        return [n for (n, one), other in pairs if not np.array_equal(array(one), other, True)]


def wrong_ones(asked: Sequence[Asked], answers: dict[str, Answer]) -> list[str]:
    """The functions that have not all their points, in their order."""
    functions = [question for question in asked if question.code]
    return [q.name for q in functions if (answers[q.name].points or 0) < q.points]


def blamed(
    asked: Sequence[Asked], answers: dict[str, Answer], first: Reply
) -> dict[str, list[str]]:
    """For each wrong function that calls earlier ones that are wrong: which these are.

    `first` is what the file says before anything in it has run: so it is known of a function that
    never came back, too.
    """
    wrong = wrong_ones(asked, answers)
    blame: dict[str, list[str]] = {}
    for number, name in enumerate(wrong):
        called = first.note["calls"].get(name, []) if "calls" in first.note else []
        earlier = [other for other in wrong[:number] if other in called]
        if earlier and not first.note["missing"][name]:
            blame[name] = earlier
    return blame
