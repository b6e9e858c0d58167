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

import torch

ROOT = Path(__file__).resolve().parent.parent


def processor(device: str) -> str:
    """The name of the GPU that was used, or of the CPU as the operating system tells it."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    names = info.read_text().splitlines() if info.exists() else []
    return next((n.split(": ", 1)[1] for n in names if n.startswith("model name")), "unknown CPU")


def provenance(here, *packages: str) -> dict:
    """Command, date (UTC), commit, device (a `Here`), threads, versions of Python and packages.

    A commit that ends in "-dirty" had changes that were not committed.
    """
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "command": shlex.join(["python", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "commit": commit or "not in a git checkout",
        "device": str(here),
        "processor": processor(here.device.type),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in ("torch", *packages)},
    }


def write(path: Path, result: dict) -> None:
    """Store as JSON, in one piece: a reader sees the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    os.replace(partial, path)
