"""The folder of a grading: whose lab it is, its seed, and what was stored in it."""

import json
import secrets
from pathlib import Path
from typing import Any

from attnbook.files import store
from attnlabs.source import Lab


def claim(folder: Path, lab: Lab) -> None:
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


def drawn_seed() -> int:
    return secrets.randbelow(1 << 31)


def seed_of(folder: Path) -> int:
    """The seed of this grading: drawn once, kept with its rows, known to nobody before."""
    path = Path(folder) / "seed"
    if not path.exists():
        store(path, str(drawn_seed()))
    return int(path.read_text(encoding="utf-8"))


def stored(path: Path) -> Any:
    """What was stored as JSON, or None if it is not there or not whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
