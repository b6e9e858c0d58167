"""A contest of projects: each trains for the same processor time and predicts the same passages.

What trains sees the training text alone and hands over a vocabulary and weights. What encodes the
passages sees them, and not what predicts; what predicts learns each token after its prediction.
"""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from attnbook.files import store
from attnlabs import nats
from attnlabs.grading import formats, sandbox
from attnlabs.grading.folder import stored
from attnlabs.grading.stages import Failed, Room, Stage
from attnlabs.grading.submissions import Submission

MOST_CODE = 100_000  # characters of code in a notebook
READING = 30.0  # seconds for reading one
LONG = 0.75  # of the seconds of training: so long may predicting take unseen; ours takes 0.4
VERSION = 2  # of the way projects are scored; scores of another are not these


@dataclass(frozen=True)
class Contest:
    """What is the same for all: the text, the passages, and the seconds of processor time.

    `grace` is what training may take beyond `seconds`, as a share; `other` are the seconds for
    encoding and, again, for predicting. `program` is the sandbox's (`walls`).
    """

    train: bytes
    passages: tuple[nats.Block, ...]
    seconds: float
    program: str | None = None
    other: float = 120.0
    grace: float = 0.1

    @property
    def key(self) -> str:
        """Scores of another text, other passages or other times are not these."""
        parts = [self.train, *(part for each in self.passages for part in (each.before, each.text))]
        digest = hashlib.sha256(repr((VERSION, self.seconds, self.other, self.grace)).encode())
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()[:8]

    @property
    def sizes(self) -> np.ndarray:
        """Bytes to be predicted of each passage."""
        return np.array([len(each.text) for each in self.passages])

    def mean(self, paid: np.ndarray) -> tuple[float, float]:
        """Nats per byte over all passages, and the standard error that their differences give."""
        rates = paid / self.sizes
        error = float(rates.std(ddof=1) / len(rates) ** 0.5) if len(rates) > 1 else 0.0
        return float(paid.sum() / self.sizes.sum()), error


@dataclass
class Entry:
    """What became of one project. `nats` is None where it has no score, and `reason` says why.

    `level` marks a reference of ours; `look` what a lecturer should look at; `cpu` are seconds of
    processor time of training, and `wall` all that went by.
    """

    file: str
    team: str = ""
    nats: float | None = None
    error: float | None = None
    reason: str = ""
    look: str = ""
    level: bool = False
    vocabulary: int = 0
    parameters: int = 0
    cpu: float = 0.0
    predicting: float = 0.0


def scored(contest: Contest, submission: Submission, box: Path, number: int = 0) -> Entry:
    """The entry of one project. Nothing in a project makes this raise."""
    entry = Entry(submission.file, submission.owner.name)
    if submission.content is None or not submission.content.strip():
        entry.reason = "the file is empty, too large, or cannot be read."
        return entry
    raw = formats.for_the_sandbox(submission.file, submission.content)
    room = Room(box, contest.program, number)
    try:
        note, code = understood(raw, room)
        entry.team, entry.look = note["team"] or entry.team, note["look"]
        entry.reason = note["wrong"]
        if not entry.reason:
            stages(contest, entry, code, room)
            entry.look = "; ".join(filter(None, [entry.look, long_after(contest, entry)]))
    except (Failed, ValueError) as error:
        entry.reason = f"{str(error)[:400]}."
    return entry


def understood(raw: bytes, room: Room) -> tuple[dict[str, Any], bytes]:
    """What a file says of itself, and its code alone. It is read in the sandbox, where reading has
    limits; nothing of it runs there."""
    with Stage({"stage": "read", "most": MOST_CODE}, [raw], READING, room) as stage:
        note, code = stage.hear()
    if note["wrong"] is None:
        note["wrong"] = formats.why_none(raw)
    return note, code


def long_after(contest: Contest, entry: Entry) -> str:
    """A sentence if predicting took so long that there may be training in it, on a text that was
    handed over as weights."""
    if entry.predicting <= max(30.0, LONG * contest.seconds):
        return ""
    seconds = f"{entry.predicting:.0f} seconds of processor time"
    return f"it predicted for {seconds}: is it trained there?"


def stages(contest: Contest, entry: Entry, raw: bytes, room: Room) -> None:
    """Train, encode, predict; a Failed or ValueError where one of them goes wrong."""
    most = contest.seconds * (1 + contest.grace) + 2
    head: dict[str, Any] = {"stage": "submit", "seconds": contest.seconds}
    with Stage(head, [raw, contest.train], most, room) as stage:
        note, weights = stage.hear()
        stage.ended()
        entry.cpu = stage.took["cpu"]
    vocabulary = nats.checked(tokens_in(note))
    entry.vocabulary, entry.parameters = len(vocabulary), sandbox.numbers_in(weights)
    ids = cut(contest, raw, vocabulary, room)
    head = {"stage": "predict", "rows": len(contest.passages)}
    with Stage(head, [raw, weights, packed(vocabulary)], contest.other, room) as stage:
        stage.hear()
        paid = nats.score(asking(stage), ids[::2], ids[1::2], len(vocabulary))
        stage.ended()
        entry.predicting = stage.took["cpu"]
    if not np.isfinite(paid).all():
        raise Failed("predictor: it gave a probability of 0 to what came, which costs without end")
    entry.nats, entry.error = contest.mean(paid)


