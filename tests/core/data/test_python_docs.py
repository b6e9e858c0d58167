"""The embedded text: made from the running Python as well, it has the properties that we claim."""

import gzip
import platform

import pytest

from attnbook.data import python_docs, text

topics = pytest.importorskip("pydoc_data.topics").topics


@pytest.fixture(scope="module")
def made():
    return python_docs.make_python_docs(topics)


@pytest.fixture(scope="module")
def stored():
    return text.python_docs()


def lines(part):
    return {line.strip() for line in part.splitlines() if line.strip()}


@pytest.mark.parametrize("corpus", ["made", "stored"])
def test_no_validation_line_occurs_in_training(corpus, request):
    train, validation = request.getfixturevalue(corpus)
    assert len(lines(validation)) > 100
    assert not lines(train) & lines(validation)


@pytest.mark.parametrize("corpus", ["made", "stored"])
def test_no_paragraph_stands_twice(corpus, request):
    paragraphs = "\n\n".join(request.getfixturevalue(corpus)).split("\n\n")
    words = [" ".join(paragraph.split()) for paragraph in paragraphs]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("corpus", ["made", "stored"])
def test_the_alphabet_is_small_and_typed(corpus, request):
    symbols = set("".join(request.getfixturevalue(corpus)))
    assert 80 < len(symbols) < 100
    assert all(symbol == "\n" or " " <= symbol <= "~" for symbol in symbols)


@pytest.mark.parametrize("corpus", ["made", "stored"])
def test_about_a_tenth_validates(corpus, request):
    train, validation = request.getfixturevalue(corpus)
    assert len(train) + len(validation) > 300_000
    assert 0.07 < len(validation) / (len(train) + len(validation)) < 0.11


def test_the_stored_file_is_what_its_python_makes(stored, tmp_path):
    if platform.python_version() != "3.11.7":
        pytest.skip("the stored file was made by Python 3.11.7, other releases have other text")
    python_docs.main(str(tmp_path / "again.gz"))
    assert gzip.decompress((tmp_path / "again.gz").read_bytes()).decode() == "\f".join(stored)


def test_the_stored_file_carries_no_time():
    assert text.EMBEDDED.read_bytes()[4:8] == bytes(4)  # so that making it again changes nothing


def test_typographic_marks_become_typed_ones():
    assert python_docs.plain("“naïve”…\u00a0—ß") == '"naive"... --'


def test_a_line_that_training_has_takes_its_paragraph_out_of_validation():
    topics = {"long": "a b\nc\n\nd d d d d", "x": "e\n  c\n\nf"}
    assert python_docs.make_python_docs(topics, size=14, every=2) == (
        "a b\nc\n\nd d d d d\n",
        "f\n",
    )
