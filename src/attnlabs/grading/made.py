"""What a table of lab 13's contest was made from, so that what is handed in later is noticed."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from attnbook.files import store
from attnlabs.grading import folder, submissions
from attnlabs.grading.submissions import Submission
from attnlabs.grading.teams import key

NOTE = "made-from.json"  # in the folder beside the table
PLANT, FINDINGS, NOTEBOOK = KINDS = (".safetensors", ".json", ".ipynb")  # what teams hand in


def of_kind(found: Sequence[Submission], kind: str) -> list[Submission]:
    """What was handed in, without the files of the other kinds that lie in the same folder.

    Where each team has a folder with one file of the kind in it, that file alone is left.
    """
    there = Counter(submissions.folder(one.file) for one in found if is_a(one, kind))
    others = tuple(other for other in KINDS if other != kind)

    def counts(one: Submission) -> bool:
        place = submissions.folder(one.file)
        if is_a(one, kind) or not there[place]:
            return True
        own = place.name and there[place] == 1 and len(there) > 1
        return not own and not one.file.lower().endswith(others)

    return [one for one in found if counts(one)]


def is_a(one: Submission, kind: str) -> bool:
    """Does a file's name end as files of this kind do?"""
    return PurePosixPath(one.file.lower()).suffix == kind


def marks(found: Sequence[Submission]) -> list[str]:
    """A hash of each file with who handed it in; what it is called does not matter."""
    words = zip(submissions.named(found), found, strict=True)
    each = [key(name).encode() + b"\0" + (one.content or b"") for name, one in words]
    return [hashlib.sha256(mark).hexdigest()[:24] for mark in each]


def note(place: Path, path: Path, found: Sequence[Submission], **more: str) -> None:
    """Store of which files at `path` the table beside this folder is made; paths from there on."""
    there = os.path.relpath(path, place)
    store(place / NOTE, json.dumps({"submissions": there, "marks": sorted(marks(found)), **more}))


def of(place: Path) -> dict[str, Any]:
    """What is stored of a table; nothing if it is from an earlier version."""
    made: dict[str, Any] = folder.stored(place / NOTE) or {}
    return made if "marks" in made else {}


def source(place: Path) -> Path:
    """Where the files lay of which a table was made."""
    return Path(os.path.relpath(place / of(place)["submissions"]))


def later(place: Path, kind: str, found: Iterable[Submission] = ()) -> list[str]:
    """The files of a kind that the table beside this folder does not have: those that came later to
    where the others lay, and those `found` elsewhere."""
    if not (made := of(place)):
        return []
    there, own = source(place), [place, place.with_suffix(".csv"), place.with_suffix(".html")]
    now = submissions.collect(there, own, [kind]) if there.exists() else []
    new = dict[str, None]()
    for files in (of_kind(now, kind), [one for one in found if is_a(one, kind)]):
        pairs = zip(files, marks(files), strict=True)
        new |= {one.file: None for one, mark in pairs if mark not in made["marks"]}
    return list(new)
