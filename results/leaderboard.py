"""The three references of lab 8 on its leaderboard: nats per byte at fixed processor minutes.

    python results/leaderboard.py --minutes 1   # resumed reference by reference

Tiny Shakespeare, one thread, the sandbox of `attnlabs leaderboard`, passages drawn by seed 0.
Level 1 is the lab's notebook with its solutions, levels 2 and 3 are scripts in labs/levels/. Each
writes a file in results/leaderboard/, which also has chance and the tables of counts on the same
passages.
"""

import argparse
from pathlib import Path
from typing import Any

from attnbook import device
from attnbook.provenance import provenance, write
from attnlabs import cli, leaderboard, nats
from attnlabs.grading import contest, sandbox

ROOT = Path(__file__).resolve().parents[1]


def measured(all_alike: contest.Contest, minutes: float, name: str, raw: Any) -> dict[str, Any]:
    """One reference, scored; a RuntimeError if it has no score."""
    with sandbox.box() as box:
        entry = contest.scored(all_alike, raw, box)
    if entry.nats is None:
        raise RuntimeError(f"{name}: {entry.reason}")
    known = {what: pair[0] for what, pair in contest.baselines(all_alike).items()}
    config = {"level": name, "minutes": minutes, "text": "shakespeare", "passages": 64, "seed": 0}
    found = {"nats_per_byte": entry.nats, "standard_error": entry.error, "counts": known}
    sizes = {"vocabulary": entry.vocabulary, "parameters": entry.parameters}
    times = {"training_seconds": entry.cpu, "predicting_seconds": entry.predicting}
    return {"config": config, **found, **sizes, **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=cli.minutes, default=1.0)
    minutes = parser.parse_args().minutes
    train, held_out = leaderboard.texts("shakespeare", None)
    sizes = leaderboard.PASSAGES, leaderboard.BEFORE, leaderboard.SIZE
    passages = tuple(nats.blocks(held_out, *sizes, seed=0))
    all_alike = contest.Contest(train, passages, 60 * minutes, sandbox.walls())
    for number, raw in enumerate(leaderboard.levels(ROOT / "labs"), start=1):
        path = ROOT / "results" / "leaderboard" / f"level-{number}.{minutes:g}.json"
        if not path.exists():
            found = measured(all_alike, minutes, f"level {number}", raw)
            write(path, {**found, "provenance": provenance(device.choose())})
            print(path, f"{found['nats_per_byte']:.4f} ± {found['standard_error']:.4f}", flush=True)


if __name__ == "__main__":
    main()
