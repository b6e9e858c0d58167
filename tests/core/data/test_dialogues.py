"""Dialogues: what is asked and answered, and that held-out words are held out."""

import pytest
import torch

from attnbook.data.dialogues import dialogue, dialogues, words
from attnbook.shipped.language import load


def test_no_held_out_word_is_trained_on_and_the_mask_is_true_at_the_answer_alone():
    known, held_out = words()
    assert not set(known) & set(held_out) and len(held_out) > 100
    book = load()
    tokens, answers = dialogues(book.encode, known)(torch.Generator().manual_seed(0), B=8)
    for row, counted in zip(tokens, answers, strict=True):
        said = book.decode(row[counted])
        assert said.endswith("<|end|>") and "<|book|>" not in said
        before = book.decode(row[: int(counted.int().argmax())])
        assert before.startswith("<|user|>") and before.endswith("<|book|>")


def test_a_task_that_is_unknown_is_refused():
    assert dialogue("spell", "list")[1] == "l-i-s-t<|end|>"
    with pytest.raises(ValueError, match="there are repeat, plural, spell"):
        dialogue("shout", "list")
