"""Starts the process in which a submission runs, and reads what it sends back as plain numbers.

With bubblewrap (`bwrap`) it has no network, no home directory, and sees no file but Python's own
and those of `labs/inside`. Without it there are still limits and processes, but no walls.
"""

import io
import json
import os
import select
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors.torch
import torch

from attnlabs.grading.replies import Reply
from attnlabs.inside.child import PATIENCE
from attnlabs.inside.fingerprints import array

LABS = Path(__file__).parents[1]
QUIET = "def check(*arguments, **options):\n    return None\n"
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from attnlabs.inside import child; child.main()"
)
MEGA = 1 << 20
LIMITS = {
    "seconds": 10,  # of the processor, for one question
    "memory": 1024 * MEGA,  # of one process
    "together": 2048 * MEGA,
    "processes": 8,
    "file": 16 * MEGA,
    "result": 2 * MEGA,
}
# Of the system: its programs and libraries. Not all of /usr, where a clone may lie, as in /usr/src
SYSTEM = (
    *("usr/bin", "usr/lib", "usr/lib64", "usr/lib32", "usr/libexec", "usr/share/zoneinfo"),
    *("lib", "lib64", "lib32", "bin", "etc/ld.so.cache", "etc/alternatives"),
)
STARTING = 60  # seconds until torch is imported, on a busy machine
TRIES = 3  # of a question: as it stands, without loops, without assignments that call something
USERS = 200_000  # users from here on own nothing on this machine


@contextmanager
def box() -> Iterator[Path]:
    """A folder with what a child may see of us, `attnlabs/inside`; `check` does nothing there.

    Our other packages are empty there.
    """
    with tempfile.TemporaryDirectory(prefix="attnbook-") as folder:
        labs = Path(folder) / "attnlabs"
        (labs / "inside").mkdir(parents=True)
        for file in (LABS / "inside").glob("*.py"):
            shutil.copyfile(file, labs / "inside" / file.name)
        for name in ("attnlabs", "attnbook", "bookkit"):  # without walls, in place of the installed
            (labs.parent / name).mkdir(exist_ok=True)
            (labs.parent / name / "__init__.py").touch()
        (labs / "check.py").write_text(QUIET, encoding="utf-8")
        for path in (labs.parent, *labs.parent.rglob("*")):
            path.chmod(0o755)
        yield Path(folder)


