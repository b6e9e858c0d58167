"""From a model of text to one that answers: instruction tuning in small, for chapter 7.

    python results/answers.py           # resumed run by run

The book's model is trained for 80 steps of 16 short dialogues in the chat template, with the loss
on the answers only (AdamW, 0.001, a cosine; nothing was tuned). Three kinds of task on single words
of Python's documentation; a fifth of the words is held out. Stored for two seeds, and for the
model before: the share of right answers of each kind on held-out words, the share of answers that
end, and nats per byte of held-out documentation.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.data.dialogues import TASKS, dialogue, dialogues, words
from attnbook.generate.sampling import generate
from attnbook.losses import token_loss
from attnbook.provenance import provenance, write
from attnbook.shipped.language import BookModel, load
from attnbook.train.loop import cosine, train

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "answers.json"
SEEDS, STEPS, END = range(2), 80, 1


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    tokens, answer = batch
    return token_loss(model(tokens[:, :-1]), tokens[:, 1:], answer[:, 1:])


@torch.no_grad()
def judged(book: BookModel, held_out: list[str]) -> dict:
    """How it answers about thirty held-out words, and what it still knows of documentation."""
    found, ended, asked = {}, 0, held_out[:: len(held_out) // 30][:30]
    for task in TASKS:
        right = 0
        for word in asked:
            before, after = dialogue(task, word)
            start = book.encode(before)
            said = generate(book.model, start, 24, eos=END)[:, start.shape[1] :]
            right += book.decode(said) == after
            ended += END in said[0].tolist()
        found[task] = right / len(asked)
    found["ends"] = ended / len(asked) / len(TASKS)
    docs = text.load("python-docs").validation
    return found | {"nats_per_byte": round(book.nats_per_byte(docs), 4)}


def answers(seed: int) -> dict:
    """A model after its training."""
    book, (known, held_out) = load("book-lm"), words()
    train(
        book.model, dialogues(book.encode, known), loss, steps=STEPS, lr=1e-3,
        schedule=cosine(STEPS, 10, 0.05), seed=seed, progress=False,
    )  # fmt: skip
    book.model.eval()
    return judged(book, held_out)


def work() -> Iterator[tuple[str, int | None]]:
    """Each run's name and seed; None for the model as it was."""
    yield "before", None
    for seed in SEEDS:
        yield f"after/{seed}", seed


def main() -> None:
    torch.set_num_threads(1)
    runs = json.loads(STORE.read_text("utf-8"))["runs"] if STORE.exists() else {}
    for name, seed in work():
        if name not in runs:
            runs[name] = judged(load("book-lm"), words()[1]) if seed is None else answers(seed)
            print(name, runs[name], flush=True)
            write(STORE, {"runs": runs, "provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
