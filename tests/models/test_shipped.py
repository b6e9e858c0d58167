"""One name for each model that the book ships."""

import pytest

from attnbook.shipped.language import FOLDER
from attnbook.shipped.registry import load, names


def test_it_knows_every_folder_of_weights():
    assert names() == sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


@pytest.mark.parametrize("name", names())
def test_a_model_comes_with_its_card(name):
    book = load(name)
    assert book.card["name"] == name
    assert not book.model.training


def test_an_unknown_name_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="ships no model 'book-vitt'; there are 'book-lm', "):
        load("book-vitt")
