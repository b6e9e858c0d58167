"""Every model that the book ships, by its name.

    from attnbook.shipped.registry import load, names
    print(names())
    print(load("book-lm").write("ROMEO:", 60))
    print(load("translator").translate(["Ein Hund rennt durch den Schnee."]))

Each is a folder of weights with a card, which says what it was trained on, how, and how good it is.
"""

from typing import TypeAlias

from attnbook.shipped import language, translator, vision
from attnbook.shipped.language import FOLDER, BookModel
from attnbook.shipped.translator import BookTranslator
from attnbook.shipped.vision import BookVit

Shipped: TypeAlias = BookModel | BookTranslator | BookVit


def names() -> list[str]:
    """The models that the package carries."""
    return sorted(card.parent.name for card in FOLDER.glob("*/card.json"))


def load(name: str) -> Shipped:
    """The model of that name with its shipped weights and its card, in evaluation mode.

    A language model writes (`attnbook.shipped.language`), `book-vit` recognises pictures
    (`attnbook.shipped.vision`), a translator translates (`attnbook.shipped.translator`). Raises
    ValueError for a name that is not one of `names()`."""
    if name not in names():
        there = ", ".join(map(repr, names()))
        raise ValueError(f"the book ships no model {name!r}; there are {there}")
    if name == "book-vit":
        return vision.load()
    if name in translator.names():
        return translator.load(name)
    return language.load(name)
