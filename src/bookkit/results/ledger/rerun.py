"""A stored run made again by its own command, in a copy of the checkout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bookkit.results.ledger.compare import Comparison, compare
from bookkit.results.ledger.records import Record


def rerun(root: Path, record: Record, folder: Path) -> Comparison:
    """Run the record's command in a copy of the checkout in `folder`; compare what it stores.

    A `folder` that an earlier call has filled is gone on in: whatever the script itself resumes is
    resumed. RuntimeError if the command fails or stores nothing.
    """
    result = folder / record.path
    begun = folder / ".begun"
    if not begun.exists():
        copy(root, folder)
        result.unlink()
        begun.write_text(record.name, encoding="utf-8")
    elif begun.read_text(encoding="utf-8") != record.name:
        raise ValueError(f"{folder} holds {begun.read_text('utf-8')}, not {record.name}")
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    command = [sys.executable, *record.command[1:]]
    ended = subprocess.run(command, cwd=folder, env=environment).returncode
    if ended:
        raise RuntimeError(f"`{' '.join(record.command)}` ended with status {ended}")
    if not result.exists():
        raise RuntimeError(f"`{' '.join(record.command)}` ended and stored no {record.path}")
    read = [json.loads(path.read_text(encoding="utf-8")) for path in (root / record.path, result)]
    return compare(*read)


def copy(root: Path, folder: Path) -> None:
    """All files of a checkout that git does not ignore."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(asked, cwd=root, capture_output=True, text=True)
    if found.returncode:
        raise ValueError(f"{root} is no git checkout: {found.stderr.strip()}")
    for name in sorted(set(found.stdout.split("\0")) - {""}):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
