"""The row of one submission: what grading fills in, a person reads, and tables are made of."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["graded", "review", "incomplete", "not a notebook", "not read", "empty", "error"]
READ: tuple[Status, ...] = ("graded", "review", "incomplete")  # of files that are notebooks

BY_HAND = "set by hand"  # what is said of points that a person has decided
NO_NOTEBOOK: tuple[Status, ...] = ("not a notebook", "not read", "empty")


@dataclass
class Answer:
    """What became of one question: its points (None while a person must read it), a sentence for
    the student, and the names of the mistakes that were recognised.

    `read` is the text a lecturer gave points for, where it is not the one handed in now. `table` is
    shown below the sentence: a head and rows, as lab 12 has of its forecasts.
    """

    points: int | float | None
    text: str
    mistakes: list[str] = field(default_factory=list)
    read: str | None = None
    table: list[list[str]] = field(default_factory=list)


@dataclass
class Row:
    """One submission. `student` is whose copy of the lab it says it is, "" where all have the same.

    `questions` has an `Answer` by the question's name, `answers` the written texts by its number;
    `reason` says why the file as a whole has no points, `review` what a lecturer should look at,
    `notes` what is good to know and nothing to do about.
    """

    file: str
    student: str = ""
    status: Status = "graded"
    reason: str = ""
    questions: dict[str, Answer] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    review: list[str] = field(default_factory=list)
    seconds: int | float = 0
    notes: list[str] = field(default_factory=list)
    late: int = 0  # days
    percent: int = 0  # of the points that each day costs
    code: str = ""  # a checksum of all code of the student's own, if there is enough of it
    form: str = ""  # the same of that code without its names and texts

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Row":
        """The row that `to_dict` has made a dictionary of."""
        questions = {name: Answer(**answer) for name, answer in stored["questions"].items()}
        return cls(**stored | {"questions": questions})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def total(self) -> int | float:
        """All points together less what being late costs; what is still to be read is 0."""
        left = 1 - self.taken_off / 100
        return round(left * sum(answer.points or 0 for answer in self.questions.values()), 2)

    @property
    def taken_off(self) -> int:
        """How many per cent of the points being late costs."""
        return min(100, self.late * self.percent)

    @property
    def is_open(self) -> bool:
        """Is there an answer left that a person must read?"""
        return any(answer.points is None for answer in self.questions.values())

    def look_at(self, reasons: list[str]) -> None:
        """A person should look at this row, for these reasons, if there are any."""
        self.review += reasons
        if reasons and self.status == "graded":
            self.status = "review"

    def settled(self, name: str) -> None:
        """A person has decided about a question: what was to be looked at there becomes a note."""
        about = [reason for reason in self.review if reason.startswith(f"{name}: ")]
        self.review = [reason for reason in self.review if reason not in about]
        self.notes += about
        if not self.review and self.status == "review":
            self.status = "graded"
