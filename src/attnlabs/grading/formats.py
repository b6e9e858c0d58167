"""What is handed in instead of a notebook: scripts and zips are read, the rest is told plainly."""

import io
import json
import re
import zipfile
from collections.abc import Iterable, Sequence

ITSELF = (
    "hand in the notebook itself, the file that ends in .ipynb (in Colab: File, Download, "
    "Download .ipynb)"
)
NOTEBOOKS = (".ipynb", ".py")  # what a zip is opened for: scripts if it has no notebook
MOST = 20  # files of one zip
KINDS = {
    rb"%PDF": "it is a PDF",
    rb"\x89PNG|\xff\xd8\xff|GIF8": "it is a picture",
    rb"PK\x03\x04(?=.*(word/|content\.xml))": "it is a document of a word processor",
    rb"PK": f"it is a zip without a notebook in it, or with more than {MOST}, or 20 MB of them",
    rb"Rar!|7z\xbc\xaf": "it is an archive that is no zip",
    rb"\s*<": "it is a web page",
    rb"\s*\{": "it is a notebook that is damaged, of which a part is missing perhaps",
}


def for_the_sandbox(file: str, raw: bytes) -> bytes:
    """A notebook as it is; a script as JSON that says that it is one."""
    if not file.lower().endswith(".py"):
        return raw
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return json.dumps({"script": text}).encode()


def why_none(raw: bytes) -> str:
    """Why a file cannot be graded, in words that a student understands."""
    for pattern, words in KINDS.items():
        if re.match(pattern, raw[:100_000], re.DOTALL):
            return f"{words}; {ITSELF}."
    return f"it is not a notebook; {ITSELF}."


def inside(
    raw: bytes,
    ignored: re.Pattern[str],
    largest: int,
    kinds: Sequence[str] = NOTEBOOKS,
    deeper: bool = True,
) -> Sequence[tuple[str, bytes]]:
    """The files in a zip by their names: those of the first of these kinds that it has.

    `deeper`: if it has none of them, those of zips in it.
    """
    if not raw.startswith(b"PK\x03\x04"):
        return []
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return of_kinds(archive, ignored, largest, kinds, deeper)
    except Exception:  # a password, a damaged file: zipfile and what unpacks have many errors
        return []


def of_kinds(
    archive: zipfile.ZipFile,
    ignored: re.Pattern[str],
    largest: int,
    kinds: Sequence[str],
    deeper: bool,
) -> Sequence[tuple[str, bytes]]:
    """What `inside` finds in an open zip."""
    names = [name for name in archive.namelist() if not ignored.search(name)]
    for suffix in kinds:
        wanted = [name for name in names if name.lower().endswith(suffix)]
        if wanted:
            few = wanted if len(wanted) <= MOST else []  # none is left out unsaid
            return together(((name, read(archive, name, largest)) for name in few), largest)
    found: list[tuple[str, bytes]] = []
    for name in [name for name in names if deeper and name.lower().endswith(".zip")][:MOST]:
        if len(found) <= MOST:
            own = inside(read(archive, name, largest), ignored, largest, kinds, deeper=False)
            found = together([*found, *((f"{name}/{file}", each) for file, each in own)], largest)
    return found if len(found) <= MOST else []


def together(files: Iterable[tuple[str, bytes]], largest: int) -> list[tuple[str, bytes]]:
    """The files, or a ValueError once they are larger than one submission may be: a zip of some
    kilobytes can hold twenty of that size."""
    found: list[tuple[str, bytes]] = []
    for file in files:
        found.append(file)
        if sum(len(content) for _, content in found) > largest:
            raise ValueError("too large")
    return found


def read(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """No more than a submission may have, whatever the archive says of its size."""
    with archive.open(name) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError("too large")
    return content
