"""Grades submissions: one row for each file, whatever is in it.

The students' code runs elsewhere (`sandbox.py`); here numbers are compared. Each row is stored as
soon as it is there, so a run that was stopped goes on where it was.
"""

import hashlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from attnbook.labs import release, sandbox, variants
from attnbook.labs.folder import store, stored
from attnbook.labs.judge import judge
from attnbook.labs.question import drawn, sheet
from attnbook.labs.replies import SAID, carried, lines, outcomes


@dataclass
class Grader:
    """A lab made ready for grading: what to ask, what to compare with."""

    lab: object
    seed: int
    program: str | None = None
    limits: dict | None = None

    def __post_init__(self):
        self.cases = {name: drawn(one, self.seed) for name, one in self.lab.compared.items()}
        self.known = {}
        self.sheets = self.sheets_of("")
        self.arguments, questions, given = {}, [], release.given(self.lab)
        for name, cases in self.cases.items():
            packed = [self.packed(name, n, case) for n, case in enumerate(cases)]
            rules = {"banned": list(self.lab.compared[name].banned), "given": given}
            rules["others"] = [other for other in self.cases if other != name]
            questions.append({"name": name, "cases": packed} | rules)
        numbers = [asked.number for asked in self.lab.asked if not asked.code]
        self.job = {"questions": questions, "written": numbers, "limits": self.limits or {}}

    def packed(self, name, number, case):
        """The arguments of a case: whole numbers as they are, tensors by the name they go under."""
        packed = []
        for place, argument in enumerate(case.arguments):
            if isinstance(argument, torch.Tensor):
                key = f"{name}/{number}/{place}"
                self.arguments[key] = argument
                argument = key
            packed.append(argument)
        return packed

    def sheets_of(self, student):
        """What this student's answers are compared with; computed once for all who share it."""
        lab, found = self.lab.of(student), {}
        for name, question in lab.compared.items():
            flips = lab.flips(name)
            key = name, *sorted(flips)
            if key not in self.known:
                self.known[key] = sheet(question, self.cases[name], flips)
            found[name] = self.known[key]
        return found

    @property
    def key(self):
        """Rows of another lab, seed or version of the answers are not these."""
        files = [self.lab.path, self.lab.path.with_suffix(".py")]
        told = b"".join(path.read_bytes() for path in files) + str(self.seed).encode()
        return hashlib.sha256(told).hexdigest()[:8]

    def row(self, submission, box, number=0):
        """The row of one submission. Nothing in a submission makes this raise."""
        started = time.monotonic()
        row = {"file": submission.file, "student": "", "questions": {}, "answers": {}}
        row |= {"review": []}
        if submission.content is None:
            row |= {"status": "not read", "reason": "the file is too large or cannot be read."}
        elif not submission.content.strip():
            row |= {"status": "empty", "reason": "the file is empty."}
        else:
            row |= self.graded(submission, box, number)
        for asked in self.lab.asked:
            nothing = {"points": 0 if asked.code else None, "text": row.get("reason", "")}
            row["questions"].setdefault(asked.name, nothing | {"mistakes": []})
        return row | {"seconds": round(time.monotonic() - started, 1)}

    def graded(self, submission, box, number):
        """Status, reason, questions, written answers and what the lecturer should look at."""
        said = sandbox.run(self.job, self.arguments, submission.content, box, self.program, number)
        first = said.get("", {"status": "crashed", "note": {}})
        if first["status"] != "ok" or "error" in first["note"]:
            reason = first["note"].get("error") or f"the file cannot be read ({first['status']})"
            return {"status": "not a notebook", "reason": f"{reason}."}
        questions, answers, review = {}, {}, []
        students = [name for name in lines(first["note"], "students") if name]
        if len(students) > 1:
            review.append(f"it names more than one student: {', '.join(students)}")
        student = students[0] if students else ""
        if student and not variants.FORM.fullmatch(student):
            review.append(f"no copy is made for a name such as {student!r}")
        sheets, lab = self.sheets_of(student), self.lab.of(student)
        for asked in lab.asked:
            if asked.code:
                known = sheets[asked.name]
                questions[asked.name] = self.points(asked, known, said.get(asked.name), review)
            else:
                text = str(first["note"]["answers"].get(str(asked.number), ""))
                answers[str(asked.number)] = text.replace(asked.prompt, "").strip()
        carried(lab.asked, questions, said)
        if all(questions[name]["text"] == f"no cell defines {name}." for name in sheets):
            review.append("it has none of the functions; is it another lab?")
        whole = all(name in said for name in sheets)
        reason = "" if whole else "the sandbox ended early; later questions have no points."
        status = "review" if review else "graded" if whole else "incomplete"
        more = {"questions": questions, "answers": answers, "review": review}
        return {"status": status, "reason": reason, "student": student, **more}

    def points(self, asked, known, reply, review):
        """Points, a sentence and the mistakes of one function."""
        reply = reply or {"status": "lost", "note": {}, "results": {}}
        note, status = reply["note"], reply["status"]
        if status != "ok" or "missing" in note:
            text = note.get("missing") or SAID.get(status, f"the process was {status}.")
            return {"points": 0, "text": str(text)[:500], "mistakes": []}
        verdict = judge(known, outcomes(known, note, reply["results"]))
        for name in lines(note, "used"):
            what = name if name.startswith("without ") else f"uses torch's {name}"
            review.append(f"{asked.name}: {what}")
        trouble = [f" ({line})" for line in lines(note, "trouble") if verdict.share < 1]
        return {
            "points": round(asked.points * verdict.share, 2),
            "text": (verdict.text + "".join(trouble))[:1000],
            "mistakes": list(verdict.mistakes),
        }


def grade(grader, submissions, folder, workers=None, quiet=False):
    """All rows, in the order of the submissions; those that are stored are not graded again."""
    folder = Path(folder) / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{one.key}-{grader.key}.json" for one in submissions]
    todo = [n for n, path in enumerate(paths) if stored(path) is None]
    with sandbox.box() as box, ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        jobs = {pool.submit(kept, grader, submissions[n], box, n, paths[n]): n for n in todo}
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
        stored(path) or failed(grader, submissions[n], faults.get(n))
        for n, path in enumerate(paths)
    ]


def kept(grader, submission, box, number, path):
    """Grade one submission and store its row."""
    store(path, json.dumps(grader.row(submission, box, number)))


def failed(grader, submission, fault):
    """The row of a submission at which our own code failed: no points are made up."""
    nothing = {"points": None, "text": "not graded", "mistakes": []}
    questions = {asked.name: dict(nothing) for asked in grader.lab.asked}
    row = {"file": submission.file, "student": "", "status": "error"}
    row |= {"reason": f"not graded, please look yourself ({type(fault).__name__}: {fault})"}
    return row | {"questions": questions, "answers": {}, "review": ["not graded"], "seconds": 0}
