"""Grades submissions: one row for each file, whatever is in it.

The students' code runs elsewhere (`sandbox.py`); here numbers are compared. Each row is stored as
soon as it is there, so a run that was stopped goes on where it was.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from attnbook.files import store
from attnbook.labs import release, variants
from attnbook.labs.grading import sandbox
from attnbook.labs.grading.folder import stored
from attnbook.labs.grading.replies import ENDED, Reply, note_calls
from attnbook.labs.grading.row import Answer, Row
from attnbook.labs.grading.submissions import Submission
from attnbook.labs.judge import judge
from attnbook.labs.question import Argument, Case, Sheet, drawn, sheet
from attnbook.labs.source import Asked, Lab


@dataclass
class Grader:
    """A lab made ready for grading: what to ask, what to compare with.

    `seed` draws the numbers the answers are tried on; `program` is the sandbox's (`walls`);
    `limits` replace some of `sandbox.LIMITS`.
    """

    lab: Lab
    seed: int
    program: str | None = None
    limits: dict[str, int] | None = None

    def __post_init__(self) -> None:
        questions = self.lab.compared.items()
        self.cases = {name: drawn(question, self.seed) for name, question in questions}
        self.known: dict[tuple[str, ...], Sheet] = {}
        self.sheets = self.sheets_of("")
        self.arguments: dict[str, torch.Tensor] = {}
        given, jobs = release.handed_out(self.lab), []
        for name, question in questions:
            packed = [self.packed(name, n, case) for n, case in enumerate(self.cases[name])]
            others = [other for other in self.cases if other != name]
            rules = {"banned": list(question.banned), "given": given, "others": others}
            jobs.append({"name": name, "cases": packed} | rules)
        written = [asked.number for asked in self.lab.asked if not asked.code]
        self.job = {"questions": jobs, "written": written, "limits": self.limits or {}}

    def packed(self, name: str, number: int, case: Case) -> list[Argument | str]:
        """The arguments of a case: whole numbers as they are, tensors by the name they go under."""
        packed: list[Argument | str] = []
        for place, argument in enumerate(case.arguments):
            if isinstance(argument, torch.Tensor):
                self.arguments[f"{name}/{number}/{place}"] = argument
                packed.append(f"{name}/{number}/{place}")
            else:
                packed.append(argument)
        return packed

    def sheets_of(self, student: str) -> dict[str, Sheet]:
        """What this student's answers are compared with; computed once for all who share it."""
        lab, sheets = self.lab.of(student), {}
        for name, question in lab.compared.items():
            flips = lab.flips(name)
            key = name, *sorted(flips)
            if key not in self.known:
                self.known[key] = sheet(question, self.cases[name], flips)
            sheets[name] = self.known[key]
        return sheets

    @property
    def key(self) -> str:
        """Rows of another lab, seed or version of the answers are not these."""
        files = [self.lab.path, self.lab.path.with_suffix(".py")]
        content = b"".join(path.read_bytes() for path in files) + str(self.seed).encode()
        return hashlib.sha256(content).hexdigest()[:8]

    def row(self, submission: Submission, box: Path, number: int = 0) -> Row:
        """The row of one submission. Nothing in a submission makes this raise."""
        started = time.monotonic()
        row = Row(submission.file)
        if submission.content is None:
            row.status, row.reason = "not read", "the file is too large or cannot be read."
        elif not submission.content.strip():
            row.status, row.reason = "empty", "the file is empty."
        else:
            replies = sandbox.run(
                self.job, self.arguments, submission.content, box, self.program, number
            )
            self.fill(row, replies)
        for asked in self.lab.asked:
            nothing = Answer(0 if asked.code else None, row.reason)
            row.questions.setdefault(asked.name, nothing)
        row.seconds = round(time.monotonic() - started, 1)
        return row

    def fill(self, row: Row, replies: dict[str, Reply]) -> None:
        """Status, reason, questions, written answers and what the lecturer should look at."""
        first = replies.get("", Reply("crashed"))
        if first.status != "ok" or "error" in first.note:
            reason = first.note.get("error") or f"the file cannot be read ({first.status})"
            row.status, row.reason = "not a notebook", f"{reason}."
            return
        row.student = self.student(row, first)
        sheets, asked = self.sheets_of(row.student), self.lab.of(row.student).asked
        for question in asked:
            if question.code:
                reply = replies.get(question.name, Reply("lost"))
                row.questions[question.name] = answer_of(question, sheets[question.name], reply)
                row.review += flagged(question, reply)
            else:
                text = str(first.note["answers"].get(str(question.number), ""))
                row.answers[str(question.number)] = text.replace(question.prompt, "").strip()
        note_calls(asked, row.questions, replies)
        if all(row.questions[name].text == f"no cell defines {name}." for name in sheets):
            row.review.append("it has none of the functions; is it another lab?")
        if any(name not in replies for name in sheets):
            row.reason = "the sandbox ended early; later questions have no points."
        row.status = "review" if row.review else "incomplete" if row.reason else "graded"

    @staticmethod
    def student(row: Row, first: Reply) -> str:
        """Whose copy the notebook says it is; what is odd about that is noted in the row."""
        students = [name for name in first.lines("students") if name]
        if len(students) > 1:
            row.review.append(f"it names more than one student: {', '.join(students)}")
        student = students[0] if students else ""
        if student and not variants.FORM.fullmatch(student):
            row.review.append(f"no copy is made for a name such as {student!r}")
        return student


