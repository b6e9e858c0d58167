"""The writers of chapter 1 at a third of the rate: the fast layer, and what the page says of it."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.data import text
from attnbook.data.brackets import CHARACTERS, CLOSED, brackets
from attnbook.recurrent import LSTMCell, language_model
from bookkit.results.stored_run import stored_run

RUN = stored_run("bracket_rates")


@pytest.fixture
def made(script):
    return script("results/bracket_rates.py")


def test_the_fast_layer_is_the_books_and_trains_its_weights(made):
    torch.manual_seed(0)
    model = language_model(LSTMCell, len(CHARACTERS), made.WIDTH)
    fast, x = made.Fast(model), torch.randint(len(CHARACTERS), (3, 12))
    before = model(x)[0]
    assert_close(fast(x)[0], before, rtol=1e-4, atol=1e-5)
    optimizer = torch.optim.Adam(fast.parameters(), 0.01)
    fast(x)[0].square().sum().backward()
    optimizer.step()
    after = model(x)[0]
    assert_close(fast(x)[0], after, rtol=1e-4, atol=1e-5)
    assert (after - before).abs().max() > 0.01


def test_the_chapter_says_what_two_seeds_of_each_reach(root):
    page = (root / "book/01-recurrent-networks.ipynb").read_text("utf-8")
    alone, lessons = (
        "{} and {}".format(*(f"{wrote['far']:.2f}" for wrote in RUN[name]))
        for name in ("LSTM", "LSTM, short lessons first")
    )
    assert RUN["rate"] == 0.003
    assert f"alone close {alone} of the brackets that opened earlier, with short" in page
    assert f"with short lessons first {lessons} (" in page


def test_the_chapter_says_how_often_a_character_closes_a_bracket(root):
    page = (root / "book/01-recurrent-networks.ipynb").read_text("utf-8")
    often = {}
    for far in (40, 5):
        sample = brackets(text.load("python-docs").train, far=far, B=2000)
        following = sample(torch.Generator().manual_seed(0))[1]
        closing = sum(map("".join(map(CHARACTERS.decode, following)).count, CLOSED))
        often[far] = round(following.numel() / closing)
    assert f"one character in {often[40]} closes a bracket" in page
    assert often[5] == 9 and "In the short lessons it is one in nine." in page
