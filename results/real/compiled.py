"""What does a compiled step bring to a published model's writing?

    ATTNBOOK_GEMMA=folder python results/real/compiled.py

Question. Gemma 3 270M writes one text on one thread, in 32 and 16 bits, with all matrices in 8 bits
(a scale for each row), and each of these with its blocks compiled for one new token and a cache of
fixed room; and transformers' `generate` in 32 bits and 16 bits. `faster.py` asked the same and its
hour ended before this run.
Budget. 64 tokens and 32 more, greedily, in pieces of 4; the first piece, which reads the prompt and
compiles, is not counted; all ways write their next piece in turn, seven times.
Baselines. transformers in 32 bits; the same way without a compiler.
Nothing found. The quartiles of the ratio of the seconds, not compiled to compiled, contain 1 or lie
below it. In 32 bits all ways write the same tokens, or nothing is stored.

Seconds are those of the processor, and ratios are taken within a round, as in `faster.py`.
"""

import copy
from typing import Any

from faster import BASE, eight, in_turn, plain, quartiles, theirs
from real_model import begin, finish

from bookkit.results.protocol import Study

STUDY = Study(
    name="compiled",
    question="What does a compiled step bring to a published model's writing?",
    budget="32 tokens after 64, seven pieces of 4 counted",
    reporting_seeds=range(1),
    baselines=("transformers, 32 bits", "the same way without a compiler"),
    no_gain="the quartiles of the ratio, not compiled to compiled, contain 1 or are below",
)


def writing() -> dict[str, Any]:
    """Three number formats with and without a compiler, beside transformers in two."""
    here = {"32 bits": plain(), "16 bits": copy.deepcopy(plain()).bfloat16(), "8 bits": eight()}
    there = {name: theirs()[name] for name in (BASE, "transformers, 16 bits")}
    found = in_turn(here | there, here)
    for name in here:
        pair = (found[way]["seconds"] for way in (name, f"{name}, compiled"))
        found[f"{name}, compiled"]["than without"] = quartiles(*pair)
    return found


def main() -> None:
    said, runs = begin(STUDY, __file__)
    finish(STUDY, said, runs, {"writing": runs.get("writing", writing)})


if __name__ == "__main__":
    main()
