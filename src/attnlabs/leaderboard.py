"""`attnlabs leaderboard`: the projects of lab 8, trained and scored on this machine."""

import argparse
import json
import sys
from pathlib import Path

from attnbook.data import text
from attnbook.files import store
from attnlabs import nats
from attnlabs.grading import board, contest, folder, sandbox, submissions
from attnlabs.grading.report import EXCEL

PASSAGES, BEFORE, SIZE = 64, 128, 256  # how many, bytes that are shown, bytes to be predicted
NO_WALLS = (
    "bubblewrap (bwrap) is not installed or does not work here, and without it a project could "
    "read the held-out text. Install the package bubblewrap; --without-walls runs all the same"
)


def texts(name: str, held_out: Path | None) -> tuple[bytes, bytes]:
    """What is trained on and what is held out; a ValueError if there is no such text."""
    if name in text.CORPORA:
        found = text.load(name)
        train, last = found.train.encode(), found.validation.encode()
    elif Path(name).is_file():
        whole = Path(name).read_bytes()
        cut = len(whole) * 9 // 10
        train, last = whole[:cut], whole[cut:]
    else:
        known = ", ".join(text.CORPORA)
        raise ValueError(f"--text {name}: it is no file, and none of the texts {known}")
    if held_out is None:
        return train, last
    return train, held_out.read_bytes()


def run(options: argparse.Namespace) -> None:
    """The whole command; what was scored in an earlier run is not run again."""
    out, place = options.out, options.out.with_suffix("")
    if out.suffix != ".csv" or out.is_dir():
        raise ValueError(f"--out {out}: the name of a table is needed, such as leaderboard.csv")
    leave_out = [out, out.with_suffix(".html"), place]
    files = submissions.collect(options.submissions, leave_out=leave_out)
    if not files:
        raise ValueError(f"{options.submissions}: there are no files in it")
    program = sandbox.walls()
    if program is None and not options.without_walls:
        raise ValueError(NO_WALLS)
    train, held_out = texts(options.text, options.held_out)
    place.mkdir(parents=True, exist_ok=True)
    passages = nats.blocks(held_out, PASSAGES, BEFORE, SIZE, folder.seed_of(place))
    all_alike = contest.Contest(train, tuple(passages), 60 * options.minutes, program)
    ours = [] if options.no_levels else levels(options.labs)
    entries = contest.run(all_alike, files, ours, place, options.workers)
    known = counted(all_alike, place)
    store(out, EXCEL + board.sheet(entries, known))
    store(out.with_suffix(".html"), board.page(all_alike, entries, known, options.text))
    tell(entries, out)


def tell(entries: list[contest.Entry], out: Path) -> None:
    """What a lecturer reads at the end."""
    mine = [entry for entry in entries if not entry.level]
    good = sum(entry.nats is not None for entry in mine)
    print(f"{good} of {len(mine)} projects have a score: {out}, {out.with_suffix('.html')}")
    if good < len(mine):
        print("why the others have none stands in the column reason")
    if any(entry.look for entry in mine):
        print("some deserve a look before the page is shown: see the column look")


def levels(labs: Path) -> list[submissions.Submission]:
    """The three references: the lab with its solutions, a script, and one that goes on from it."""
    found = [*sorted(labs.glob("08-*.ipynb")), *sorted((labs / "levels").glob("08-*.py"))]
    if not found:
        print(f"attnlabs: no references in {labs.resolve()}; see --labs", file=sys.stderr)
    return [submissions.Submission(path.name, with_former(path)) for path in found]


def with_former(path: Path) -> bytes:
    """A file's content; a script's after those of the scripts before it in the same folder."""
    former = [each for each in sorted(path.parent.glob("08-*.py")) if each.name < path.name]
    parts = [*former, path] if path.suffix == ".py" else [path]
    return b"\n\n".join(part.read_bytes() for part in parts)


def counted(all_alike: contest.Contest, place: Path) -> dict[str, tuple[float, float]]:
    """Chance and tables of counts, which are counted once for each contest."""
    path = place / f"counts-{all_alike.key}.json"
    if folder.stored(path) is None:
        store(path, json.dumps(contest.baselines(all_alike)))
    return {name: (pair[0], pair[1]) for name, pair in folder.stored(path).items()}
