"""The book's language model in the page computes what Python computes, and loads when asked to."""

import re
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnbook.generate.sampling import generate
from attnbook.shipped import language

TEXTS = [
    "KING HENRY:\nWhat say you to the king",
    "The function's result  is\n\n   a list, don't you think? 3.14",
    "naïve — and so on",
]
ASCII = st.text(st.sampled_from(" \n" + "".join(map(chr, range(32, 127)))))
ESCAPED = st.sampled_from([4, *(ord(digit) - 28 for digit in "0123456789abcdef")])
WRITTEN = st.lists(
    ASCII | st.text() | st.sampled_from(["'s", "\t", "  ", r"\xc3", "␛c3", "\ufeff"])
)
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>writer</title>
<main><h1>A model</h1>
<attn-writer data-prompt="KING HENRY:\n" data-model="{model}"><button hidden>Load the model, 3.3 MB
</button><p>In Python too.</p></attn-writer></main>
<script src="model.js" defer></script><script src="writer.js" defer></script>"""


@pytest.fixture(scope="module")
def folder(root, tmp_path_factory):
    """A page on a disk, with its script and the model's file."""
    sys.path.insert(0, str(root / "book/_ext"))
    try:
        import writer
    finally:
        sys.path.pop(0)
    folder = tmp_path_factory.mktemp("writer")
    (folder / "book-lm.js").write_text(writer.model_script(), "utf-8")
    for name in ("model.js", "writer.js"):
        source = (root / "book/_ext/scripts" / name).read_text("utf-8")
        (folder / name).write_text(source, "utf-8")
    for name in ("book-lm", "absent"):
        (folder / f"{name}.html").write_text(PAGE.format(model=f"{name}.js"), "utf-8")
    return folder


@pytest.fixture
def page(chromium, folder):
    page = chromium.new_page(viewport={"width": 390, "height": 844})
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url.rsplit("/", 1)[1]))
    page.goto((folder / "book-lm.html").as_uri())
    yield page
    page.close()


@pytest.fixture(scope="module")
def book():
    return language.load("book-lm")


def loaded(page):
    if not ask(page, "return !!e.model"):
        page.get_by_role("button", name="Load the model").press("Enter")
        page.get_by_role("button", name="Write").wait_for()
    return page


def ask(page, code, given=None):
    return page.evaluate(
        f"(given) => {{ const e = document.querySelector('attn-writer'); {code} }}", given
    )


def test_nothing_is_loaded_before_the_reader_presses(page):
    button = page.get_by_role("button", name="Load the model, 3.3 MB")
    assert button.is_visible() and page.get_by_role("status").inner_text() == "In Python too."
    assert page.asked == ["book-lm.html", "model.js", "writer.js"]
    loaded(page)
    assert page.asked[3:] == ["book-lm.js"]


def test_tokens_and_logits_are_those_of_python(page, book):
    loaded(page)
    for text in TEXTS:
        tokens = book.encode(text)
        assert ask(page, "return e.model.encode(given)", text) == tokens[0].tolist()
        with torch.no_grad():
            logits = book.model(tokens)[0]
        found = ask(
            page,
            """const caches = e.model.caches()
            return given.map((token) => [...e.model.step(token, caches)])""",
            tokens[0].tolist(),
        )
        assert (torch.tensor(found) - logits).abs().max() < 1e-3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WRITTEN.map("".join), st.lists(st.integers(0, 1023) | ESCAPED))
def test_any_text_has_the_tokens_of_python_and_any_tokens_its_text(page, book, text, tokens):
    loaded(page)
    assert ask(page, "return e.model.encode(given)", text) == book.tokenizer.encode(text).ids
    for ids in (tokens, book.tokenizer.encode(text).ids):
        found = ask(page, "return e.model.decode(given)", ids)
        assert found == book.tokenizer.decode(ids, skip_special_tokens=False)


def test_at_temperature_zero_it_writes_what_python_writes(page, book):
    loaded(page)
    page.get_by_label("temperature").focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Write").press("Enter")
    page.get_by_text("48 tokens written").wait_for()
    start = book.encode("KING HENRY:\n")
    written = generate(book.model, start, 48)[0, start.shape[1] :]
    assert ask(page, "return e.written.map(({ token }) => token)") == written.tolist()


def test_what_stands_there_before_is_how_the_model_goes_on(root, page, book):
    """A reader who loads nothing sees a line of it; it is not made up."""
    import writer

    for prompt, first in writer.FIRST.items():
        start = book.encode(f"{prompt}\n")
        written = generate(book.model, start, 48)[0, start.shape[1] :]
        assert book.decode(written).startswith(first)


def test_lines_below_the_tokens_are_weights_of_the_chosen_head(page):
    """Of each head they sum to one; the bars of the next token are shares of one, too."""
    loaded(page).get_by_role("button", name="Write").press("Enter")
    page.get_by_text("48 tokens written").wait_for()
    sums = """return [...e.head.options].map((_, n) => {
        e.head.selectedIndex = n; e.underline()
        return [...e.text.children].map((node) => Number(node.style.getPropertyValue('--look')))
            .reduce((a, b) => a + b, 0) })"""
    found = ask(page, sums)
    assert len(found) == 17 and all(abs(total - 1) < 0.05 for total in found)
    bar = ask(page, "return e.next.querySelector('.bar').style.width")
    share = ask(page, "return e.next.children[2].textContent")
    assert abs(float(bar.strip("%")) / 100 - float(share)) < 0.006


def test_keys_show_what_else_was_thought_of(page):
    loaded(page).get_by_role("button", name="Write").press("Enter")
    page.get_by_text("48 tokens written").wait_for()
    ask(page, "e.shadowRoot.querySelector('.text button').focus()")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert re.search(r"had probability 0\.\d\d here", page.get_by_role("status").inner_text())
    assert ask(page, "return e.shadowRoot.querySelectorAll('.bar').length") == 6
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_draws_keep_to_the_model_and_the_cut(page):
    """Twenty thousand draws from four tokens: their shares after temperature and top-p."""
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    loaded(page)
    draws = ask(page, "return e.draws(...given)", [logits.tolist(), 1, 0.8, 20_000])
    found = torch.tensor(draws).bincount(minlength=4) / len(draws)
    expected = torch.tensor([0.5, 0.25, 0.15, 0]) / 0.9
    assert (found - expected).abs().max() < 0.015


def test_an_empty_beginning_is_refused_and_foreign_signs_are_spelled(page):
    loaded(page).get_by_label("How it begins").fill("")
    assert page.get_by_text("Write at least one letter.").is_visible()
    assert page.get_by_role("button", name="Write").is_disabled()
    page.get_by_label("How it begins").fill("naïve")
    assert page.get_by_text(r"Signs without a token are read byte by byte: \x").is_visible()
    assert page.get_by_role("group", name="the text").inner_text() == r"na\xc3\xafve"


def test_a_file_that_cannot_be_loaded_is_said_and_may_be_tried_again(page, folder):
    page.goto((folder / "absent.html").as_uri())
    page.get_by_role("button", name="Load the model").press("Enter")
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    assert "could not be loaded" in page.get_by_role("status").inner_text()
    assert again.is_enabled()
