"""Every model that the book ships, by its name.

    from attnbook.shipped import load, names
    print(names())
    print(load("book-lm").write("ROMEO:", 60))
    print(load("translator").translate(["Ein Hund rennt durch den Schnee."]))

Each is a folder of weights with a card, which says what it was trained on, how, and how good it is.
"""

from typing import TypeAlias

from attnbook import book_translator, book_vit, models
from attnbook.book_translator import BookTranslator
from attnbook.book_vit import BookVit
from attnbook.models import FOLDER, BookModel

Shipped: TypeAlias = BookModel | BookTranslator | BookVit


def names() -> list[str]:
    """The models that the package carries."""
    return sorted(card.parent.name for card in FOLDER.glob("*/card.json"))


def load(name: str) -> Shipped:
    """The model of that name with its shipped weights and its card, in evaluation mode.

    A language model writes (`attnbook.models`), `book-vit` recognises pictures
    (`attnbook.book_vit`), a translator translates (`attnbook.book_translator`). Raises ValueError
    for a name that is not one of `names()`.
    """
    if name not in names():
        there = ", ".join(map(repr, names()))
        raise ValueError(f"the book ships no model {name!r}; there are {there}")
    if name == "book-vit":
        return book_vit.load()
    if name in book_translator.names():
        return book_translator.load(name)
    return models.load(name)
