"""Runs a student's code, one process for each question, in the sandbox. It knows no answers.

What comes in (standard input): a line of JSON, the arguments as safetensors, the notebook. What
goes out: for each question a line of JSON and the results as safetensors. Both formats hold
plain numbers only; there is nothing in them that could be executed.
"""

import ctypes
import json
import os
import re
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from attnlabs.inside import answer
from attnlabs.inside.refused import refuse

PATIENCE = 3  # times these seconds by the clock: a busy machine gives a process a third of a core
SLOWER = 3  # times the seconds of a question that its gradients may take, or a part of a project
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38


def main() -> None:
    """Read the job, answer its questions one after the other."""
    guard()
    head = json.loads(sys.stdin.buffer.readline())
    tensors = safetensors.torch.load(sys.stdin.buffer.read(head["tensors"]))
    raw = sys.stdin.buffer.read()
    out = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    names = [name for each in head["questions"] for name in each.get("of", [each["name"]])]
    names += head.get("also", [])  # of which is only asked whether they are there
    first = {"name": "", "written": head["written"], "functions": names}
    first["banned"] = {
        name: each["banned"]
        for each in head["questions"]
        for name in each.get("of", [each["name"]])
    }
    first["given"] = head["questions"][0]["given"] if head["questions"] else []
    limits = head["limits"]
    for question in [first, *head["questions"]]:
        started = time.monotonic()
        longer = {**limits, "seconds": SLOWER * limits["seconds"]}
        given = longer if "part" in question else limits
        status, blob, left, how = answered(question, tensors, raw, given, out)
        send(out, question["name"], status, blob, time.monotonic() - started, left)
        if status == "ok" and question.get("trained"):
            status, blob = apart({**question, **how, "slopes": True}, tensors, raw, longer, out)
            send(out, f"{question['name']}/slopes", status, blob, 0.0, [])


def send(out: int, name: str, status: str, blob: bytes, seconds: float, left: list[str]) -> None:
    """A line that says what comes, and what comes."""
    line = {"name": name, "status": status, "bytes": len(blob), "seconds": round(seconds, 2)}
    os.write(out, json.dumps({**line, "left": left}).encode() + b"\n")
    for start in range(0, len(blob), 1 << 16):
        os.write(out, blob[start : start + (1 << 16)])


def guard() -> None:
    """Die with the parent, adopt orphans, let nobody look in, have the kernel refuse what no answer
    needs; where the system can do that."""
    os.environ["HOME"] = "/tmp"
    torch.set_num_threads(1)
    if sys.platform == "linux":
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")  # short of memory, end this first
        for option, value in (
            (PR_SET_PDEATHSIG, 9),
            (PR_SET_DUMPABLE, 0),
            (PR_SET_CHILD_SUBREAPER, 1),
            (PR_SET_NO_NEW_PRIVS, 1),
        ):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
        refuse()


def answered(
    question: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    raw: bytes,
    limits: dict[str, Any],
    out: int,
) -> tuple[str, bytes, list[str], dict[str, str]]:
    """How a question ended, its reply, lines of the notebook that had to be left out for it, and
    how this is said to who asks once more.

    If it does not end well, it may be for something that the student only tried out: then again
    without what does more than define names, and without assignments that call something.
    """
    status, blob = apart(question, tensors, raw, limits, out)
    if status == "ok" or "written" in question or "part" in question:
        return status, blob, [], {}
    before: list[str] = []
    for level in ("loops", "strict"):
        said = apart({**question, "list": level}, tensors, raw, limits, out)[1]
        left = json.loads(said or "[]")
        if left and left != before:
            again, other = apart({**question, "left": level}, tensors, raw, limits, out)
            if again == "ok":
                return again, other, left, {"left": level}
        before = left
    return status, blob, [], {}


def apart(
    question: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    raw: bytes,
    limits: dict[str, Any],
    out: int,
) -> tuple[str, bytes]:
    """Fork a process for the question, read what it writes until it ends or a limit is reached."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(out)
            os.close(reads)
            os.setsid()
            restrict(limits)
            blob = answer.answer(question, tensors, raw)
            with os.fdopen(writes, "wb") as pipe:
                pipe.write(blob)
        finally:
            os._exit(0)
    os.close(writes)
    status, blob = heard(reads, limits)
    os.close(reads)
    status = status or ended(child, blob)
    sweep(child)
    return status, blob if status == "ok" else b""


def heard(reads: int, limits: dict[str, Any]) -> tuple[str, bytes]:
    """What a process writes until it closes its end: then "", or the limit it went beyond.

    Seconds are those of the processor, which the kernel counts; the clock ends who only waits.
    """
    blob, deadline = b"", time.monotonic() + PATIENCE * limits["seconds"]
    while True:
        ready = select.select([reads], [], [], 0.1)[0]
        piece = os.read(reads, 1 << 16) if ready else b""
        blob += piece
        if len(blob) > limits["result"]:
            return "too much", blob
        if ready and not piece:
            return "", blob
        if time.monotonic() > deadline:
            return "timeout", blob
        if in_use() > limits["together"]:
            return "memory", blob


def in_use() -> int:
    """Bytes of memory that all in this sandbox have for themselves; 0 where one cannot tell."""
    count = 0
    if os.environ.get("ATTNBOOK_SANDBOX") == "bwrap":
        for path in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):
                lines = re.findall(r"^Rss(?:Anon|Shmem):\s*(\d+)", path.read_text(), re.MULTILINE)
                count += sum(map(int, lines)) * 1024
        for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            count += int(line.split()[-2])
    return count


def ended(child: int, blob: bytes) -> str:
    """How a process that wrote all it had to write came to its end, in a word."""
    deadline = time.monotonic() + 1
    code = None
    while code is None and time.monotonic() < deadline:
        done, state = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(state) if done else None
        time.sleep(0 if done else 0.005)
    if code == -signal.SIGXCPU:
        return "timeout"
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return "ok" if blob else "exited"


def sweep(child: int) -> None:
    """Kill what is left of a question: its group, and whoever left the group and was adopted."""
    for _ in range(100):
        with suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        if os.environ.get("ATTNBOOK_SANDBOX") == "bwrap":
            with suppress(OSError):
                os.kill(-1, signal.SIGKILL)  # all processes of this sandbox but this one
        for path in Path("/proc/self/task").glob("*/children"):
            for process in path.read_text().split():
                with suppress(OSError):
                    os.kill(int(process), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def restrict(limits: dict[str, Any]) -> None:
    """Limits that the kernel keeps, for this process and all that it starts."""
    hard = {
        resource.RLIMIT_CPU: limits["seconds"],
        resource.RLIMIT_DATA: limits["memory"],
        resource.RLIMIT_FSIZE: limits["file"],
        resource.RLIMIT_NOFILE: 32,
        resource.RLIMIT_CORE: 0,
    }
    if limits["user"] is not None:  # started by root: become a user that owns nothing
        os.setgroups([])
        os.setresgid(*[limits["user"]] * 3)
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"],) * 2)
        os.setresuid(*[limits["user"]] * 3)
    else:
        hard[resource.RLIMIT_NPROC] = limits["processes"] + running()
    for name, value in hard.items():
        later = int(value) + (name == resource.RLIMIT_CPU)  # first SIGXCPU, which says why
        resource.setrlimit(name, (int(value), later))
    if hasattr(os, "nice"):
        os.nice(5)
    os.chdir("/tmp")


def running() -> int:
    """How many processes and threads this user has, since the limit counts all of them."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/task/*"):
        with suppress(OSError):
            count += path.stat().st_uid == os.getuid()
    return count
