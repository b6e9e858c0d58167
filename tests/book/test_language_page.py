"""Chapter 7's own tokeniser against a library's, and its own model against the stored run."""

import ast
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
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from attnbook.data import text
from bookkit.results.stored_run import stored_run

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


def test_the_stored_models_were_trained_by_the_cells_of_the_page(script):
    assert stored_run("own_model")["cells"] == script.fingerprint(script.sources())
    assert set(stored_run("own_model")["runs"]) == set(script.RUNS)


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
def test_the_stored_models_learned_and_write_words_of_their_text(script, kind):
    found, docs = stored_run("own_model")["runs"][kind], text.load("python-docs")
    bits = [leg["bits"] for leg in found["legs"]]
    assert [leg["step"] for leg in found["legs"]] == list(script.LEGS)
    assert bits[0] > 3.3 and all(a > b for a, b in pairwise(bits[:4]))  # of 2.76 bytes a token
    training = [loss for _, loss in found["training"]]
    assert all(a > b for a, b in pairwise(training[::5]))
    assert training[-1] < bits[-1]  # what it has read costs less than what is new
    words = set(text.words(docs.train))
    known = [share(leg["text"], words) for leg in found["legs"]]
    assert known[0] < 0.35 and known[-1] > 0.8  # words of its text, of all that it writes


def share(written: str, words: set[str]) -> float:
    """How many of the written words of more than one letter are words of the text."""
    found = [word for word in text.words(written) if len(word) > 1]
    return sum(word in words for word in found) / len(found)


@pytest.fixture(scope="module")
def names(script):
    """All that the page's cells define before the first step."""
    return script.page()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("bytes", marks=pytest.mark.weekly), "pieces"])
def test_the_stored_models_start_as_the_page_starts_them(script, names, kind):
    start, of = stored_run("own_model")["runs"][kind]["legs"][0], script.Kind(names, kind)
    assert of.bits(of.begin()[0]) == pytest.approx(start["bits"], abs=2e-3)


@pytest.mark.slow
def test_both_kinds_of_tokens_are_the_whole_text_and_each_byte_counts_once(script, names):
    docs = text.load("python-docs")
    for kind in ("bytes", "pieces"):
        of = script.Kind(names, kind)
        assert (
            of.decode(of.tokens[:5000].tolist())
            == docs.train[: int(of.sizes[of.tokens[:5000]].sum())]
        )
        assert of.sizes[of.tokens].sum() == len(docs.train.encode())
        assert of.sizes[of.new].sum() == len(docs.validation.encode())


def test_a_plan_of_the_right_length_beats_a_part_of_a_longer_one(script):
    runs = stored_run("own_model")["runs"]
    planned, cut = runs["pieces 1000"]["legs"][-1], runs["pieces"]["legs"][3]
    assert planned["step"] == cut["step"] == 1000
    assert planned["bits"] < cut["bits"] - 0.05
    best = min(leg["bits"] for leg in runs["pieces"]["legs"])
    assert planned["bits"] < best and planned["bits"] < runs["bytes"]["legs"][-1]["bits"] + 0.02


def test_a_step_on_tokens_takes_a_tenth_longer():
    runs = stored_run("own_model")["runs"]
    spent = {kind: sum(leg["seconds"] for leg in run["legs"]) for kind, run in runs.items()}
    assert 1.05 < spent["pieces"] / spent["bytes"] < 1.15
    assert spent["pieces 1000"] / spent["bytes"] < 1 / 3


@pytest.mark.slow
def test_held_out_bits_of_a_model_that_knows_nothing_are_those_of_equal_chances(script, names):
    of = script.Kind(names, "pieces")
    rows = of.new[: (len(of.new) - 1) // 64 * 64 + 1]
    nothing = lambda tokens: torch.zeros(*tokens.shape, 1025)  # noqa: E731
    bits = (
        math.log2(1025) * (len(rows) - 1) / len(names["decode"](rows[1:].tolist(), names["merges"]))
    )
    assert of.bits(nothing) == pytest.approx(bits, abs=1e-3)


def definition(root, cell: str, name: str) -> Any:
    """One function of a cell of the page, without the rest of the cell."""
    notebook = nbformat.read(root / "book" / "07-language-models.ipynb", 4)
    source = next(one["source"] for one in notebook.cells if one["id"] == cell)
    found = next(node for node in ast.parse(source).body if getattr(node, "name", "") == name)
    names: dict[str, Any] = {"torch": torch}
    exec(ast.unparse(found), names)
    return names[name]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_only_the_answers_of_a_dialogue_count_in_the_loss(root, turns):
    tokens, counts = [7, 8], [False, False]  # what stands before the first turn counts neither
    for turn in range(turns):
        tokens += [2, *range(10, 13 + turn), 1, 3, *range(20, 22 + turn), 1]
        counts += [False] * (6 + turn) + [True] * (3 + turn)
    mask = definition(root, "template", "answer_mask")(torch.tensor(tokens))
    assert mask.tolist() == counts


@pytest.fixture(scope="module")
def smoothing(root):
    """The script of the smoothed n-grams."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "results"))
        yield importlib.import_module("kneser_ney")


@pytest.mark.parametrize("before", ["", "t", "the ", "zq#"])
def test_smoothed_n_grams_give_probabilities_that_sum_to_one(smoothing, corpus, before):
    alphabet = sorted(set(corpus))
    orders = smoothing.counted(corpus, 4)
    known = before[-3:]
    total = sum(smoothing.probability(known + sign, orders, len(alphabet)) for sign in alphabet)
    assert total == pytest.approx(1)


def test_in_a_window_an_n_gram_knows_nothing_of_what_stands_before_it(smoothing, corpus):
    orders = smoothing.counted(corpus, 4)
    window = corpus[100 : 100 + smoothing.WINDOW + 1]
    whole = smoothing.bits(window, orders, 90) * len(window)
    first = smoothing.bits(window[0], orders, 90)
    found = smoothing.bits_in_windows(window, orders, 90)
    assert found == pytest.approx((whole - first) / smoothing.WINDOW)


def test_smoothed_n_grams_and_the_page_s_model_are_close_to_each_other():
    stored = stored_run("kneser_ney")
    own = stored_run("own_model")["runs"]["bytes"]["legs"][-1]["bits"]
    assert stored["bits"]["8"] < own < stored["in windows"]["8"]
    assert stored["bits"]["8"] < stored["bits"]["5"] < 1.94  # better than the page's blend of five


def test_smoothed_n_grams_are_ahead_of_the_models_on_tiny_shakespeare():
    counted = stored_run("kneser_ney")["shakespeare in windows"]["8"] * math.log(2)
    assert counted < min(run["loss"] for run in stored_run("scaling")["runs"])
    rungs = stored_run("speedrun")["rungs"].values()
    assert counted < min(min(rung["validation_loss"]) for rung in rungs)
