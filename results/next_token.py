"""What the book's language model expects at each token of one line: the stored run of chapter 7.

    python results/next_token.py

Log-probabilities of all tokens at seven places, sorted: the first 64 rounded to three digits, the
others to one of 256 steps. It takes seconds; a test makes it again.
"""

import base64
from pathlib import Path

import torch

from attnbook import device
from attnbook.provenance import provenance, write
from attnbook.shipped.language import BookModel, load

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs"
START, REST = "KING HENRY:\n", "What say you to the king?"
EXACT, SHOWN = 64, 12


def place(model: BookModel, log_p: torch.Tensor) -> dict:
    """The likeliest tokens by name, and how likely the others are."""
    ordered, tokens = log_p.sort(descending=True)
    tail = ordered[EXACT:]
    step = (tail[0] - tail[-1]).item() / 255
    levels = ((tail[0] - tail) / step).round().to(torch.uint8)
    return {
        "names": [model.decode(token) for token in tokens[:SHOWN].split(1)],
        "first": [round(x, 3) for x in ordered[:EXACT].tolist()],
        "from": round(tail[0].item(), 3),
        "step": round(step, 5),
        "levels": base64.b64encode(bytes(levels.tolist())).decode(),
    }


@torch.no_grad()
def run() -> dict:
    model = load("book-lm")
    before, tokens = model.encode(START), model.encode(START + REST)
    log_p = model.model(tokens)[0].log_softmax(-1)
    at = range(before.shape[1], tokens.shape[1])
    return {
        "model": model.card["name"],
        "start": START,
        "tokens": [model.decode(tokens[:, t]) for t in at],
        "places": [place(model, log_p[t - 1]) for t in at],
    }


def main() -> None:
    torch.set_num_threads(1)
    found = run() | {"provenance": provenance(device.choose(0))}
    write(STORE / "next_token.json", found)


if __name__ == "__main__":
    main()
