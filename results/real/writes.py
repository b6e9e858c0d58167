"""What does a published model write?

    ATTNBOOK_GEMMA=folder python results/real/writes.py

Question. Four beginnings, set before any text was read: what follows, greedily and drawn from the
likeliest 95 % at temperature 0.8? All texts are shown, none is chosen.
Budget. 40 tokens for each.
Baselines. The book's model on the same beginnings.
Nothing found. The greedy texts repeat themselves: fewer than half of their runs of four tokens
differ.
"""

from functools import partial
from typing import Any

import torch
from real_model import Studied, begin, both, finish

from attnbook.generate.sampling import generate, greedy, sample, temperature, top_p
from bookkit.results.protocol import Study

STUDY = Study(
    name="writes",
    question="What does a published model write?",
    budget="40 tokens after each of four beginnings",
    reporting_seeds=range(1),
    baselines=("book-lm",),
    no_gain="fewer than half of the greedy texts' runs of four tokens differ",
)
BEGINNINGS = (
    "Once upon a time, in a small village near the sea,",
    "A transformer is a neural network that",
    "def average(numbers):\n",
    "The three most important rivers of Germany are",
)
STEPS = 40


@torch.no_grad()
def continued(studied: Studied, beginning: str, drawn: bool) -> str:
    """The beginning and 40 tokens more."""
    dice = torch.Generator().manual_seed(0)
    choose = sample(temperature(0.8), top_p(0.95), generator=dice) if drawn else greedy
    tokens = generate(studied.model, studied.batch([beginning]), STEPS, choose)[0].tolist()
    return studied.tokenizer.decode(tokens[len(studied.start) :], skip_special_tokens=False)


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {
        studied.name: {
            way: [
                runs.get(f"{studied.name}/{way}/{n}", partial(continued, studied, text, drawn))
                for n, text in enumerate(BEGINNINGS)
            ]
            for way, drawn in (("greedy", False), ("drawn", True))
        }
        for studied in both()
    }
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
