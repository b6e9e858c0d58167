"""Grades submissions: one row for each file, whatever is in it.

The students' code runs elsewhere (`sandbox.py`); here numbers are compared. Each row is stored as
soon as it is there, so a run that was stopped goes on where it was.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from attnbook.files import store
from attnlabs import errors, own, parts, release, rules, variants
from attnlabs.grading import board, finds, follow, formats, sandbox
from attnlabs.grading.folder import stored
from attnlabs.grading.replies import ENDED, Reply, blamed
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.judge import judge
from attnlabs.question import Argument, Case, Sheet, drawn, sheet
from attnlabs.source import Asked, Lab


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
        jobs += self.projects(given)
        written = [asked.number for asked in self.lab.asked if not asked.code]
        self.job: dict[str, Any] = {"questions": jobs, "written": written}
        self.job["limits"] = self.limits or {}
        several = [part for each in self.lab.parts.values() for part in each]
        self.job["also"] = [n for part in several if part.kind not in parts.ASKS for n in part.of]

    def projects(self, given: Sequence[str]) -> list[dict[str, Any]]:
        """What is asked of the parts of a project, each in a process of its own."""
        self.asks: dict[str, dict[str, Any]] = {}
        jobs = []
        for name, several in self.lab.parts.items():
            for part in several:
                asks = parts.ASKS.get(part.kind)
                if asks is None:  # the leaderboard tells, or the contest
                    continue
                job = f"{name}/{part.kind}"
                self.asks[job] = asks(self.seed % 10**6)
                one: dict[str, Any] = {
                    "name": job,
                    "part": part.kind,
                    "of": list(part.of),
                    "given": list(given),
                }
                one |= {"banned": [*part.banned], "ask": self.asks[job], "cases": []}
                jobs.append(one | {"others": [], "trained": [], "plain": []})
        return jobs

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
        """Rows of another lab, seed, grader, machine, other limits or other walls are not these."""
        content = [path.read_bytes() for path in (self.lab.path, self.lab.path.with_suffix(".py"))]
        content += [path.read_bytes() for path in sorted(sandbox.LABS.rglob("*.py"))]
        limits = sorted({**sandbox.LIMITS, **(self.limits or {})}.items())
        rest = self.seed, limits, self.program is not None, torch.__version__
        digest = hashlib.sha256(repr(rest).encode())
        for part in content:
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()[:8]

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
            replies = self.replies(raw, box, number)
            self.fill(row, replies, raw)
            note = replies.get("", Reply("lost")).note
            row.code, row.form = str(note.get("own", "")), str(note.get("form", ""))
            self.follow(row, replies, raw, box, number)
        for asked in self.lab.asked:
            nothing = Answer(0 if asked.code else None, row.reason)
            row.questions.setdefault(asked.name, nothing)
        row.seconds = round(time.monotonic() - started, 1)
        return row

    def replies(self, raw: bytes, box: Path, number: int) -> dict[str, Reply]:
        """What the submission replies to all questions. Where one of them ends the whole sandbox,
        those after it are asked in another."""
        run = partial(sandbox.run, arguments=self.arguments, raw=raw, folder=box)
        run = partial(run, program=self.program, number=number, hidden=(self.lab.path.parent,))
        found, questions = run(self.job), self.job["questions"]
        names = []
        for question in questions:
            names += [question["name"]]
            names += [f"{question['name']}/slopes"] if question["trained"] else []
        while "" in found and (lost := [name for name in names if not there(found, name)]):
            found[lost[0]] = Reply("lost")
            if left := [q for q in questions if q["name"] in lost[1:]]:
                found |= run({**self.job, "questions": left})
        return found

    def fill(self, row: Row, replies: dict[str, Reply], raw: bytes) -> None:
        """Status, reason, questions, written answers and what the lecturer should look at."""
        first = replies.get("", Reply("crashed"))
        if first.status != "ok" or "error" in first.note:
            row.status, row.reason = "not a notebook", formats.why_none(raw)
            return
        row.student = self.student(row, first)
        sheets, asked = self.sheets_of(row.student), self.lab.of(row.student).asked
        for question in asked:
            if question.name in self.lab.parts:
                self.fill_part(row, question, replies, first)
            elif question.code:
                reply = replies.get(question.name, Reply("lost"))
                answer = self.answer(question, row, replies, first)
                broken = ruled_out(question, reply, first, sheets[question.name].banned)
                answer.text += rules.told(broken) if answer.points else ""
                row.questions[question.name] = answer
                row.review += flagged(question, reply, first, broken)
                row.notes += [f"{question.name}: graded without {line}" for line in reply.left]
            else:
                text = str(first.note["answers"].get(str(question.number), ""))
                row.answers[str(question.number)] = text.replace(question.prompt, "").strip()
        if sheets and all(
            row.questions[name].text == f"no cell defines {name}." for name in sheets
        ):
            row.review.append("it has none of the functions; is it another lab?")
        lost = [name for name in sheets if replies.get(name, Reply("lost")).status == "lost"]
        row.review += [f"{name}: it ended the sandbox in which it was tried" for name in lost]
        row.review += own.look({name: each.mistakes for name, each in row.questions.items()})
        row.status = "review" if row.review else "incomplete" if row.reason else "graded"

    def answer(
        self,
        asked: Asked,
        row: Row,
        replies: dict[str, Reply],
        first: Reply,
        silent: bool = False,
    ) -> Answer:
        """Points, a sentence and the mistakes of one function, in the copy of the row's student.

        `first` is what the file says before anything in it has run. `silent`: no error is put into
        words, since the process has had an answer of the lab's, letters of which it could choose.
        """
        reply = replies.get(asked.name, Reply("lost"))
        slopes = replies.get(f"{asked.name}/slopes", Reply("lost"))
        known = self.sheets_of(row.student)[asked.name]
        if not reply.is_there:
            missing = first.note.get("missing", {}).get(asked.name) or "it is not there."
            reason = ENDED.get(reply.status, f"the process was {reply.status}.")
            return Answer(0, missing if reply.status == "ok" else reason)
        unknown = first.note.get("unknown", {}).get(asked.name, [])
        say: Callable[[str], str] = partial(
            errors.told, names={"a cell", *self.cases}, unknown=unknown
        )
        say = (lambda _: errors.WORDLESS) if silent else say
        random = reply.note.get("random") is True
        done = reply.effects(known, slopes)
        found = reply.outcomes(known)
        verdict = judge(known, found, random, say, done, private=True)
        text = verdict.text
        if verdict.share < 1:
            # One only: a process may write twenty, and so choose words for twenty hidden numbers
            first_trouble = [] if silent else reply.lines("trouble")[:1]
            text += "".join(f" (Before that, {say(line)})" for line in first_trouble)
            text += "".join(f" (Without {line}, with which it ends badly.)" for line in reply.left)
        points, mistakes = round(asked.points * verdict.share, 2), list(verdict.mistakes)
        below = own.table(known.own, known.student, found) if known.own else []
        return Answer(points, text[:2000], mistakes, table=below)

    def fill_part(self, row: Row, asked: Asked, replies: dict[str, Reply], first: Reply) -> None:
        """Points and sentences about a part of a project, of which nothing is compared."""
        share, lines, mistakes, missing = 0.0, [], [], first.note.get("missing", {})
        for part in self.lab.parts[asked.name]:
            absent = [f"{name}: {why}" for name in part.of if (why := missing.get(name))]
            broken = [line for line in absent if "is not Python" in line]
            row.review += [line for line in broken if line not in row.review]
            used = first.note.get("used", {})
            for name in part.of:
                what = [f"uses torch.{w}" for w in used.get(name, []) if w in part.banned]
                what += [f"uses {w}; what for?" for w in used.get(name, []) if w not in part.banned]
                row.review += [f"{asked.name}: {words} in {name}" for words in what]
            if part.kind not in parts.ASKS:
                waits = finds.WAITS if asked.name in self.lab.contests else board.WAITS
                row.questions[asked.name] = Answer(0 if absent else None, " ".join(absent) or waits)
                return
            if absent:
                lines += [line for line in absent if line not in lines]
                continue
            said = self.tried(part, replies.get(f"{asked.name}/{part.kind}", Reply("lost")))
            share += part.share * said.share
            mistakes += said.mistakes
            lines += said.lines
        points = round(asked.points * share, 2)
        text = " ".join(lines) or "right: all that was tried holds."
        row.questions[asked.name] = Answer(points, text[:2000], list(dict.fromkeys(mistakes)))

    def tried(self, part: parts.Part, reply: Reply) -> parts.Said:
        """What a process says of a part, judged here."""
        if reply.status != "ok":
            reason = ENDED.get(reply.status, f"the process was {reply.status}.")
            return parts.Said(0.0, [f"{part.kind}: {reason}"])
        say = partial(errors.told, names={"a cell", *part.of})
        stops = reply.note.get("errors")
        stops = stops if isinstance(stops, dict) else {}
        ask = parts.ASKS[part.kind](self.seed % 10**6)
        cases = parts.cases(part.kind, ask)
        found = {
            case: reply.parts(case) or say(str(stops.get(case, "no result"))[:300])
            for case in cases
        }
        return parts.judged(part.kind, ask, found)

    def follow(
        self, row: Row, replies: dict[str, Reply], raw: bytes, box: Path, number: int
    ) -> None:
        """Try once more what calls something wrong, with a right version of that."""
        lab = self.lab.of(row.student)
        blame = blamed(lab.asked, row.questions, replies[""]) if row.questions else {}
        blame = {n: o for n, o in blame.items() if not lab.compared[n].own}  # no right one for all
        again: dict[str, Reply] = {}
        for job in follow.jobs(self.job, lab, blame):
            hidden = (self.lab.path.parent,)
            again |= sandbox.run(job, self.arguments, raw, box, self.program, number, hidden)
        for question in lab.asked:
            name, after = question.name, None
            if name in blame:
                if name in again and again[name].is_there:
                    after = self.answer(question, row, again, replies[""], silent=True)
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


def there(found: Mapping[str, Reply], name: str) -> bool:
    """Has this question been answered, or is there nothing to answer? Gradients are asked for only
    where a function has ended well."""
    first = found.get(name.removesuffix("/slopes"))
    return name in found or (
        name.endswith("/slopes") and first is not None and first.status != "ok"
    )


def ruled_out(asked: Asked, reply: Reply, first: Reply, banned: Collection[str]) -> list[str]:
    """What the question asks not to use and was used, as the code says or a run has shown."""
    if not reply.is_there:
        return []
    written = first.note.get("used", {}).get(asked.name, [])
    return [name for name in dict.fromkeys([*written, *reply.lines("used")]) if name in banned]


def flagged(asked: Asked, reply: Reply, first: Reply, broken: Sequence[str]) -> list[str]:
    """What is ruled out and was used, and what looks around: a person decides."""
    if not reply.is_there:
        return []
    written = first.note.get("used", {}).get(asked.name, [])
    what = [rules.words(rule) for rule in broken]
    what += [f"uses {name}; what for?" for name in written if name not in broken]
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
            tqdm.write("attnlabs: finishing the files that are under way", file=sys.stderr)
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
