"""Where a person's decisions go when a file is handed in anew: platforms give it another name."""

from collections.abc import Callable, Sequence

from attnlabs.grading.row import READ, Row
from attnlabs.grading.submissions import Submission

Successor = Callable[[str], str | None]


def successors(submissions: Sequence[Submission], rows: Sequence[Row]) -> Successor:
    """A function from the name of a file that is not here to the same person's one that is.

    None if the file is here, if its name tells no number, or if that person has no notebook here or
    several.
    """
    here, own = {submission.file for submission in submissions}, dict[str, list[str]]()
    for submission, row in zip(submissions, rows, strict=True):
        if row.status in READ:
            own.setdefault(submission.owner.number, []).append(submission.file)

    def successor(file: str) -> str | None:
        number = Submission(file, None).owner.number
        found = own.get(number, []) if number and file not in here else []
        return found[0] if len(found) == 1 else None

    return successor
