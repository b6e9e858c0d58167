"""A class of twenty projects on lab 8's leaderboard: how long it takes, and who has no score.

    python results/class_of_twenty.py --minutes 1   # goes on where it stopped

Twenty submissions are made of the lab's own solution and the two scripts in labs/levels/, with
other sizes, vocabularies and names; three have a fault: one stops, one gives rows that do not sum
to 1, one ends in lines that are no Python (the rest of it counts). Then `attnlabs leaderboard`
is run on the folder as a lecturer runs it, two projects at a time, tiny Shakespeare.
results/class_of_twenty.json has its table, and the seconds by the clock of each run.
"""

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from attnbook import device
from attnbook.provenance import provenance, write
from attnlabs import cli, leaderboard

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "results" / "class_of_twenty.json"
PLACE = ROOT / "_build" / "class_of_twenty"
SIZES = '{"V": 768, "C": 128, "H": 4, "layers": 3}'
SCRIPTS = [  # which level, and what is changed: V, C, H, layers
    (level, V, C, H, layers)
    for level in (2, 3)
    for V, C, H, layers in (
        (768, 128, 4, 3),
        (512, 128, 4, 3),
        (1024, 128, 4, 2),
        (512, 96, 4, 4),
        (384, 160, 4, 2),
        (768, 96, 3, 3),
        (300, 64, 2, 4),
    )
]
FAULTS = {
    "stops": "def predictor(vocabulary, weights):\n    raise RuntimeError('not finished')\n",
    "sums": "def predictor(vocabulary, weights):\n"
    "    return lambda ids: torch.zeros(len(ids), len(vocabulary))\n",
    "no-python": "def submit(text, seconds:\n",
}


def scripts() -> dict[str, str]:
    """Seventeen scripts, of which three have a fault, by the names of their files."""
    two, three = ((each.content or b"").decode() for each in leaderboard.levels(ROOT / "labs")[1:])
    found = {}
    for number, (level, *sizes) in enumerate(SCRIPTS):
        raw = two if level == 2 else three
        if SIZES not in raw:
            raise ValueError(f"labs/levels/08-level-2.py no longer has the sizes {SIZES}")
        named = dict(zip(("V", "C", "H", "layers"), sizes, strict=True))
        found[f"student-{number:02}.py"] = raw.replace(SIZES, json.dumps(named))
    for name, fault in FAULTS.items():
        found[f"student-{name}.py"] = f"{two}\n\n{fault}"
    return found


def notebooks() -> dict[str, str]:
    """Three copies of the lab's solution, each under a name of its own."""
    raw = next((ROOT / "labs").glob("08-*.ipynb")).read_text(encoding="utf-8")
    found = {}
    for number in range(3):
        book = json.loads(raw)
        last = {**book["cells"][0], "cell_type": "code", "outputs": [], "execution_count": None}
        last |= {"id": f"own-name-{number}", "source": f"TEAM = 'copy {number}'", "metadata": {}}
        book["cells"].append(last)
        found[f"student-copy-{number}.ipynb"] = json.dumps(book)
    return found


def handed_in() -> Path:
    """The folder of the twenty."""
    folder = PLACE / "submissions"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (scripts() | notebooks()).items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def table(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=cli.minutes, default=1.0)
    minutes = parser.parse_args().minutes
    out, spent = PLACE / "leaderboard.csv", PLACE / "seconds.json"
    folder, begin = handed_in(), time.perf_counter()
    command = ["attnlabs", "leaderboard", str(folder), "--text", "shakespeare"]
    options = ["--minutes", f"{minutes:g}", "--workers", "2", "--out", str(out)]
    try:
        subprocess.run([sys.executable, "-m", *command, *options], check=True, cwd=ROOT)
    finally:  # a run that was stopped counts, too
        before = json.loads(spent.read_text()) if spent.exists() else []
        spent.write_text(json.dumps([*before, round(time.perf_counter() - begin, 1)]))
    seconds = json.loads(spent.read_text())
    config = {"projects": len(list(folder.iterdir())), "minutes": minutes, "workers": 2}
    write(
        STORE,
        {"config": config, "seconds": seconds, "table": table(out)}
        | {"provenance": provenance(device.choose())},
    )
    print(f"{config['projects']} projects: {sum(seconds):.0f} s")


if __name__ == "__main__":
    main()
