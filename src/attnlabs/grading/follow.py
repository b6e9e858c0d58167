"""Credit for following through: a question once more, with right versions of what it calls.

Whoever has one mistake in `scores` loses the points of `scores`, and not those of `attend`, which
calls it. A process that tries `attend` so sees a right `scores` and no other answer.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnlabs.grading.row import Answer
from attnlabs.inside import cells
from attnlabs.source import Lab

Job = Mapping[str, Any]


def source(lab: Lab, name: str) -> str:
    """The lab's own answer to a question, with all that it needs, as Python."""
    pairs = [(cell.cell_type, cell.source) for cell in lab.notebook.cells]
    tree = [s for s in cells.statements(pairs)[0] if not cells.only_shows(ast.unparse(s))]
    return "\n".join(map(ast.unparse, cells.needed(tree, name)))


def rounds(blame: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """The questions in groups: none finds in its process the answer to another of its group.

    Processes of one group share the memory they were started from.
    """
    waiting = list(blame)
    while waiting:
        group: list[str] = []
        for name in waiting:
            given = {right for other in [*group, name] for right in blame[other]}
            if not given & {*group, name}:
                group.append(name)
        waiting = [name for name in waiting if name not in group]
        yield group


def jobs(job: Job, lab: Lab, blame: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
    """What the sandbox is to do again, round by round."""
    questions = {question["name"]: question for question in job["questions"]}
    for group in rounds(blame):
        again = [
            questions[name] | {"right": {right: source(lab, right) for right in blame[name]}}
            for name in group
        ]
        yield {**job, "questions": again, "written": []}


def credited(before: Answer, after: Answer | None, called: Sequence[str], worth: int) -> Answer:
    """The answer with the better points; what is said is about the function by itself.

    `after` was tried with right versions of those in `called`, None if it was not.
    """
    names = " and ".join(filter(None, (", ".join(called[:-1]), called[-1])))
    first = f"It calls {names}: mend that first."
    if after is None or (after.points or 0) < (before.points or 0):
        before.text = f"{ended(before.text)} {first}"
        return before
    if after.points == worth:
        wrong = "which is wrong" if len(called) == 1 else "not all of which are right"
        after.text = f"right, with a right version of {names}, which it calls and {wrong}."
    else:
        after.text = f"{ended(after.text)} (Tried with a right version of {names}.) {first}"
    return after


def ended(text: str) -> str:
    """A text that ends like a sentence."""
    text = text.rstrip()
    return text if text.endswith((".", "?", "!", ")")) else f"{text}."
