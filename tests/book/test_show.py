"""What is shown is the source, whole, and the same every time."""

import math

import pytest
from torch import nn

from attnbook import attention
from attnbook.train import loop
from bookkit.page import show


def shown(monkeypatch, *things):
    outputs = []
    monkeypatch.setattr(show, "display", lambda bundle, raw: outputs.append(bundle))
    show.show(*things)
    (bundle,) = outputs
    return bundle["text/markdown"], bundle["text/plain"]


def decorated(function):
    return function


class Outer:
    """Has a fence in it: ```python."""

    @decorated
    def method(self):
        return 1


def test_a_function_is_shown_with_its_name_and_docstring(monkeypatch):
    markdown, plain = shown(monkeypatch, attention.attend)
    assert markdown.startswith("**`attnbook.attention.attend`**\n\n```python\ndef attend(")
    assert attention.attend.__doc__ in markdown
    assert markdown.endswith("\n```") and plain == markdown


def test_what_is_shown_is_the_file(monkeypatch):
    """Also where the tests wrap each function to check its shapes."""
    with open(loop.__file__) as file:
        source = file.read()
    markdown, _ = shown(monkeypatch, loop.cosine)
    assert markdown.split("```python\n")[1].removesuffix("\n```") in source


def test_several_are_shown_one_after_the_other(monkeypatch):
    markdown, _ = shown(monkeypatch, loop.cosine, loop.constant)
    assert markdown.index("loop.cosine") < markdown.index("loop.constant")
    assert markdown.count("```python") == 2


def test_a_method_is_shown_from_the_left_margin_with_its_decorator(monkeypatch):
    markdown, _ = shown(monkeypatch, Outer.method)
    assert "Outer.method`**" in markdown
    assert "\n@decorated\ndef method(self):\n    return 1\n" in markdown


def test_a_class_is_shown_inside_a_fence_longer_than_its_own(monkeypatch):
    markdown, _ = shown(monkeypatch, Outer)
    assert "\n````python\nclass Outer:" in markdown and markdown.endswith("\n````")


@pytest.mark.parametrize("thing", [math.exp, len, int])
def test_what_is_not_python_is_refused(monkeypatch, thing):
    with pytest.raises(ValueError, match=f"{thing.__name__} is not written in Python"):
        shown(monkeypatch, loop.cosine, thing)


@pytest.mark.parametrize(("thing", "kind"), [(3, "int"), (nn.Linear(2, 3), "Linear")])
def test_an_object_is_refused(monkeypatch, thing, kind):
    with pytest.raises(ValueError, match=f"not an object of type {kind}"):
        shown(monkeypatch, thing)


def test_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing to show"):
        show.show()


def test_texts_beside_each_other_are_shown_as_they_are():
    beside = show.beside({"300 steps": "a < b\n  c", "<end>": "d"})
    assert "a &lt; b\n  c</pre>" in beside._repr_html_()
    assert "<figcaption>&lt;end&gt;</figcaption>" in beside._repr_html_()
    assert repr(beside) == "--- 300 steps\na < b\n  c\n\n--- <end>\nd"


def test_no_text_to_show_is_refused():
    with pytest.raises(ValueError, match="nothing to show"):
        show.beside({})