def walls() -> str | None:
    """The program that keeps a child in, or None."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    test = subprocess.run([*wall(program, LABS), "true"], capture_output=True, check=False)
    return program if test.returncode == 0 else None


def wall(program: str, folder: Path, hidden: Iterable[Path] = ()) -> list[str]:
    """The call of bwrap: everything apart, Python and the system's libraries to read, no more.

    `hidden` are folders that nobody sees, wherever they lie; so is the clone that this runs from.
    """
    root = os.getuid() == 0
    apart = ["ipc", "pid", "net", "uts", "cgroup-try"] + ([] if root else ["user"])
    line = [program, *(f"--unshare-{name}" for name in apart), "--die-with-parent", "--new-session"]
    line += ["--as-pid-1"]  # the child itself, into which nobody can look, instead of bwrap
    if root:
        line += ["--cap-drop", "ALL"]
        for name in ("SETUID", "SETGID", "KILL"):
            line += ["--cap-add", f"CAP_{name}"]
    line += ["--proc", "/proc", "--dev", "/dev", "--clearenv"]
    line += ["--ro-bind", "/dev/null", "/dev/zero"]  # which is memory that counts for no process
    line += ["--perms", "1777", "--size", str(64 * MEGA), "--tmpfs", "/tmp"]
    for name in SYSTEM:
        line += ["--ro-bind-try", f"/{name}", f"/{name}"]
    seen = [Path("/") / name for name in SYSTEM]
    for path in python_folders():
        line += [*parents(path), "--ro-bind", str(path), str(path)]
    covered = [path for path in unseen(hidden) if lies_in(path, [*seen, *python_folders()])]
    for path in covered:
        line += ["--tmpfs", str(path)]
        for inner in python_folders():
            if lies_in(inner, [path]):
                line += [*parents(inner), "--ro-bind", str(inner), str(inner)]
    packages = [path for path in our_packages() if lies_in(path, [*seen, *python_folders()])]
    for path in packages:
        line += ["--tmpfs", str(path)]
    line += ["--ro-bind", str(folder), "/box", "--chdir", "/tmp"]
    for name in [*map(str, packages), *map(str, covered), "/dev", "/"]:  # memory without a limit
        line += ["--remount-ro", name]
    return line


def unseen(hidden: Iterable[Path]) -> list[Path]:
    """The folders that nobody in the sandbox sees, the outermost first."""
    paths = {clone(), *(Path(each).resolve() for each in hidden)} - {None}
    return sorted(path for path in paths if path is not None and path.is_dir())


def clone() -> Path | None:
    """The clone of the repository that this module lies in, None if it is installed."""
    return next(
        (path for path in LABS.resolve().parents if (path / "pyproject.toml").exists()), None
    )


def lies_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(folder in (path, *path.parents) for folder in folders)


def our_packages() -> list[Path]:
    """Where our packages are installed; there are solutions in them."""
    places = {Path(path) for path in sysconfig.get_paths().values()}
    found = {place / name for place in places for name in ("attnbook", "attnlabs", "bookkit")}
    return sorted(path for path in found if path.is_dir())


def python_folders() -> list[Path]:
    """Where this Python and its packages are, as far as they are not the system's.

    Not all that lies beside them: an environment may have been made in somebody's home.
    """
    paths = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib", "platlib")}
    for prefix in (sys.prefix, sys.base_prefix):
        paths |= {Path(prefix) / name for name in ("bin", "lib", "lib64", "pyvenv.cfg")}
    paths = {path for each in paths if each.exists() for path in (each, each.resolve())}
    outer = {p for p in paths if not any(q in p.parents for q in paths)}
    system = [Path("/") / name for name in SYSTEM]
    return sorted(p for p in outer if not lies_in(p, system))


def open_to_all() -> bool:
    """May any user of this machine run this Python?"""
    return all(p.stat().st_mode & 1 for path in python_folders() for p in path.parents)


def parents(path: Path) -> list[str]:
    """The folders above a path, as anybody may pass through them."""
    above = [p for p in reversed(path.parents) if p != Path("/") and p != Path("/tmp")]
    return [word for p in above for word in ("--perms", "0755", "--dir", str(p))]


def run(
    job: Mapping[str, Any],
    arguments: Mapping[str, torch.Tensor],
    raw: bytes,
    folder: Path,
    program: str | None,
    number: int = 0,
    hidden: Iterable[Path] = (),
) -> dict[str, Reply]:
    """What a submission, `raw`, replies to each question, and under "" about its written answers.

    `job` names questions, cases and written questions; `arguments` are tensors by name. `folder`
    is the `box`, `program` that of `walls`; submissions run at the same time differ in `number`.
    `hidden` are folders with answers.
    """
    other = os.getuid() == 0 and (program or open_to_all())
    user = user_of(number) if other else None
    tensors = safetensors.torch.save({n: a.clone().contiguous() for n, a in arguments.items()})
    limits = {**LIMITS, **job.get("limits", {}), "user": user}
    head = {**job, "tensors": len(tensors), "limits": limits}
    settings = {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp"}
    line = [sys.executable, "-I", "-c", START, str(folder)]
    if program:
        settings["ATTNBOOK_SANDBOX"] = "bwrap"
        line = [*wall(program, folder, hidden), *environment(settings), *line[:-1], "/box"]
    with tempfile.TemporaryFile() as source:
        source.write(json.dumps(head).encode() + b"\n" + tensors + raw)
        source.seek(0)
        sent = received(line, source, settings, 2 * len(job["questions"]) + 1, limits)
    return replies(sent)


def user_of(number: int) -> int:
    """A user who owns nothing: not one of another submission, or of another grading just now."""
    return USERS + os.getpid() % 10_000 * 50_000 + number % 50_000


def environment(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--setenv", name, value)]


def received(
    line: list[str],
    source: IO[bytes],
    settings: Mapping[str, str],
    questions: int,
    limits: Mapping[str, Any],
) -> bytes:
    """Everything the child sends, up to a size and a time; then it is ended, whatever it does."""
    child = subprocess.Popen(
        line,
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=settings,
        start_new_session=True,
    )
    deadline = time.monotonic() + STARTING + questions * TRIES * (PATIENCE * limits["seconds"] + 2)
    assert child.stdout is not None
    sent, fd = bytearray(), child.stdout.fileno()
    try:
        while len(sent) <= questions * (limits["result"] + 10_000):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                break
            piece = os.read(fd, 1 << 16)
            if not piece:
                break
            sent += piece
    finally:
        child.kill()
        child.stdout.close()
        child.wait()
    return bytes(sent)


def replies(sent: bytes) -> dict[str, Reply]:
    """The replies by question, as far as the frames around them can be read."""
    found: dict[str, Reply] = {}
    stream = io.BytesIO(sent)
    while True:
        try:
            head = json.loads(stream.readline())
            note, results = content(stream.read(head["bytes"]))
            status, seconds = str(head["status"]), float(head["seconds"])
            left = tuple(str(line)[:99] for line in head.get("left", [])[:5])
            found[str(head["name"])] = Reply(status, seconds, note, results, left)
        except Exception:
            return found


def content(blob: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is in a reply. Its process may have written anything: then there is nothing."""
    line, _, tensors = blob.partition(b"\n")
    try:
        note = json.loads(line)  # half of a character can be written in JSON, and nowhere else
        note = json.loads(json.dumps(note, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        note = None
    return note if isinstance(note, dict) else {}, results(tensors)


def results(tensors: bytes) -> dict[str, np.ndarray]:
    """Arrays by case and place, or nothing if these are not safetensors of plain numbers."""
    try:
        loaded = safetensors.torch.load(bytes(tensors)) if tensors else {}
        return {name: array(value) for name, value in loaded.items()}
    except Exception:
        return {}


def numbers_in(tensors: bytes) -> int:
    """How many numbers these safetensors hold; a ValueError if they are none."""
    try:
        loaded = safetensors.torch.load(bytes(tensors)) if tensors else {}
    except Exception:
        raise ValueError("submit: its weights cannot be read") from None
    return sum(each.numel() for each in loaded.values())
