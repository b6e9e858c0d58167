"""Files as a learning platform hands them out: a folder or a zip, under any names."""

import hashlib
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from attnlabs.grading import formats

LARGEST = 20 << 20  # bytes of one submission
IGNORED = re.compile(r"(^|/)(\.(?!\.)[^/]*|__MACOSX|__pycache__|Thumbs\.db)(/|$)")
# What a platform puts in front, never what a student has called the file behind it.
# Moodle: "Ada Lovelace_1234_assignsubmission_file_/lab.ipynb"; without folders: "…_file_lab.ipynb"
# A group or a name may have underscores of its own: "Group_7-Team B_81_assignsubmission_file_"
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_")
# Canvas: "lovelaceada_LATE_1234_567890_lab.ipynb"
CANVAS = re.compile(r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<id>\d+)_\d{3,}_")
A_ZIP = re.compile(r"(?<=\.zip)/", re.IGNORECASE)  # what follows is a name in somebody's own zip


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
        path = PurePosixPath(A_ZIP.split(self.file)[0])
        canvas = CANVAS.match(path.name)
        for part in path.parts:
            match = MOODLE.match(part)
            if match and not (canvas and part == path.name and canvas.end("id") < match.end("id")):
                return Owner(match["name"].strip(), match["id"])
        return Owner(canvas["name"].strip(), canvas["id"]) if canvas else Owner(path.stem)

    @property
    def late(self) -> int:
        """Days it came too late, as far as the name tells: Canvas writes LATE, and not how much."""
        match = CANVAS.match(PurePosixPath(A_ZIP.split(self.file)[0]).name)
        return int(match is not None and match["late"] is not None)

    @property
    def key(self) -> str:
        """Different for different files and different contents."""
        content = b"not read" if self.content is None else self.content
        return hashlib.sha256(self.file.encode(errors="replace") + b"\0" + content).hexdigest()[:24]


def owners(submissions: Iterable[Submission]) -> list[Owner]:
    """Who handed in each. A file that lies alone in a folder is the folder's, as `zoe/lab3.ipynb`;
    where files of one name lie in several folders, their whole paths tell them apart."""
    files = [submission.file for submission in submissions]
    each = [(file, Submission(file, None).owner) for file in files]
    alone = Counter(folder(file) for file, owner in each if not owner.number)
    each = [
        (file, owner if owner.number or alone[folder(file)] > 1 else lone(file, owner))
        for file, owner in each
    ]
    often = Counter(owner for _, owner in each)
    return [
        owner if owner.number or often[owner] == 1 else Owner(str(PurePosixPath(file)))
        for file, owner in each
    ]


def named(submissions: Sequence[Submission]) -> list[str]:
    """Who handed in each file. A platform's number tells people of the same name apart."""
    each = owners(submissions)
    often = Counter(name for name, _ in set(each))
    return [f"{name} ({number})" if often[name] > 1 else name for name, number in each]


def groups(submissions: Sequence[Submission]) -> dict[str, str]:
    """The groups by their members' names. Moodle gives out a group's files once for each member, as
    “Red-Ada Lovelace” and “Red-Alan Turing”."""
    files: dict[str, list[bytes]] = {}
    for one, name in zip(submissions, named(submissions), strict=True):
        files.setdefault(name, []).append(hashlib.sha256(one.content or b"").digest())
    found = dict[str, str]()
    for name in files:
        parts = name.split("-")
        for group in ("-".join(parts[:n]) for n in range(1, len(parts))):
            members = [other for other in files if other.startswith(f"{group}-")]
            if len(members) > 1 and all(files[other] == files[name] for other in members):
                found[name] = group.strip()
                break
    return found


def folder(file: str) -> PurePosixPath:
    """Where a file lies; a zip of somebody's own is one file."""
    return PurePosixPath(A_ZIP.split(file)[0]).parent


def lone(file: str, owner: Owner) -> Owner:
    """Whose the only file of a folder is; in no folder it is what the file is called."""
    return Owner(folder(file).name) if folder(file).name else owner


def collect(
    path: Path, leave_out: Iterable[Path] = (), kinds: Sequence[str] = formats.NOTEBOOKS
) -> list[Submission]:
    """All submissions in a folder or a zip, sorted by name; of a zip of somebody's own the files of
    these `kinds`.

    `leave_out`: files and folders that are no submissions, such as the tables of an earlier run.
    """
    path, ours = Path(path), {Path(other).resolve() for other in leave_out}
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink())
        files = [p for p in files if not ours & {p.resolve(), *p.resolve().parents}]
        names = {p: p.relative_to(path).as_posix() for p in files}
        names = {p: name for p, name in names.items() if not IGNORED.search(name)}
        if whole := the_platform_s(names):
            return collect(whole, kinds=kinds)
        found = [from_file(p, name) for p, name in names.items()]
        return [one for each in found for one in opened(each, kinds)]
    if zipfile.is_zipfile(path):
        return [one for each in in_zip(path) for one in opened(each, kinds)]
    if path.is_file():
        return [from_file(path, path.name)]
    if not path.exists():
        raise ValueError(f"{path}: there is no such file or folder; looked for {path.absolute()}")
    raise ValueError(f"{path}: a folder, a zip or a notebook with submissions is needed")


def the_platform_s(names: Mapping[Path, str]) -> Path | None:
    """The zip that is all that lies in a folder and nobody's own: what a platform hands out."""
    path, name = next(iter(names.items()), (None, ""))
    if path is None or len(names) > 1 or Submission(name, None).owner.number:
        return None
    return path if zipfile.is_zipfile(path) and name.lower().endswith(".zip") else None


def in_zip(path: Path) -> list[Submission]:
    """The files of a zip, which is read and never unpacked."""
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:
        raise ValueError(f"{path} is a damaged zip: {error}") from None
    with archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.filename)
        wanted = [e for e in entries if not e.is_dir() and not IGNORED.search(e.filename)]
        return [from_zip(archive, entry) for entry in wanted]


def opened(submission: Submission, kinds: Sequence[str]) -> list[Submission]:
    """The files of these kinds in a zip that somebody handed in; anything else as it is."""
    found = formats.inside(submission.content or b"", IGNORED, LARGEST, kinds)
    parts = [Submission(f"{zipped(submission.file)}/{name}", raw) for name, raw in found]
    return parts or [submission]


def zipped(file: str) -> str:
    """The name of a file that is a zip, whatever it is called."""
    return file if file.lower().endswith(".zip") else f"{file}.zip"


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
