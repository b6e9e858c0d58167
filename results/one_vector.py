"""Chapter 2's digits through one vector, with ten times the steps: is it short of room, or of time?

    python results/one_vector.py      # resumed seed by seed; five minutes on one core

The page's model with one context vector, its strings of 2 to 10 digits, its learning rate, and
4,300 steps in place of 430, which the cosine is stretched over; five seeds. Stored: the share of
200 strings of each length that are written without a mistake, as the page measures it.
"""

import json
from pathlib import Path
from typing import Any

from attnbook import device, seq2seq
from attnbook.data import digits
from attnbook.provenance import provenance, write
from bookkit.experiments.translators import fit, right

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "one_vector.json"
STEPS, SEEDS, LENGTHS = 4300, range(5), range(2, 15, 2)


def run(seed: int) -> dict[str, float]:
    """The share without a mistake at each length, of one model."""
    tests = digits.by_length(digits.reverse, LENGTHS, B=200)
    build = lambda: seq2seq.cho_2014(digits.V, digits.V, embed=16, width=24)  # noqa: E731
    model, _ = fit(build, digits.reverse(64, 2, 10), steps=STEPS, seed=seed)
    return {str(T): right(model, tests[T]).float().mean().item() for T in LENGTHS}


def main() -> None:
    found: dict[str, Any] = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    runs = found.setdefault("runs", {})
    for seed in SEEDS:
        if str(seed) not in runs:
            runs[str(seed)] = run(seed)
            write(STORE, found | {"steps": STEPS, "provenance": provenance(device.choose())})
            print(seed, runs[str(seed)], flush=True)


if __name__ == "__main__":
    main()