def cut(contest: Contest, raw: bytes, vocabulary: list[bytes], room: Room) -> list[list[int]]:
    """The tokens of what is shown and what is hidden of each passage, in turn."""
    shown = spelt(contest, raw, vocabulary, [each.before for each in contest.passages], room)
    hidden = spelt(contest, raw, vocabulary, [each.text for each in contest.passages], room)
    return [ids for pair in zip(shown, hidden, strict=True) for ids in pair]


def spelt(
    contest: Contest, raw: bytes, vocabulary: list[bytes], texts: list[bytes], room: Room
) -> list[list[int]]:
    """The tokens of these texts, by a process that sees no others. What cuts the shown text must
    not know the hidden one: tokens of the shown text cost nothing, and could tell of it."""
    with Stage(
        {"stage": "encode"}, [raw, packed(texts), packed(vocabulary)], contest.other, room
    ) as stage:
        found = stage.hear()[0].get("ids")
    if not isinstance(found, list) or len(found) != len(texts):
        raise Failed("encode: it does not give tokens for every passage")
    try:
        return [nats.spelt(one, vocabulary, text) for one, text in zip(found, texts, strict=True)]
    except TypeError:
        raise Failed("encode: its tokens are no whole numbers") from None


def packed(texts: Sequence[bytes]) -> bytes:
    """Texts of any bytes as JSON: each byte is a character."""
    return json.dumps([text.decode("latin-1") for text in texts]).encode()


def tokens_in(note: dict[str, Any]) -> list[bytes]:
    """The vocabulary that a project hands over; a Failed if it is none."""
    try:
        return [word.encode("latin-1") for word in note["vocabulary"]]
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError):
        raise Failed("submit: the vocabulary is no list of bytes") from None


def asking(stage: Stage) -> nats.Ask:
    """What asks a stage, and sends only the tokens that it has not been sent before."""
    sent = 0

    def ask(ids: torch.Tensor) -> np.ndarray:
        nonlocal sent
        new, sent = ids[:, sent:], ids.shape[1]
        return stage.ask(new)

    return ask


def run(
    contest: Contest,
    projects: Sequence[Submission],
    levels: Sequence[Submission],
    folder: Path,
    workers: int | None = None,
    quiet: bool = False,
) -> list[Entry]:
    """All entries, levels last; those that are stored are not run again."""
    folder = Path(folder) / "projects"
    folder.mkdir(parents=True, exist_ok=True)
    everyone = [*levels, *projects]
    paths = [folder / f"{one.key}-{contest.key}.json" for one in everyone]
    todo = [n for n, path in enumerate(paths) if stored(path) is None]
    faults: dict[int, BaseException | None] = {}
    with sandbox.box() as box, ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        jobs = {pool.submit(keep, contest, everyone[n], box, n, paths[n]): n for n in todo}
        done = len(paths) - len(todo)
        with tqdm(total=len(paths), initial=done, unit="project", disable=quiet) as bar:
            try:
                for job in as_completed(jobs):
                    faults[jobs[job]] = job.exception()
                    bar.update()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                tqdm.write("attnlabs: finishing the projects that are under way", file=sys.stderr)
                raise
    both = enumerate(zip(paths, everyone, strict=True))
    found = [read(path, one, faults.get(n)) for n, (path, one) in both]
    for entry in found[: len(levels)]:
        entry.level = True
    return found


def keep(contest: Contest, submission: Submission, box: Path, number: int, path: Path) -> None:
    """Score one project and store its entry."""
    store(path, json.dumps(asdict(scored(contest, submission, box, number))))


def read(path: Path, submission: Submission, fault: BaseException | None) -> Entry:
    """The entry that was stored; if our own code failed at it, one that says so."""
    found: dict[str, Any] | None = stored(path)
    if found is not None:
        return Entry(**found)
    reason = f"not scored, please look yourself ({type(fault).__name__}: {fault})"
    return Entry(submission.file, submission.owner.name, reason=reason)


def baselines(contest: Contest) -> dict[str, tuple[float, float]]:
    """What is known without learning: chance, and tables of counts of the training text."""
    found = {"chance: ln 256": (nats.CHANCE, 0.0)}
    names = {
        0: "counts of single bytes",
        1: "counts of pairs of bytes",
        4: "counts of 1 to 5 bytes",
    }
    for order, name in names.items():
        paid = nats.counted(contest.train, contest.passages, order)
        found[name] = contest.mean(paid)
    return found
