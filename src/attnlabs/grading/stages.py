"""Starts the stages of a project, each in a sandbox of its own, and talks to them.

`Stage` is one process: what it says is read as JSON and plain numbers, up to a size and a time.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch

from attnlabs.grading import sandbox

START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from attnlabs.inside import project; project.main()"
)
LIMITS = {
    "memory": 3072 * sandbox.MEGA,
    "together": 3072 * sandbox.MEGA,
    "processes": 8,
    "file": 64 * sandbox.MEGA,
}
LARGEST = 64 * sandbox.MEGA  # of one answer: weights, or probabilities of one step
NOTE = 4 * sandbox.MEGA  # of the line before it, which takes far more memory once it is read
ENDED = {
    "": "its process ended without an answer",
    "time": "it took more than {cpu:.0f} seconds of processor time",
    "asleep": "it did not end in {wall:.0f} seconds",
    "memory": f"it took more than {LIMITS['together'] / sandbox.MEGA / 1024:.0f} GB of memory",
}


class Failed(Exception):
    """A stage of a project that did not end well; the words are for its author."""


class Room(NamedTuple):
    """Where a stage runs: the sandbox's `box`, the program of `walls`, and a number that differs
    among projects that run at the same time."""

    box: Path
    program: str | None
    number: int = 0


class Stage:
    """A stage that runs: `with Stage(…) as stage: stage.hear()`.

    `head` says which and with what, `blobs` are what it is given, `cpu` are seconds of processor
    time.
    """

    def __init__(
        self,
        head: Mapping[str, Any],
        blobs: Sequence[bytes],
        cpu: float,
        room: Room,
    ):
        self.name, program = head["stage"], room.program
        self.limits: dict[str, Any] = {**LIMITS, "cpu": cpu, "wall": 8 * cpu + 60}
        other = os.getuid() == 0 and (program or sandbox.open_to_all())
        self.limits["user"] = sandbox.user_of(room.number) if other else None
        self.limits["seconds"] = int(cpu) + 2  # of one process, by the kernel
        self.deadline = time.monotonic() + sandbox.STARTING + self.limits["wall"]
        settings = {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        settings["HOME"] = "/tmp"
        line = [sys.executable, "-I", "-c", START, str(room.box)]
        if program:
            settings["ATTNBOOK_SANDBOX"] = "bwrap"
            walls = sandbox.wall(program, room.box)
            line = [*walls, *sandbox.environment(settings), *line[:-1], "/box"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            line, stdin=pipe, stdout=pipe, stderr=pipe, env=settings, start_new_session=True
        )
        job = {**head, "sizes": [len(blob) for blob in blobs], "limits": self.limits}
        self.took: dict[str, Any] = {}
        self.left = bytearray()
        self.write(json.dumps(job).encode() + b"\n" + b"".join(blobs))

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """End it, and keep what the one that watched it says of its time."""
        if not self.took:
            self.ended()
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.process.wait()

    def write(self, data: bytes) -> None:
        """Send, as fast as it reads; a Failed if it has ended or does not read."""
        assert self.process.stdin is not None
        fd, rest = self.process.stdin.fileno(), memoryview(data)
        os.set_blocking(fd, False)
        try:
            while rest:
                left = self.deadline - time.monotonic()
                if left <= 0 or not select.select([], [fd], [], left)[1]:
                    raise BrokenPipeError
                rest = rest[os.write(fd, rest[: 1 << 16]) :]
        except OSError:
            raise self.failure() from None

    def read(self) -> bool:
        """Read a piece of what is said; False at the end or when the time is up."""
        assert self.process.stdout is not None
        fd, left = self.process.stdout.fileno(), self.deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return False
        piece = os.read(fd, 1 << 20)
        self.left += piece
        return bool(piece)

    def hear(self) -> tuple[dict[str, Any], bytes]:
        """The next answer: its note and its bytes. A Failed says why there is none."""
        while (end := self.left.find(b"\n")) < 0:
            if len(self.left) > NOTE:
                raise Failed(f"{self.name}: a line of more than {NOTE:,} bytes is too much")
            if not self.read():
                raise self.failure()
        try:
            note = json.loads(bytes(self.left[:end]))
            size = int(note["bytes"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise Failed(f"{self.name}: what it says cannot be read") from None
        if not 0 <= size <= LARGEST:
            raise Failed(f"{self.name}: {size:,} bytes are too much; {LARGEST:,} are allowed")
        while len(self.left) < end + 1 + size:
            if not self.read():
                raise self.failure()
        blob = bytes(self.left[end + 1 : end + 1 + size])
        del self.left[: end + 1 + size]
        if isinstance(note.get("error"), str):
            raise Failed(f"{self.name}: {note['error'][:300]}")
        return note, blob

    def ended(self) -> None:
        """Close what it listens to, and read how it ended and what it took."""
        assert self.process.stdin is not None and self.process.stderr is not None
        with suppress(OSError):
            self.process.stdin.close()
        fd, said = self.process.stderr.fileno(), b""
        while b"\n" not in said and select.select([fd], [], [], 5)[0]:
            piece = os.read(fd, 1 << 12)
            said += piece
            if not piece or len(said) > 1 << 16:
                break
        try:
            self.took = {"cpu": 0.0, **json.loads(said.splitlines()[-1])}
        except (ValueError, IndexError, TypeError):
            self.took = {"status": "", "cpu": 0.0}

    def failure(self) -> Failed:
        """Why there is no answer, in words."""
        self.ended()
        status = str(self.took["status"])
        reason = ENDED.get(status, f"its process was {status}").format(**self.limits)
        return Failed(f"{self.name}: {reason}")

    def ask(self, new: torch.Tensor) -> np.ndarray:
        """Log-probabilities of the next token, (S, V), once these tokens, (S, n), are revealed."""
        blob = new.to(torch.int64).contiguous().numpy().tobytes()
        self.write(json.dumps({"bytes": len(blob)}).encode() + b"\n" + blob)
        note, found = self.hear()
        try:
            return np.frombuffer(found, np.float32).reshape([int(n) for n in note["shape"]])
        except (ValueError, KeyError, TypeError, OverflowError):
            raise Failed(f"{self.name}: what it says cannot be read") from None