def answer_of(asked: Asked, known: Sheet, reply: Reply) -> Answer:
    """Points, a sentence and the mistakes of one function."""
    if reply.status != "ok" or "missing" in reply.note:
        reason = ENDED.get(reply.status, f"the process was {reply.status}.")
        return Answer(0, str(reply.note.get("missing") or reason)[:500])
    verdict = judge(known, reply.outcomes(known))
    trouble = [f" ({line})" for line in reply.lines("trouble") if verdict.share < 1]
    text = (verdict.text + "".join(trouble))[:1000]
    return Answer(round(asked.points * verdict.share, 2), text, list(verdict.mistakes))


def flagged(asked: Asked, reply: Reply) -> list[str]:
    """What the question asks not to use and was used: a person decides."""
    if reply.status != "ok" or "missing" in reply.note:
        return []
    used = reply.lines("used")
    what = [name if name.startswith("without ") else f"uses torch's {name}" for name in used]
    return [f"{asked.name}: {words}" for words in what]


def grade(
    grader: Grader,
    submissions: Sequence[Submission],
    folder: Path,
    workers: int | None = None,
    quiet: bool = False,
) -> list[Row]:
    """All rows, in the order of the submissions; those that are stored are not graded again."""
    folder = Path(folder) / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{submission.key}-{grader.key}.json" for submission in submissions]
    todo = [n for n, path in enumerate(paths) if stored(path) is None]
    with sandbox.box() as box, ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        jobs = {pool.submit(keep, grader, submissions[n], box, n, paths[n]): n for n in todo}
        bar = tqdm(total=len(paths), initial=len(paths) - len(todo), unit="file", disable=quiet)
        try:
            for _ in as_completed(jobs):
                bar.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            tqdm.write("attnbook: finishing the files that are under way", file=sys.stderr)
            raise
        finally:
            bar.close()
    faults = {n: job.exception() for job, n in jobs.items()}
    return [
        read(path) or failed(grader, submissions[n], faults.get(n)) for n, path in enumerate(paths)
    ]


def keep(grader: Grader, submission: Submission, box: Path, number: int, path: Path) -> None:
    """Grade one submission and store its row."""
    store(path, json.dumps(grader.row(submission, box, number).to_dict()))


def read(path: Path) -> Row | None:
    """A row that was stored, or None."""
    found = stored(path)
    return Row.from_dict(found) if found is not None else None


def failed(grader: Grader, submission: Submission, fault: BaseException | None) -> Row:
    """The row of a submission at which our own code failed: no points are made up."""
    reason = f"not graded, please look yourself ({type(fault).__name__}: {fault})"
    questions = {asked.name: Answer(None, "not graded") for asked in grader.lab.asked}
    row = Row(submission.file, "", "error", reason, questions)
    row.review.append("not graded")
    return row
