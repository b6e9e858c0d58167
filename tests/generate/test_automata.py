"""Regular expressions one character at a time are Python's, and know at once what cannot go on."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.generate.automata import Regex

PATTERNS = [
    *(
        "abc",
        "a*",
        "(ab)+",
        "a|b|",
        "(?:a|bc)*d?",
        "[a-c]+",
        "[^a]*b",
        ".*c",
        "",
        "a{0}b",
        "a{2,}b",
    ),
    *("(a*)*b", "(a|ab)(c|bcd)", "[]a]+", "(a?){3}", r"\d{2}", r"\d{1,3}-?", r"[ab\-]{0,2}"),
    *(r"\w+\s\w+", r"\(a\)", r"\D\S?", r"[\d.]+", r"-?(0|[1-9]\d*)(\.\d+)?"),
]


def read(automaton, text):
    """The state after the text, or None."""
    state = automaton.start
    for character in text:
        state = None if state is None else automaton.step(state, character)
    return state


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=60)
@given(text=st.text("abcd-.01 \n()]", max_size=6))
def test_it_accepts_what_python_matches(pattern, text):
    automaton = Regex(pattern)
    state = read(automaton, text)
    accepted = state is not None and automaton.accepts(state)
    assert accepted == bool(re.fullmatch(pattern, text, re.ASCII))


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=20)
@given(text=st.text("abcd-.01 ", max_size=4))
def test_where_it_goes_on_some_text_fits(pattern, text):
    """From any state that is left, a short walk over possible characters ends well."""
    automaton = Regex(pattern)
    states = {read(automaton, text)} - {None}
    for _ in range(6):
        if not states or any(map(automaton.accepts, states)):
            return
        after = {automaton.step(state, c) for state in states for c in "abcd-.01 ()]"}
        states = after - {None}
    raise AssertionError(f"{pattern!r} goes on after {text!r} and never ends")


def test_the_same_rest_is_the_same_state():
    automaton = Regex("(a|b)*abb")
    states = {read(automaton, text) for text in ("abab", "aab", "bbab", "ab")}
    assert len(states) == 1


WRONG = {
    "(a": "not closed",
    "a)": "not opened",
    "[a": "class is not closed",
    "*a": "not understood",
    "a{x}": "one number",
    "a{3,2}": "from 3 to 2",
    r"\b": "not understood",
    "(?=a)": "other than",
    "^a$": "not understood here",
    r"[\D]": "inside a class",
    "a\\": "not understood",
}


@pytest.mark.parametrize(("pattern", "message"), WRONG.items())
def test_what_is_not_understood_is_named(pattern, message):
    with pytest.raises(ValueError, match=message):
        Regex(pattern)
