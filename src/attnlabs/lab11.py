"""What a student of lab 11 teaches the book's language model, and how it is measured.

Questions about single words in a chat template; a fifth of the words is held out. Nothing here says
what of a dialogue counts in the loss.
"""

from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnbook.data import dialogues, text
from attnbook.generate.sampling import generate
from attnbook.shipped.language import BookModel, load, nats_per_byte

PADDING, USER, ASSISTANT = 0, 1, 2  # roles
END, LONGEST, READ = 1, 14, 12_000  # the end's token; tokens of an answer; characters
ASKED = 10  # each tenth of the held-out words is asked for


@cache
def book() -> BookModel:
    """The book's language model as it is before any lesson: nobody may train this one."""
    return load("book-lm")


@cache
def words() -> tuple[list[str], list[str]]:
    """Words to learn from, and words that are held out."""
    return dialogues.words()


def pupil() -> nn.Module:
    """A copy of the book's language model, to be taught."""
    return load("book-lm").model


def chat(task: str, some: Sequence[str]) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Tokens and roles of dialogues about these words, padded on the right.

    Tasks are those of `data.dialogues`; ValueError for another one.
    """
    rows, roles = [], []
    for word in some:
        before, after = (book().encode(part)[0] for part in dialogues.dialogue(task, word))
        rows.append(torch.cat([before, after]))
        roles.append(torch.tensor([USER] * len(before) + [ASSISTANT] * len(after)))
    return pad_sequence(rows, batch_first=True), pad_sequence(roles, batch_first=True)


def lesson(task: str, dice: torch.Generator, B: int = 16) -> tuple[Tensor, Tensor]:
    """Tokens and roles of B dialogues about words that may be learned from."""
    known = words()[0]
    return chat(task, [known[n] for n in torch.randint(len(known), (B,), generator=dice)])


def answered(model: nn.Module, task: str, some: Sequence[str] | None = None) -> tuple[float, float]:
    """The shares of right answers about held-out words, and of answers that end by themselves."""
    some = words()[1][::ASKED] if some is None else some
    right = stops = 0
    for word in some:
        before, after = dialogues.dialogue(task, word)
        start = book().encode(before)
        said = book().decode(generate(model, start, LONGEST, eos=END)[:, start.shape[1] :])
        right += said.startswith(after.removesuffix("<|end|>"))
        stops += said.endswith("<|end|>")
    return right / len(some), stops / len(some)


def price(model: nn.Module) -> float:
    """Nats per byte of documentation that was never read: what rises here has been forgotten."""
    documentation = text.load("python-docs").validation[:READ]
    return nats_per_byte(model, book().tokenizer, documentation, book().card["context"])
