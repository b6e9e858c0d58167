"""The table of letters: what stands in formulas is found, and every letter is explained."""

import importlib
import re
import sys

import pytest


@pytest.fixture(scope="module")
def letters(root):
    sys.path.insert(0, str(root / "book/_ext"))
    return importlib.import_module("letters")


def test_letters_are_those_of_formulas_not_of_words(letters):
    text = r"A word. $Q K^\top$ and $\operatorname{KL}$, $BTC$, $\text{Loss}$ `X` $$ W_Q + 2 E $$"
    assert letters.letters_of(text) == set("QKBTCWE")


def test_each_chapter_has_letters(letters):
    assert list(letters.chapters()) == list(range(1, 19))


def test_every_capital_letter_of_the_formulas_is_explained(letters, root):
    page = (root / "book/notation.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    known = set(re.findall(r"[A-Z]", " ".join(rows)))
    used = set().union(*letters.chapters().values())
    assert used <= known, f"not explained: {sorted(used - known)}"


def test_what_the_last_chapters_use_twice_is_said(letters, root):
    """A second meaning in chapters 16 to 18 names its chapter in the letter's row."""
    page = (root / "book/notation.md").read_text("utf-8")
    for letter, number in {"A": 16, "B": 16, "M": 18, "P": 18, "F": 18, "R": 18, "H": 17}.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| ${letter}$ |"))
        assert letter in letters.chapters()[number] and str(number) in row
