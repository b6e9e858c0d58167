"""The commands `results` and `rerun` of `python -m bookkit`: stored runs, and one made again."""

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bookkit.results.ledger.records import Record, checkout, named, records
from bookkit.results.ledger.rerun import rerun
from bookkit.results.ledger.stale import changed, declared, stale

EXAMPLES = """examples, in a clone of the book's repository:
  python -m bookkit results                      every stored run: when, how, what changed since
  python -m bookkit results shakespeare          those with this in their name
  python -m bookkit results heads --why          with the files whose code is another since
  python -m bookkit rerun heads                  make it again elsewhere; how much does it differ?
  python -m bookkit rerun positions --in again   in a folder: may be stopped and goes on
"""


def add(parts: Any) -> None:
    """Add `results` and `rerun` to the command's parts."""
    look: dict[str, Any] = {
        "epilog": EXAMPLES,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }
    listed = parts.add_parser("results", help="list the stored runs; which are stale", **look)
    listed.add_argument("word", nargs="?", default="", help="only names with this in them")
    listed.add_argument("--why", action="store_true", help="name the files that changed")
    listed.set_defaults(run=results)
    again = parts.add_parser("rerun", help="make a stored run again and compare", **look)
    again.add_argument("name", help="as `python -m bookkit results` lists it")
    again.add_argument("--in", dest="folder", type=Path, help="work here, and stay resumable")
    again.set_defaults(run=make_again)


def results(options: argparse.Namespace) -> None:
    """Print a line for each run."""
    root = checkout(Path.cwd())
    found = [record for record in records(root) if options.word in record.name]
    if not found:
        raise ValueError(f"no stored run has {options.word!r} in its name")
    wide = max(len(record.name) for record in found)
    count = Counter[str]()
    for record in found:
        others, older = stale(root, record), next(changed(root, record), None) is not None
        first = "; declared before its result" if declared(root, record) else ""
        state, words = describe(others, older)
        count[state] += 1
        print(f"{record.name:{wide}}  {record.date:%Y-%m-%d}  {words}{first}")
        if options.why:
            print(f"{'':{wide}}  {' '.join(record.command)}")
            print("".join(f"{'':{wide}}    {path}\n" for path in changed(root, record)), end="")
    told = ", ".join(f"{number} {state}" for state, number in count.items())
    print(f"{len(found)} stored runs: {told}")


def describe(others: list[str] | None, older: bool) -> tuple[str, str]:
    """Whether a run is stale: in a word or two, and at length."""
    if others is None:
        return "unknown", "unknown: the history here does not go back so far"
    if others:
        return "stale", f"stale: now another {', '.join(others)}"
    return ("older than its code",) * 2 if older else ("as its code",) * 2


def make_again(options: argparse.Namespace) -> None:
    """Rerun, print the differences."""
    root = checkout(Path.cwd())
    record = named(root, options.name)
    print(f"{record.name}, stored {record.date:%Y-%m-%d}: {' '.join(record.command)}", flush=True)
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        print(compared(root, record, options.folder.resolve()))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(compared(root, record, Path(folder)))


def compared(root: Path, record: Record, folder: Path) -> str:
    """What differs; ValueError, for the shell, if the run failed."""
    try:
        return str(rerun(root, record, folder))
    except RuntimeError as error:
        raise ValueError(str(error)) from error
