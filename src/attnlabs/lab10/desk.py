"""What a student of lab 10 works with: the book's language model, and texts of one's own."""

from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any

from torch import nn

from attnbook.shipped.language import load
from attnbook.transformer import LanguageModel
from attnlabs.lab10.texts import Texts, texts

TYPE_IN = (
    "type the numbers in, as they were printed: grading reads them, and has no model to run this."
)


class Specimen:
    """The model and the texts of the student whose `check` this is; the same for each without."""

    def __init__(self, check: object) -> None:
        words = getattr(check, "keywords", {})
        self.texts: Texts = texts(str(words.get("student", "")))

    @cached_property
    def model(self) -> LanguageModel:
        """The book's language model: four layers of four heads."""
        return load("book-lm").model


def needs_model(function: Callable[..., Any], seen: tuple[object, ...] = ()) -> bool:
    """Does it use a model or anything of ours, itself or by a function of the same notebook?"""
    if not isinstance(function, FunctionType) or function in seen:
        return False
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        of_ours = str(getattr(value, "__module__", "")).startswith(
            ("attnbook.", "attnlabs.", "bookkit.")
        )
        if isinstance(value, nn.Module | Specimen | Texts) or of_ours:
            return True
        if isinstance(value, FunctionType) and needs_model(value, (*seen, function)):
            return True
    return False
