"""What would a published model say if it ended earlier, and where does this reading fail?

    ATTNBOOK_GEMMA=folder python results/real/lens.py

Question. After which layer does the logit lens show the answer of five prompts, does it stay there
to the end, and what does the lens show before?
Budget. Five prompts, written before any was read; one page of 256 tokens of documentation.
Baselines. The likeliest token of all at the last layer; the token that stands there (with one table
for input and output the lens shows it where nothing has happened yet); the book's model.
Nothing found. The answer is not among the three likeliest after any layer but the last.
"""

from functools import partial
from typing import Any

import torch
from real_model import Studied, begin, both, finish, gemma, nats, seen
from torch import Tensor

from attnbook.data import text
from bookkit.results.protocol import Study

STUDY = Study(
    name="lens",
    question="After which layer does the lens show the answer, and where does it fail?",
    budget="five prompts; one page of 256 tokens",
    reporting_seeds=range(1),
    baselines=("the token that stands there", "book-lm"),
    no_gain="the answer is among the three likeliest after no layer but the last",
)
PROMPTS = {
    "The capital of France is": " Paris",
    "When Mary and John went to the store, John gave a drink to": " Mary",
    "def add(a, b):\n    return a +": " b",
    "cat → chat, dog → chien, house →": " maison",
    "The opposite of hot is": " cold",
}


@torch.no_grad()
def reading(prompt: str, answer: str) -> dict[str, Any]:
    """The three likeliest tokens after each layer at the end of a prompt, the answer's chance and
    its place among all."""
    studied = gemma()
    (right,) = studied.tokens(answer)
    run = seen(studied, studied.batch([prompt]), maps=False)
    last = torch.stack([stream[0, -1] for stream in run.stream])
    p = studied.model.lm_head(studied.model.body.norm(last)).softmax(-1)
    best = p.topk(3)
    return {
        "answer": answer,
        "best": [[studied.word(t) for t in row] for row in best.indices.tolist()],
        "p": [[round(x, 3) for x in row] for row in best.values.tolist()],
        "right": [round(x, 4) for x in p[:, right].tolist()],
        "place": [int(x) for x in (p > p[:, [right]]).sum(1) + 1],
    }


@torch.no_grad()
def page(studied: Studied) -> dict[str, list[float]]:
    """On a page of documentation, after each layer: nats of the next token, and how often the
    likeliest one is the token that stands there, or the one that is said in the end."""
    ids = studied.tokens(text.load("python-docs").validation[:2000])[:256]
    tokens = torch.tensor([[*studied.start, *ids]])
    told, here = tokens[0, 1:], tokens[0, :-1]
    streams = [x[0, :-1] for x in seen(studied, tokens, maps=False).stream]

    def read(x: Tensor) -> tuple[float, Tensor]:
        vectors = studied.model.body.norm(x)
        said = [studied.model.lm_head(some).argmax(-1) for some in vectors.split(32)]
        return nats(studied.model, vectors, told).mean().item(), torch.cat(said)

    found = [read(x) for x in streams]
    end = found[-1][1]
    return {
        "nats": [round(loss, 3) for loss, _ in found],
        "token that stands there": [round((s == here).float().mean().item(), 3) for _, s in found],
        "what is said in the end": [round((s == end).float().mean().item(), 3) for _, s in found],
    }


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {
        "prompts": {p: runs.get(p, partial(reading, p, answer)) for p, answer in PROMPTS.items()},
        "page": {s.name: runs.get(f"page/{s.name}", partial(page, s)) for s in both()},
    }
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
