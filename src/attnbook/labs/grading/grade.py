"""Grades submissions: one row for each file, whatever is in it.

The students' code runs elsewhere (`sandbox.py`); here numbers are compared. Each row is stored as
soon as it is there, so a run that was stopped goes on where it was.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from attnbook.files import store
from attnbook.labs import errors, release, variants
from attnbook.labs.grading import follow, formats, sandbox
from attnbook.labs.grading.folder import stored
from attnbook.labs.grading.replies import ENDED, Reply, blamed
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
            plain = [n for n, case in enumerate(self.cases[name]) if not case.robust]
            rules: dict[str, Any] = {"banned": list(question.banned), "given": given}
            rules |= {"others": others, "trained": self.sheets[name].trained, "plain": plain}
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
            key = name, *sorted(flips), student if question.own else ""
            if key not in self.known:
                self.known[key] = sheet(question, self.cases[name], flips, student)
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
            raw = formats.for_the_sandbox(submission.file, submission.content)
            replies = sandbox.run(self.job, self.arguments, raw, box, self.program, number)
            self.fill(row, replies, raw)
            self.follow(row, replies, raw, box, number)
        for asked in self.lab.asked:
            nothing = Answer(0 if asked.code else None, row.reason)
            row.questions.setdefault(asked.name, nothing)
        row.seconds = round(time.monotonic() - started, 1)
        return row

    def fill(self, row: Row, replies: dict[str, Reply], raw: bytes) -> None:
        """Status, reason, questions, written answers and what the lecturer should look at."""
        first = replies.get("", Reply("crashed"))
        if first.status != "ok" or "error" in first.note:
            row.status, row.reason = "not a notebook", formats.why_none(raw)
            return
        row.student = self.student(row, first)
        sheets, asked = self.sheets_of(row.student), self.lab.of(row.student).asked
        for question in asked:
            if question.code:
                reply = replies.get(question.name, Reply("lost"))
                row.questions[question.name] = self.answer(question, row, reply, first, raw)
                row.review += flagged(question, reply, sheets[question.name].banned)
                row.notes += [f"{question.name}: graded without {line}" for line in reply.left]
            else:
                text = str(first.note["answers"].get(str(question.number), ""))
                row.answers[str(question.number)] = text.replace(question.prompt, "").strip()
        if sheets and all(
            row.questions[name].text == f"no cell defines {name}." for name in sheets
        ):
            row.review.append("it has none of the functions; is it another lab?")
        if any(name not in replies for name in sheets):
            row.reason = "the sandbox ended early; later questions have no points."
        row.status = "review" if row.review else "incomplete" if row.reason else "graded"

    def answer(self, asked: Asked, row: Row, reply: Reply, first: Reply, raw: bytes) -> Answer:
        """Points, a sentence and the mistakes of one function, in the copy of the row's student.

        `first` is what the file says before anything in it has run.
        """
        known = self.sheets_of(row.student)[asked.name]
        if not reply.is_there:
            missing = first.note.get("missing", {}).get(asked.name) or "it is not there."
            reason = ENDED.get(reply.status, f"the process was {reply.status}.")
            return Answer(0, missing if reply.status == "ok" else reason)
        say = partial(errors.told, names={"a cell", *self.cases}, source=raw)
        random = reply.note.get("random") is True
        verdict = judge(known, reply.outcomes(known), random, say, reply.effects(known))
        text = verdict.text
        if verdict.share < 1:
            text += "".join(f" (Before that, {say(line)})" for line in reply.lines("trouble"))
            text += "".join(f" (Without {line}, with which it ends badly.)" for line in reply.left)
        return Answer(round(asked.points * verdict.share, 2), text[:2000], list(verdict.mistakes))

    def follow(
        self, row: Row, replies: dict[str, Reply], raw: bytes, box: Path, number: int
    ) -> None:
        """Try once more what calls something wrong, with a right version of that."""
        lab = self.lab.of(row.student)
        blame = blamed(lab.asked, row.questions, replies) if row.questions else {}
        blame = {n: o for n, o in blame.items() if not lab.compared[n].own}  # no right one for all
        again: dict[str, Reply] = {}
        for job in follow.jobs(self.job, lab, blame):
            again |= sandbox.run(job, self.arguments, raw, box, self.program, number)
        for question in lab.asked:
            name, after = question.name, None
            if name in blame:
                if name in again and again[name].is_there:
                    after = self.answer(question, row, again[name], replies[""], raw)
                before = row.questions[name]
                row.questions[name] = follow.credited(before, after, blame[name], question.points)

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


def flagged(asked: Asked, reply: Reply, banned: Collection[str]) -> list[str]:
    """What the question asks not to use and was used: a person decides."""
    used = [name for name in reply.lines("used") if name in banned] if reply.is_there else []
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
