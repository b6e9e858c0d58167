"""Where a measured number comes from: command, date, machine and versions."""

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from attnbook.device import Here
from attnbook.files import store


def processor(device: str) -> str:
    """The name of the GPU that was used, or of the CPU as the operating system tells it."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    names = info.read_text().splitlines() if info.exists() else []
    return next((n.split(": ", 1)[1] for n in names if n.startswith("model name")), "unknown CPU")


def git(*words: str) -> str:
    """What git says of the checkout that the running script lies in; "" outside of any."""
    folder = Path(sys.argv[0]).resolve().parent
    folder = folder if folder.is_dir() else Path.cwd()
    try:
        answer = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return answer.stdout.strip()


def without_place(word: str) -> str:
    """A word of a command; of an absolute path, which no other machine has, its last part."""
    return Path(word).name if word.startswith("/") else word


def provenance(here: Here, *packages: str) -> dict[str, Any]:
    """Command, date (UTC), commit, device, threads, versions of Python, torch and `packages`.

    A commit that ends in "-dirty" had changes that were not committed. Of absolute paths the
    command has the last part only.
    """
    script = os.path.relpath(sys.argv[0], git("rev-parse", "--show-toplevel") or Path.cwd())
    return {
        "command": shlex.join(["python", script, *map(without_place, sys.argv[1:])]),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "commit": git("describe", "--always", "--dirty") or "not in a git checkout",
        "device": str(here),
        "processor": processor(here.device.type),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in ("torch", *packages)},
    }


def write(path: Path, result: dict[str, Any]) -> None:
    """Store a result as JSON, in one piece, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
