"""What comes back from the sandbox: its processes may have written anything; nothing is trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnbook.labs.grading.row import Answer
from attnbook.labs.inside.fingerprints import Outcome, Result
from attnbook.labs.judge import Effects
from attnbook.labs.question import Sheet
from attnbook.labs.source import Asked

ENDED = {
    "timeout": "it takes too long; is there an endless loop?",
    "exited": "the process ended without an answer, as after sys.exit or os._exit.",
    "too much": "its results are far larger than they should be.",
    "memory": "its processes together take too much memory.",
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

    def effects(self, sheet: Sheet) -> Effects:
        """Which arguments were changed, and the gradients, where there was time to take them."""
        places = self.note.get("changed")
        listed = places if isinstance(places, list) else []
        named = [n for n in range(len(sheet.arguments)) if n in listed]
        if not isinstance(self.note.get("untaken"), list):
            return Effects(named)
        plain = [n for n, case in enumerate(sheet.cases) if not case.robust]
        return Effects(named, [self.parts(f"slopes/{n}") or "no gradient" for n in plain])


def wrong_ones(asked: Sequence[Asked], answers: dict[str, Answer]) -> list[str]:
    """The functions that have not all their points, in their order."""
    functions = [question for question in asked if question.code]
    return [q.name for q in functions if (answers[q.name].points or 0) < q.points]


def blamed(
    asked: Sequence[Asked], answers: dict[str, Answer], replies: dict[str, Reply]
) -> dict[str, list[str]]:
    """For each wrong function that calls earlier ones that are wrong: which these are."""
    wrong = wrong_ones(asked, answers)
    blame: dict[str, list[str]] = {}
    for number, name in enumerate(wrong):
        called = replies[name].lines("calls") if name in replies else []
        earlier = [other for other in wrong[:number] if other in called]
        if earlier and replies[name].is_there:
            blame[name] = earlier
    return blame
