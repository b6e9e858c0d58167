"""The folder of a grading: whose lab it is, its seed, and files that are replaced at once."""

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path


def claim(folder, lab):
    """Make the folder the lab's own; a ValueError if it holds the grades of another."""
    path = Path(folder) / "lab"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        store(path, str(lab.number))
    other = path.read_text(encoding="utf-8").strip()
    if other != str(lab.number):
        raise ValueError(
            f"{folder} has the grades of lab {other}; give those of lab {lab.number} another --out"
        )


def drawn_seed():
    return secrets.randbelow(1 << 31)


def seed_of(folder):
    """The seed of this grading: drawn once, kept with its rows, known to nobody before."""
    path = Path(folder) / "seed"
    if not path.exists():
        store(path, str(drawn_seed()))
    return int(path.read_text(encoding="utf-8"))


def stored(path):
    """What was stored as JSON, or None if it is not there or not whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def store(path, text):
    """Replace a file at once: whoever stops us leaves the old one or the new, whole."""
    draft = path.with_name(path.name + ".draft")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:  # such as a full disk, which names no file by itself
        with suppress(OSError):
            draft.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
