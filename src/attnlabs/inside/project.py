"""Runs one stage of a project of lab 8 in the sandbox: reading, training, encoding, predicting.

A stage is a process of its own, in a sandbox of its own, so that what encodes the held-out text
cannot tell what predicts it. What comes in (standard input): a line of JSON and what it announces,
the notebook first. What goes out: lines of JSON, each followed by as many bytes as it says. How
the process ended, and the processor time it took, is told by the one that watches it, elsewhere
(standard error), where the student's code cannot write.
"""

import ast
import json
import os
import resource
import signal
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from attnlabs.inside import cells, child
from attnlabs.inside.answer import executed, short

TICKS = os.sysconf("SC_CLK_TCK")
LATIN = "latin-1"  # each byte is one character
MOST_HELD = 2000  # characters of the constants of a statement
LONG_NAME = 40  # characters
MOST_PACKED = 12_000  # bytes of all code, packed; our longest reference has 3,600
EVERY = 0.05  # seconds after which the processes are counted again


def main() -> None:
    """Read the stage, let a process run it, watch what it takes, and say how it ended."""
    child.guard()
    head = json.loads(sys.stdin.buffer.readline())
    blobs = [sys.stdin.buffer.read(size) for size in head["sizes"]]
    started = time.monotonic()
    process = os.fork()
    if process == 0:
        try:
            run(head, blobs)
        finally:
            os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    status, used = watched(process, head["limits"])
    child.sweep(process)
    took = {"status": status, "cpu": round(used, 2), "wall": round(time.monotonic() - started, 2)}
    os.write(2, json.dumps(took).encode() + b"\n")


def watched(process: int, limits: Mapping[str, Any]) -> tuple[str, float]:
    """How the process ended, "" for by itself, and the seconds that it and its children took."""
    deadline, clock = time.monotonic() + limits["wall"], Clock(process)
    while True:
        used = clock.read()
        done, state = os.waitpid(process, os.WNOHANG)
        if done:
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = max(clock.read(), usage.ru_utime + usage.ru_stime)
            code = os.waitstatus_to_exitcode(state)
            ended = {0: "", -signal.SIGXCPU: "time"}  # the kernel's own limit
            return ended.get(code, f"killed by signal {-code}"), used
        if used > limits["cpu"]:
            return "time", used
        if time.monotonic() > deadline:
            return "asleep", used
        if child.in_use() > limits["together"]:
            return "memory", used
        time.sleep(EVERY)


class Clock:
    """Seconds of processor time of all that ever ran in this sandbox, but for the one that watches.

    A process that ends unseen by its parent (SIGCHLD ignored) leaves its time nowhere. So each is
    asked for its own while it runs; and for every process or thread that came and went between two
    looks, which the numbers of the new ones tell, as much is counted as it can have had.
    """

    def __init__(self, process: int, proc: Path = Path("/proc")) -> None:
        self.process, self.proc = process, proc
        self.spent: dict[tuple[str, str], int] = {}
        self.first = self.last = 0
        self.met: set[int] = set()

    def read(self) -> float:
        """Look once more, and add up."""
        if os.environ.get("ATTNBOOK_SANDBOX") != "bwrap":
            self.look(self.proc / str(self.process))
            return sum(self.spent.values()) / TICKS
        for folder in self.proc.glob("[0-9]*"):
            if folder.name != str(os.getpid()):
                self.look(folder)
        with suppress(OSError, ValueError, IndexError):
            self.last = int((self.proc / "loadavg").read_text().split()[-1])
        self.first = self.first or self.process
        unseen = max(0, self.last - self.first - len([n for n in self.met if n > self.first]))
        return sum(self.spent.values()) / TICKS + EVERY * unseen

    def look(self, folder: Path) -> None:
        """The most that a process has had, and which threads it has."""
        with suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            own = int(fields[11]) + int(fields[12])
            key = folder.name, fields[19]  # its number, and when it began
            self.spent[key] = max(self.spent.get(key, 0), own)
            self.met |= {int(path.name) for path in (folder / "task").glob("[0-9]*")}


