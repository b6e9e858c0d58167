"""Chapter 7's own tokeniser against a library's, and its own model against the stored run."""

import importlib
import json
import math
import re
from collections import Counter
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from attnbook.data import text
from attnbook.stored_run import stored_run

HARD = "It's 12 o'clock,  naïve Grüße\n\n  🙂<|end|>__init__ = {'a': 3.14}\t!? \u00a0x "


@pytest.fixture(scope="module")
def page(root):
    """The names that the page's cells of byte-pair encoding define."""
    notebook = nbformat.read(root / "book" / "07-language-models.ipynb", 4)
    sources = {cell["id"]: cell["source"] for cell in notebook.cells}
    names: dict[str, Any] = {"re": re, "Counter": Counter, "pairwise": pairwise}
    for name in ("bpe-merge", "bpe-learn", "bpe-code"):
        exec(sources[name], names)
    return SimpleNamespace(**names)


@pytest.fixture(scope="module")
def corpus():
    return text.load("python-docs").train[:20_000]


@pytest.fixture(scope="module")
def merges(page, corpus):
    return page.learn(corpus, 200)


def signs(piece: str) -> str:
    """Each byte as one sign, in the order of the bytes."""
    return "".join(chr(0x1000 + byte) for byte in piece.encode())


def library(page, corpus: str, count: int) -> Tokenizer:
    """The same merges by another program, on the same pieces of the same bytes."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Split("|", "removed")
    alphabet = [chr(0x1000 + byte) for byte in range(256)]
    trainer = BpeTrainer(vocab_size=256 + count, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["|".join(map(signs, page.cut(corpus)))], trainer)
    return tokenizer


def test_the_merges_are_those_of_a_library(page, corpus, merges):
    found = json.loads(library(page, corpus, 200).to_str())["model"]["merges"]
    spelled = {token: signs_of(piece) for token, piece in page.spelling(merges).items()}
    assert [tuple(pair) for pair in found] == [(spelled[a], spelled[b]) for a, b in merges]


def signs_of(piece: bytes) -> str:
    return "".join(chr(0x1000 + byte) for byte in piece)


def test_a_new_text_is_cut_as_a_library_cuts_it(page, corpus, merges):
    other = library(page, corpus, 200)
    for new in (text.load("python-docs").validation[:3000], HARD.replace("<|end|>", "")):
        theirs = other.encode("|".join(map(signs, page.cut(new)))).tokens
        spelled = page.spelling(merges)
        assert [signs_of(spelled[token]) for token in page.encode(new, merges)] == theirs


def test_the_pieces_are_those_of_gpt2(page, corpus):
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for new in (corpus, HARD.replace("<|end|>", "")):
        places = [place for _, place in gpt2.pre_tokenize_str(new)]
        assert page.cut(new) == [new[start:end] for start, end in places]


@pytest.mark.parametrize("new", [HARD, "", "🙂", "<|end|><|end|>", "ß" * 9, "\x00\n\r\n"])
@pytest.mark.parametrize("count", [0, 50, 200])
def test_every_text_comes_back(page, merges, new, count):
    some = dict(islice(merges.items(), count))
    tokens = page.encode(new, some)
    assert page.decode(tokens, some) == new
    assert all(0 <= token <= 256 + count for token in tokens)


def test_no_merge_makes_the_special_token_or_crosses_a_piece(page, corpus, merges):
    again = page.learn(corpus + page.END * 500, 200)
    assert again == merges
    spelled = [piece.decode(errors="replace") for piece in page.spelling(merges).values()]
    assert all(" " not in piece.strip() for piece in spelled)
    assert page.encode("a<|end|>b", merges)[1] == 256 + len(merges)


def test_more_merges_never_make_a_text_longer(page, merges):
    new = text.load("python-docs").validation[:2000]
    lengths = [
        len(page.encode(new, dict(islice(merges.items(), count)))) for count in (0, 10, 50, 200)
    ]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] == 2000


@pytest.fixture(scope="module")
def script(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "results"))
        yield importlib.import_module("own_model")


def test_the_stored_model_was_trained_by_the_cells_of_the_page(script):
    assert stored_run("own_model")["cells"] == script.fingerprint(script.sources())


def test_the_stored_model_learned_and_writes_the_letters_of_its_text(script):
    for corpus, legs in stored_run("own_model")["runs"].items():
        bits = [leg["bits"] for leg in legs]
        assert [leg["step"] for leg in legs] == list(script.LEGS)
        assert bits[0] > math.log2(60) and all(a > b for a, b in pairwise(bits))
        assert all(set(leg["text"]) <= set(text.load(corpus).characters.symbols) for leg in legs)
        words = set(text.words(text.load(corpus).train))
        known = [share(leg["text"], words) for leg in legs]
        assert known[0] < 0.35 and known[-1] > 0.8  # words of its text, of all that it writes


def share(written: str, words: set[str]) -> float:
    """How many of the written words of more than one letter are words of the text."""
    found = [word for word in text.words(written) if len(word) > 1]
    return sum(word in words for word in found) / len(found)


def test_the_stored_model_starts_as_the_page_starts_it(script):
    start = stored_run("own_model")["runs"]["python-docs"][0]
    names = script.page("python-docs")
    assert names["held_out_bits"]() == pytest.approx(start["bits"], abs=2e-3)
    assert names["mine"](names["characters"][None, :5]).shape == (1, 5, 94)
