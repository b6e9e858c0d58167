"""Lab 11's lessons: dialogues with roles, and measures of what was learned and forgotten."""

import pytest
import torch

from attnlabs import lab11


def test_a_dialogue_is_the_user_then_the_assistant_then_padding():
    tokens, roles = lab11.chat("plural", ["list", "attribute"])
    text = lab11.book().decode
    for row, role, word in zip(tokens, roles, ("list", "attribute"), strict=True):
        assert text(row[role == lab11.ASSISTANT]) == f"{word}s<|end|>"
        assert text(row[role == lab11.USER]).startswith(f"<|user|>What is the plural of {word}?")
        assert (row[role == lab11.PADDING] == 0).all() and row[role == lab11.ASSISTANT][-1] == 1
        spoken = role[role != lab11.PADDING]
        assert torch.equal(spoken, spoken.sort().values)


def test_no_lesson_is_about_a_held_out_word():
    known, held_out = lab11.words()
    assert not set(known) & set(held_out) and len(held_out) > 100
    one, two = (lab11.lesson("plural", torch.Generator().manual_seed(3))[0] for _ in range(2))
    assert torch.equal(one, two) and len(one) == 16


def test_the_model_before_any_lesson_does_not_answer():
    right, stops = lab11.answered(lab11.book().model, "plural", lab11.words()[1][:3])
    assert right == 0 and stops < 1


def test_a_task_that_is_none_is_named():
    with pytest.raises(ValueError, match="there is no task 'sing'"):
        lab11.chat("sing", ["list"])
