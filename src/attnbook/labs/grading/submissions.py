"""Files as a learning platform hands them out: a folder or a zip, under any names."""

import hashlib
import re
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

LARGEST = 20 << 20  # bytes of one submission
IGNORED = re.compile(r"(^|/)(\.(?!\.)[^/]*|__MACOSX|__pycache__|Thumbs\.db)(/|$)")
# What a platform puts in front, never what a student has called the file behind it.
# Moodle: "Ada Lovelace_1234_assignsubmission_file_/lab.ipynb"; without folders: "…_file_lab.ipynb"
MOODLE = re.compile(r"(?P<name>[^_]+)_(?P<id>\d+)_assignsubmission_")
# Canvas: "lovelaceada_LATE_1234_567890_lab.ipynb"
CANVAS = re.compile(r"(?P<name>[^_]+)(_LATE)?_(?P<id>\d+)_\d{3,}_")


class Owner(NamedTuple):
    """Who handed a file in, as the learning platform says; `number` is "" if it does not."""

    name: str
    number: str = ""


@dataclass(frozen=True)
class Submission:
    """One file. `content` is None if it is too large or cannot be read."""

    file: str
    content: bytes | None

    @property
    def owner(self) -> Owner:
        """Who handed it in, as far as the file's name tells."""
        path = PurePosixPath(self.file)
        for match in (*map(MOODLE.match, path.parts), CANVAS.match(path.name)):
            if match:
                return Owner(match["name"].strip(), match["id"])
        return Owner(path.stem)

    @property
    def key(self) -> str:
        """Different for different files and different contents."""
        content = b"not read" if self.content is None else self.content
        return hashlib.sha256(self.file.encode(errors="replace") + b"\0" + content).hexdigest()[:24]


def collect(path: Path, leave_out: Iterable[Path] = ()) -> list[Submission]:
    """All submissions in a folder or a zip, sorted by name. A zip is read, never unpacked.

    `leave_out`: files and folders that are no submissions, such as the tables of an earlier run.
    """
    path, ours = Path(path), {Path(other).resolve() for other in leave_out}
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink())
        files = [p for p in files if not ours & {p.resolve(), *p.resolve().parents}]
        names = {p: p.relative_to(path).as_posix() for p in files}
        return [from_file(p, name) for p, name in names.items() if not IGNORED.search(name)]
    if zipfile.is_zipfile(path):
        try:
            archive = zipfile.ZipFile(path)
        except Exception as error:
            raise ValueError(f"{path} is a damaged zip: {error}") from None
        with archive:
            entries = sorted(archive.infolist(), key=lambda entry: entry.filename)
            wanted = [e for e in entries if not e.is_dir() and not IGNORED.search(e.filename)]
            return [from_zip(archive, entry) for entry in wanted]
    if path.is_file():
        return [from_file(path, path.name)]
    raise ValueError(f"{path}: a folder, a zip or a notebook with submissions is needed")


def from_file(path: Path, name: str) -> Submission:
    try:
        with path.open("rb") as file:
            return limited(name, file.read)
    except OSError:
        return Submission(name, None)


def from_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Submission:
    try:
        with archive.open(entry) as file:
            return limited(entry.filename, file.read)
    except Exception:  # a password, a damaged file: zipfile and what unpacks have many errors
        return Submission(entry.filename, None)


def limited(name: str, read: Callable[[int], bytes]) -> Submission:
    """No more is read than a submission may have, whatever the archive says of its size."""
    content = read(LARGEST + 1)
    return Submission(name, content if len(content) <= LARGEST else None)
