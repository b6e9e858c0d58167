"""The commands `results` and `rerun` of `python -m bookkit`: stored runs, and one made again."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from bookkit.results.ledger.records import Record, checkout, named, records
from bookkit.results.ledger.rerun import rerun
from bookkit.results.ledger.stale import changed, declared

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
    stale = 0
    for record in found:
        files = changed(root, record)
        stale += bool(files)
        first = "; declared before its result" if declared(root, record) else ""
        print(f"{record.name:{wide}}  {record.date:%Y-%m-%d}  {said(files)}{first}")
        if options.why:
            print(f"{'':{wide}}  {' '.join(record.command)}")
            print("".join(f"{'':{wide}}    {path}\n" for path in files or []), end="")
    print(f"{len(found)} stored runs, {stale} of them stale")


def said(files: list[Path] | None) -> str:
    """Whether a run is stale, in words."""
    if files is None:
        return "cannot be told: the history here does not go back so far"
    if not files:
        return "as its code"
    return f"stale: {len(files)} file{'s' * (len(files) > 1)} it depends on changed"


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
