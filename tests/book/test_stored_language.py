"""The stored runs of chapter 7: made by the scripts that they name, and repeatable."""

import base64
import importlib

import pytest
import torch

from attnbook.data.dialogues import dialogues
from attnbook.shipped.language import load
from bookkit.explore.next_token import logits_of
from bookkit.results.stored_run import stored_run


@pytest.fixture
def script_of(root, monkeypatch):
    """A script of results/ by its name."""
    monkeypatch.syspath_prepend(str(root / "results"))
    return importlib.import_module


def test_what_the_model_expects_is_made_again(script_of):
    found, again = stored_run("next_token"), script_of("next_token").run()
    assert again["tokens"] == found["tokens"] and again["start"] == found["start"]
    for old, new in zip(found["places"], again["places"], strict=True):
        assert old["names"][:6] == new["names"][:6]
        assert old["first"] == pytest.approx(new["first"], abs=0.01)


def test_all_tokens_are_stored_and_their_probabilities_sum_to_one():
    for place in stored_run("next_token")["places"]:
        assert len(place["first"]) + len(base64.b64decode(place["levels"])) == 1024
        assert logits_of(place).exp().sum().item() == pytest.approx(1, abs=0.01)
        assert (logits_of(place).diff() <= 1e-3).all()


def test_the_line_is_cut_as_the_tokenizer_cuts_it(script_of):
    script, model = script_of("next_token"), load("book-lm")
    tokens = model.encode(script.START + script.REST)[0]
    assert "".join(model.decode(token) for token in tokens.split(1)) == script.START + script.REST


@pytest.mark.weekly
def test_every_draft_was_measured_and_one_is_measured_again(script_of):
    found, study = stored_run("drafts")["runs"], script_of("drafts")
    assert set(found) == {name for name, _ in study.work()}
    assert study.kept("copy", "greedy", 4)["kept"] == found["kept/greedy/copy/4"]["kept"]


def test_every_model_was_taught_to_answer_and_learned_it(script_of):
    found, study = stored_run("answers")["runs"], script_of("answers")
    assert set(found) == {name for name, _ in study.work()}
    before = found.pop("before")
    better = ("repeat", "plural", "ends")
    assert all(run[task] > before[task] + 0.3 for run in found.values() for task in better)
    assert all(run["spell"] < 0.1 for run in found.values())  # a token does not show its letters
    assert all(run["nats_per_byte"] > before["nats_per_byte"] for run in found.values())


def test_the_words_of_the_answers_that_are_asked_were_not_trained_on(script_of):
    known, held_out = script_of("answers").words()
    assert len(held_out) > 200 and not set(known) & set(held_out)


def test_only_the_answer_is_in_the_loss():
    book = load("book-lm")
    tokens, answer = dialogues(book.encode, ["list"])(torch.Generator().manual_seed(0))
    for row, counted in zip(tokens, answer, strict=True):
        asked = book.decode(row[: int(counted.int().argmax())])
        assert asked.startswith("<|user|>") and asked.endswith("<|book|>")
        assert book.decode(row[counted]).endswith("<|end|>")
