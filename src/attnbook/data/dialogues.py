"""Short dialogues in a chat template, each about one word: what a model of text is tuned on.

Three kinds of task on single words of Python's documentation; a fifth of the words is held out.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnbook.data import text

TASKS: dict[str, tuple[str, Callable[[str], str]]] = {
    "repeat": ("Say {} twice.", lambda word: f"{word}, {word}"),
    "plural": ("What is the plural of {}?", lambda word: f"{word}s"),
    "spell": ("Spell {}.", "-".join),
}
Encode = Callable[[str], Int[Tensor, "1 T"]]  # the tokens of a text
Dialogues = tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]  # and True at the answers


def words() -> tuple[list[str], list[str]]:
    """Words to train on, and words that are held out: every fifth."""
    docs = text.load("python-docs").train
    found = sorted({word for word in text.words(docs) if word.isalpha() and 4 <= len(word) <= 8})
    found = [word for word in found if word.islower() and not word.endswith("s")]
    return [w for n, w in enumerate(found) if n % 5], found[::5]


def dialogue(task: str, word: str) -> tuple[str, str]:
    """What stands before the answer, and the answer with its end."""
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}; there are {', '.join(TASKS)}")
    ask, answer = TASKS[task]
    return f"<|user|>{ask.format(word)}<|end|><|book|>", f"{answer(word)}<|end|>"


def dialogues(encode: Encode, known: list[str]) -> Callable[..., Dialogues]:
    """A sampler of B dialogues about `known` words, padded on the right with token 0.

    The second tensor is True at the tokens of the answers: what the loss counts.
    """

    def sample(generator: torch.Generator, B: int = 16) -> Dialogues:
        rows, answers = [], []
        for _ in range(B):
            task = list(TASKS)[int(torch.randint(len(TASKS), (), generator=generator))]
            word = known[int(torch.randint(len(known), (), generator=generator))]
            before, after = (encode(part)[0] for part in dialogue(task, word))
            rows.append(torch.cat((before, after)))
            answers.append(torch.arange(len(rows[-1])) >= len(before))
        return pad_sequence(rows, batch_first=True), pad_sequence(answers, batch_first=True)

    return sample