def run(head: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    """The process of the student's code: it says what the stage finds, or what went wrong."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.setsid()
    child.restrict(head["limits"])
    talk = Talk(requests, answers)
    stages: dict[str, Callable[..., None]] = {
        "read": read,
        "submit": submit,
        "encode": encode,
        "predict": predict,
    }
    try:
        stages[head["stage"]](talk, head, *blobs)
    except BaseException as error:
        said = short(error)
        talk.say({"error": said if head["stage"] == "submit" else said.split(": ")[0]})


class Talk:
    """Frames to the grader and back: a line of JSON, and bytes."""

    def __init__(self, requests: int, answers: int):
        self.requests = os.fdopen(requests, "rb")
        self.answers = os.fdopen(answers, "wb")

    def say(self, note: dict[str, Any], blob: bytes = b"") -> None:
        self.answers.write(json.dumps({**note, "bytes": len(blob)}).encode() + b"\n" + blob)
        self.answers.flush()

    def hear(self) -> tuple[dict[str, Any], bytes]:
        """What is asked; an empty note at the end."""
        note = json.loads(self.requests.readline() or b"{}")
        return note, self.requests.read(note.get("bytes", 0))


def function(raw: bytes, name: str) -> Callable[..., Any]:
    """The project's function of this name, with what it needs of the notebook and no more."""
    tree, wrong = cells.statements(cells.read(raw))
    part = cells.needed(tree, name)
    missing = cells.missing(part, wrong, name)
    if missing:
        raise NotImplementedError(f"{name}: {missing}")
    names, trouble = executed(part, {name}, {})
    if not callable(names.get(name)) or trouble:
        raise ImportError(f"what {name} needs does not run: {'; '.join(trouble)}")
    return names[name]


def submit(talk: Talk, head: Mapping[str, Any], raw: bytes, text: bytes) -> None:
    """Train: `submit(text, seconds)` gives vocabulary and weights, which are handed over."""
    vocabulary, weights = function(raw, "submit")(text, head["seconds"])
    tokens = [bytes(token).decode(LATIN) for token in vocabulary]
    plain = {str(name): as_plain(value) for name, value in weights.items()}
    talk.say({"vocabulary": tokens}, safetensors.torch.save(plain) if plain else b"")


def as_plain(value: Any) -> torch.Tensor:
    """A tensor that shares no memory and has no gradient."""
    return torch.as_tensor(value).detach().cpu().contiguous().clone()


def encode(talk: Talk, head: Mapping[str, Any], raw: bytes, texts: bytes, tokens: bytes) -> None:
    """The tokens of each text, by `encode(text, vocabulary)`."""
    own, vocabulary = function(raw, "encode"), [word.encode(LATIN) for word in json.loads(tokens)]
    found = [own(text.encode(LATIN), list(vocabulary)) for text in json.loads(texts)]
    talk.say({"ids": [[int(number) for number in ids] for ids in found]})


def predict(talk: Talk, head: Mapping[str, Any], raw: bytes, weights: bytes, tokens: bytes) -> None:
    """Answer with log-probabilities of the next token, again and again, as tokens are revealed."""
    vocabulary = [word.encode(LATIN) for word in json.loads(tokens)]
    loaded = safetensors.torch.load(weights) if weights else {}
    own = function(raw, "predictor")(vocabulary, loaded)
    talk.say({"ready": True})
    ids = torch.zeros(head["rows"], 0, dtype=torch.long)
    while True:
        note, blob = talk.hear()
        if not note:
            return
        new = torch.frombuffer(bytearray(blob), dtype=torch.int64).view(head["rows"], -1)
        ids = torch.cat([ids, new], dim=1)
        with torch.no_grad():
            found = torch.as_tensor(own(ids.clone()), dtype=torch.float32).detach().contiguous()
        talk.say({"shape": list(found.shape)}, found.numpy().tobytes())


def read(talk: Talk, head: Mapping[str, Any], raw: bytes) -> None:
    """What a file says of itself: the name of the team, what a person should look at, and a
    sentence where it cannot be scored, None if it is no notebook. Then its code alone."""
    note: dict[str, Any] = {"team": "", "look": "", "wrong": None}
    code = b""
    with suppress(Exception):
        pairs = cells.read(raw)
        size = sum(len(source) for kind, source in pairs if kind == "code")
        if size > head["most"]:
            words = f"{size:,} characters of code are too much; {head['most']:,} are allowed."
            note["wrong"] = words
        else:
            _, note["team"], note["look"] = code_of(raw)
            code = code_alone(raw)
            note["wrong"] = without(raw)
    talk.say(note, code)


def code_alone(raw: bytes) -> bytes:
    """A notebook of the code alone, as Python has understood it: no comments, text, outputs and
    metadata, in which something could travel that nobody has counted. Nothing runs."""
    tree, _ = cells.statements(cells.read(raw))
    by_cell: dict[int, list[ast.stmt]] = {}
    for statement in tree:
        by_cell.setdefault(getattr(statement, "cell", 0), []).append(statement)
    plain = [ast.unparse(ast.Module(part, [])) for part in by_cell.values()]
    return json.dumps({"cells": [{"cell_type": "code", "source": text} for text in plain]}).encode()


def without(raw: bytes) -> str:
    """A sentence if a function of a project is not there, or its cell is not Python."""
    tree, wrong = cells.statements(cells.read(raw))
    for name in ("submit", "encode", "predictor"):
        if missing := cells.missing(cells.needed(tree, name), wrong, name):
            return f"{name}: {missing}"
    return ""


def code_of(raw: bytes) -> tuple[int, str, str]:
    """How many characters of code a notebook has, the name in `TEAM`, and its largest constants.

    Nothing runs. Constants, docstrings and names are told in words where they are long enough to
    hold a text, and so is the code where it stays long when it is packed: in whatever form a text
    is hidden, it has to be somewhere.
    """
    pairs = cells.read(raw)
    tree, _ = cells.statements(pairs)
    team, large, together = "", "", 0
    for statement in tree:
        value = getattr(statement, "value", None)
        targets = [getattr(each, "id", "") for each in getattr(statement, "targets", [])]
        if "TEAM" in targets and isinstance(getattr(value, "value", None), str):
            team = str(getattr(value, "value", ""))[:40].strip()
        size = held(statement)
        together += size
        if size > MOST_HELD:
            place = getattr(statement, "cell", "?")
            large = (
                large or f"cell {place} has constants of {size:,} characters: a text or weights?"
            )
    if together > 4 * MOST_HELD and not large:
        large = f"its constants have {together:,} characters together: a text or weights?"
    packed = len(zlib.compress(code_alone(raw), 9))
    if packed > MOST_PACKED and not large:
        large = f"its code has {packed:,} bytes when it is packed: a text or weights?"
    return sum(len(source) for kind, source in pairs if kind == "code"), team, large


def held(statement: ast.stmt) -> int:
    """How many characters its constants have, docstrings too, and names that nobody would type."""
    count = 0
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant):
            value = node.value
            count += value.bit_length() // 3 if isinstance(value, int) else len(repr(value))
        for name in ("id", "attr", "arg", "name"):
            word = getattr(node, name, None)
            count += len(word) if isinstance(word, str) and len(word) > LONG_NAME else 0
    return count
