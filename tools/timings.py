"""Seconds of each test file and notebook, kept; what has become slower by half is said.

    python tools/timings.py --keep
    python tools/timings.py --took 93 website     what is no test: seconds, stage

As a plugin (`pytest -p timings`, the stage's name in ATTNBOOK_STAGE) it writes the seconds of each
file to _build/times and prints those that take half as long again as the run in tests/times.json,
which `--keep` writes anew. A machine may be slower, or busy: a file is compared with the other
files of its stage, by the median of their ratios.
"""

import argparse
import json
import os
import platform
import statistics
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the website is built without it
    import pytest

ROOT = Path(__file__).resolve().parents[1]
NEW, KEPT = ROOT / "_build/times", ROOT / "tests/times.json"
SLOWER, AT_LEAST = 1.5, 5.0  # times what was kept, and seconds: shorter files vary by more
Seconds = dict[str, float]


def slower(now: Seconds, kept: Seconds) -> list[str]:
    """A line for each file that takes half as long again, the machine's own speed divided out."""
    both = {name: now[name] / kept[name] for name in now if kept.get(name, 0) > 0}
    long = [ratio for name, ratio in both.items() if kept[name] >= AT_LEAST]
    pace = statistics.median(long) if len(long) > 2 else 1.0
    worst = sorted(both, key=lambda name: -both[name])
    return [
        f"slower by half: {name} {now[name]:.0f} s, kept {kept[name]:.0f} s (all: × {pace:.2f})"
        for name in worst
        if both[name] > SLOWER * pace and now[name] >= AT_LEAST * pace
    ]


class Timings:
    """Sums the seconds of each file in the process that hears of all tests."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        self.seconds[report.nodeid.split("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        for line in compared(self.stage, self.seconds):
            terminalreporter.write_line(line)


def compared(stage: str, seconds: Seconds) -> list[str]:
    """Stores the seconds; what is slower by half, on GitHub as warnings beside the run, too."""
    store(stage, seconds)
    lines = slower(seconds, kept().get(stage, {}))
    return lines + [f"::warning::{line}" for line in lines if os.environ.get("GITHUB_ACTIONS")]


def store(stage: str, seconds: Seconds) -> None:
    """The seconds of a stage as `_build/times/<stage>.json`, the longest first."""
    NEW.mkdir(parents=True, exist_ok=True)
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    text = json.dumps({name: round(value, 1) for name, value in ordered}, indent=1)
    (NEW / f"{stage}.json").write_text(text + "\n", encoding="utf-8")


def kept() -> dict[str, Seconds]:
    """The seconds that are kept, by stage and file; none if there are none."""
    return json.loads(KEPT.read_text(encoding="utf-8"))["stages"] if KEPT.exists() else {}


def pytest_configure(config: "pytest.Config") -> None:
    stage = os.environ.get("ATTNBOOK_STAGE")
    if stage and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Timings(stage))


def keep() -> str:
    """Keep the newest run of each stage, but for files that are gone; what was kept, in words."""
    new = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in NEW.glob("*.json")}
    old = kept()
    stages = {stage: old.get(stage, {}) | new.get(stage, {}) for stage in sorted(old | new)}
    for stage, seconds in stages.items():
        there = {k: v for k, v in seconds.items() if k == stage or (ROOT / k).exists()}
        stages[stage] = dict(sorted(there.items(), key=lambda item: -item[1]))
    result = {
        "command": "python tools/timings.py --keep",
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "stages": stages,
    }
    KEPT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return ", ".join(f"{stage} {sum(seconds.values()):.0f} s" for stage, seconds in new.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--keep", action="store_true", help="keep the newest run of each stage")
    asked.add_argument("--took", nargs=2, metavar=("SECONDS", "STAGE"), help="of what is no test")
    options = parser.parse_args()
    if options.keep:
        if not any(NEW.glob("*.json")):
            parser.error(f"{NEW} holds no times: run `make test` first")
        print(f"kept in {KEPT.name}: {keep()}")
    else:
        seconds, stage = options.took
        print("\n".join(compared(stage, {stage: float(seconds)})), end="")


if __name__ == "__main__":
    main()
