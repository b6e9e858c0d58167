"""Where the twins of the book's translator look is stored as they look."""

import json

import pytest
import torch

from attnbook.data import pairs
from attnbook.shipped.language import FOLDER
from attnbook.shipped.translator import load, names
from bookkit.results.stored_run import stored_run


@pytest.fixture
def study(script):
    return script("results/translators.py")


def test_the_cards_have_the_settings_of_the_script(study):
    assert names() == sorted(study.SIZES)
    for name in names():
        card = json.loads((FOLDER / name / "card.json").read_text("utf-8"))
        config = study.config_of(name, 0)
        assert card["sizes"] == config["sizes"] and card["recipe"] == config["recipe"]
        for setting in ("dropout", "passes", "batch", "smoothing", "lr", "warmup", "floor", "seed"):
            assert card["training"][setting] == config[setting], (name, setting)
        assert card["training"].get("precision", "float32") == config["precision"]
        assert card["sentences"]["pairs"] == [list(pair) for pair in study.OURS]


def test_processor_seconds_are_those_of_all_processes(study, tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(json.dumps({"cpu": n}) + "\n" for n in (5, 11, 3, 8)))
    assert study.cpu_seconds(log) == 11 + 8


def test_a_translator_agrees_with_itself_and_writes_its_weights_down(study):
    book = load("translator-attention")
    corpus = pairs.load("toy")  # English, but all that is asked is the same
    found = study.agreement([book, book], corpus, count=3)
    assert found["same"] == 1 and found["shared"] == pytest.approx(1, abs=1e-3)
    text = "Ein Hund rennt durch den Schnee."
    kept, (weights, rows, _) = study.written(book, text), book.looks(text, beams=1)
    assert kept["pieces"].split() == rows
    stored = torch.tensor([[int(n) for n in row.split()] for row in kept["weights"]]) / 1000
    torch.testing.assert_close(stored, weights[0], atol=5.1e-4, rtol=0.0)


def test_fifty_sentences_of_two_seeds_are_stored_with_whose_they_are():
    run = stored_run("translators")
    assert "Multi30K" in run["attribution"] and "CC BY-NC-SA 4.0" in run["licence"]
    assert len(run["sentences"]) == 50 and len(run["runs"]) == 2
    for seed in run["runs"].values():
        assert seed["alignments"].keys() == run["sentences"].keys()
        for number, found in seed["alignments"].items():
            assert len(found["pieces"].split()) == len(found["weights"])
            read = len(run["sentences"][number].split())
            for row in found["weights"]:
                shares = [int(n) for n in row.split()]
                assert len(shares) == read and abs(sum(shares) - 1000) <= read


def test_the_first_seed_is_the_twin_that_is_shipped():
    run, book = stored_run("translators"), load("translator-attention")
    first = run["runs"]["translator-attention.seed0"]
    assert first["test"]["bleu"] == book.card["test"]["bleu"]
    for number in list(run["sentences"])[:5]:
        found = first["alignments"][number]
        written = "".join(run["sentences"][number].split()).replace("▁", " ").strip()
        assert book.looks(written, beams=1)[1] == found["pieces"].split()
