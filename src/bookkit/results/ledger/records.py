"""What a stored run says of itself: its command, date, commit, machine and versions."""

import datetime
import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLACES = ("src/bookkit/runs", "results", "benchmarks")  # folders that hold stored runs
ASKED = {
    "command": str, "date": str, "commit": str, "processor": str, "threads": int, "python": str,
    "versions": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Record:
    """A stored run. `path` is its file, from the checkout's root; `date` is in UTC."""

    name: str
    path: Path
    command: tuple[str, ...]
    date: datetime.datetime
    commit: str
    processor: str
    threads: int

    @property
    def script(self) -> Path:
        """The script that made it, from the checkout's root."""
        return Path(self.command[1])


def checkout(start: Path) -> Path:
    """The root of the checkout that `start` lies in; ValueError if there is none."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / "src/bookkit/runs").is_dir() and (folder / "results").is_dir():
            return folder
    raise ValueError(f"{start} is in no clone of the book's repository, which holds its runs")


def records(root: Path) -> list[Record]:
    """All stored runs of a checkout, by name.

    ValueError with every file that is no stored run, and what it lacks.
    """
    found, wrong = [], []
    for path in files(root):
        try:
            found.append(read(root, path))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    return sorted(found, key=lambda record: record.name)


def named(root: Path, name: str) -> Record:
    """The stored run of this name; ValueError with those whose names are near, if there is none."""
    found = {record.name: record for record in records(root)}
    if name not in found:
        near = [other for other in found if name in other] or sorted(
            {n.split("/")[0] for n in found}
        )
        raise ValueError(f"no stored run is called {name!r}; there are {', '.join(near[:8])}")
    return found[name]


def files(root: Path) -> Iterator[Path]:
    """Every JSON file where stored runs lie."""
    for place in PLACES:
        yield from sorted((root / place).rglob("*.json"))


def name_of(root: Path, path: Path) -> str:
    """`heads` for src/bookkit/runs/heads.json, `images/cpu` for results/images/cpu.json."""
    inside = path.relative_to(root).with_suffix("").as_posix()
    return inside.removeprefix("src/bookkit/runs/").removeprefix("results/")


def read(root: Path, path: Path) -> Record:
    """One stored run; ValueError that names the file and says what it lacks."""
    where = path.relative_to(root)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{where} is no JSON: {error}") from error
    origin = origin_of(data)
    if not origin:
        raise ValueError(f"{where} does not say where it comes from: it needs a `provenance`")
    lacks = [key for key, kind in ASKED.items() if not isinstance(origin.get(key), kind)]
    if lacks:
        raise ValueError(f"the provenance of {where} lacks {', '.join(lacks)}")
    words = tuple(shlex.split(origin["command"]))
    if len(words) < 2 or words[0] != "python" or not (root / words[1]).is_file():
        raise ValueError(f"{where} was made by `{origin['command']}`, which is no script of here")
    numbers = ((place, value) for place, value in leaves(data) if isinstance(value, float))
    odd = [place for place, value in numbers if not math.isfinite(value)]
    if odd:
        raise ValueError(f"{where} holds a number that is not finite at {odd[0]}")
    date = datetime.datetime.fromisoformat(origin["date"])
    more = origin["commit"], origin["processor"], origin["threads"]
    return Record(name_of(root, path), where, words, date, *more)


def origin_of(data: Any) -> dict[str, Any]:
    """Where a result comes from; if each of its runs says it apart, what the latest says."""
    found = data.get("provenance") if isinstance(data, dict) else None
    if isinstance(found, dict):
        return found
    runs = data.get("runs") if isinstance(data, dict) else None
    runs = list(runs.values()) if isinstance(runs, dict) else runs
    each = [origin_of(run) for run in runs] if isinstance(runs, list) else []
    return max(each, key=lambda one: str(one.get("date")), default={}) if all(each) else {}


def leaves(data: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Each number, word and null of a result with its place, such as `runs.3.loss`."""
    if isinstance(data, (dict, list)):
        pairs = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in pairs:
            yield from leaves(value, f"{place}.{key}" if place else str(key))
    else:
        yield place, data
