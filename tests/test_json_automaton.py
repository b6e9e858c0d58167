"""JSON one character at a time is Python's json, without its extras."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.json_automaton import Json

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def read(text, automaton=Json()):  # noqa: B008
    """Does it accept the text, and how much of it could it read?"""
    state = automaton.start
    for n, character in enumerate(text):
        state = automaton.step(state, character)
        if state is None:
            return False, n
    return automaton.accepts(state), len(text)


def pythons(text):
    def refused(name):
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refused)
    except ValueError:
        return False
    return True


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_what_python_writes_is_accepted(value, indent, ascii):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert read(text) == (True, len(text))


@settings(max_examples=300)
@given(VALUES, st.data())
def test_mangled_it_is_accepted_only_if_python_reads_it(value, data):
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    new = data.draw(st.sampled_from(["", *'{}[]",:0123456789.-+eEtrufalsn\\ \n\x01x']))
    text = text[:at] + new + text[at + data.draw(st.integers(0, 1)) :]
    assert read(text)[0] == pythons(text)


@pytest.mark.parametrize(
    "text", ['{"a": [1, 2.5e-3, "x\\u00e9"], "b": null}', "[[], {}]", "-0", " 1 "]
)
def test_every_beginning_can_be_read(text):
    assert all(read(text[:n])[1] == n for n in range(len(text)))


@pytest.mark.parametrize(
    ("text", "readable"),
    [("[1,]", 3), ("{1", 1), ('{"a",', 4), ("01", 1), ("tru ", 3), ("1.e", 2), ("]", 0)],
)
def test_the_first_wrong_character_is_refused(text, readable):
    assert read(text) == (False, readable)


def test_without_spaces_none_is_accepted():
    compact = Json("")
    assert read('{"a b":[1,2]}', compact)[0] and not read('{"a": 1}', compact)[0]
    with pytest.raises(ValueError, match="spaces"):
        Json("x")
