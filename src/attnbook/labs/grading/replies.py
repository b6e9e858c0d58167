"""What comes back from the sandbox: its processes may have written anything; nothing is trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnbook.labs.grading.row import Answer
from attnbook.labs.inside.fingerprints import Outcome
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
    how many seconds, its note, and arrays under the names "case/place"."""

    status: str
    seconds: float = 0.0
    note: dict[str, Any] = field(default_factory=dict)
    results: dict[str, np.ndarray] = field(default_factory=dict)

    def lines(self, key: str) -> list[str]:
        """A list of short sentences out of the note, whatever the process has written there."""
        listed = self.note.get(key)
        return [str(line)[:300] for line in listed[:20]] if isinstance(listed, list) else []

    def outcomes(self, sheet: Sheet) -> list[Outcome]:
        """For each case the arrays that came back, or a sentence."""
        notes, outcomes = self.lines("notes"), []
        for number in range(len(sheet.cases)):
            parts: list[np.ndarray] = []
            while f"{number}/{len(parts)}" in self.results:
                parts.append(self.results[f"{number}/{len(parts)}"])
            note = notes[number] if number < len(notes) else ""
            outcomes.append(tuple(parts) if parts and not note else note or "no result")
        return outcomes


def note_calls(
    asked: Sequence[Asked], answers: dict[str, Answer], replies: dict[str, Reply]
) -> None:
    """Where an answer calls one that is wrong, say so: it may have no mistake of its own."""
    functions = [question for question in asked if question.code]
    wrong = [q.name for q in functions if (answers[q.name].points or 0) < q.points]
    for name in wrong:
        called = replies[name].lines("calls") if name in replies else []
        called = [other for other in called if other in wrong]
        if called:
            text = answers[name].text.rstrip()
            text += "" if text.endswith((".", "?", "!", ")")) else "."
            answers[name].text = f"{text} It calls {' and '.join(called)}: mend that first."
