"""The arithmetic of each explorable, in a real browser against Python's."""

import itertools
import json

import pytest
import torch
from torch.testing import assert_close

from attnbook.attention import AdditiveScores
from attnbook.explore.decay import Decay
from attnbook.explore.lookup import Lookup

WORDS = ["my", "red", "car"]
STATES = torch.tensor([[0.5, 1.5], [-1.0, 0.5], [1.0, -1.0]])


def lookup():
    additive = AdditiveScores(2, 2, 3)
    for i, part in enumerate(additive.parameters()):
        part.data = torch.linspace(-1.5, 2, part.numel()).view_as(part) * (-1) ** i
    return Lookup(WORDS, STATES, torch.tensor([1.0, 0.5]), additive)


@pytest.fixture(scope="module")
def page(chromium):
    page = chromium.new_page()
    bodies = "".join(f"<section>{thing._repr_html_()}</section>" for thing in (lookup(), Decay()))
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(f"<!doctype html><title>explorables</title><main>{bodies}</main>")
    yield page
    assert not errors
    page.close()


@pytest.mark.parametrize("score", ["additive", "dot"])
@pytest.mark.parametrize("query", [(0.0, 0.0), (1.0, -2.0), (-2.0, 2.0)])
def test_the_browser_weighs_as_attend_does(page, score, query):
    found = page.evaluate(
        """([score, query]) => { const e = document.querySelector("attn-lookup");
        e.score.value = score; e.place(query); return [e.weights, e.context]; }""",
        [score, list(query)],
    )
    expected = lookup().weights(torch.tensor(query), score)
    assert_close(torch.tensor(found[0]), expected, atol=2e-5, rtol=1e-4)
    assert_close(torch.tensor(found[1]), expected @ STATES, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("radius", "skew"), list(itertools.product((0.5, 1.0, 1.5), (0.0, 1.25, 3.0)))
)
def test_the_browser_multiplies_matrices_as_torch_does(page, radius, skew):
    found = page.evaluate(
        """([r, s]) => { const e = document.querySelector("attn-decay");
        e.radius.value = r; e.skew.value = s; e.draw(); return e.norms; }""",
        [radius, skew],
    )
    assert_close(
        torch.tensor(found, dtype=torch.float64), Decay.norms(radius, skew), rtol=1e-9, atol=0
    )


def test_arrow_keys_move_the_query_and_the_sentence_follows(page):
    handle = page.locator("attn-lookup circle[role=slider]")
    page.evaluate("document.querySelector('attn-lookup').place([0, 0])")
    before = page.locator("attn-lookup p").inner_text()
    handle.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.querySelector('attn-lookup').query") == pytest.approx([0.1, 0])
    assert page.locator("attn-lookup p").inner_text() != before


def test_the_query_and_the_mean_are_called_as_the_chapter_calls_them(chromium, page):
    assert page.locator("attn-lookup p").inner_text().startswith("Decoder state (")
    other = chromium.new_page()
    named = Lookup(WORDS, STATES, torch.zeros(2), names=("query", "<output>"))
    other.set_content(f"<!doctype html><title>names</title>{named._repr_html_()}")
    assert other.locator("attn-lookup circle[role=slider]").get_attribute("aria-label") == (
        "query, moved with the arrow keys"
    )
    line = other.locator("attn-lookup p").inner_text()
    assert line.startswith("Query (0.0, 0.0)") and "; <output> (" in line
    other.close()


def test_dragging_follows_the_pointer(page):
    page.evaluate("document.querySelector('attn-lookup').place([0, 0])")
    box = page.locator("attn-lookup circle[role=slider]").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 40, y - 20)
    page.mouse.up()
    query = page.evaluate("document.querySelector('attn-lookup').query")
    assert (
        query[0] > 0.3 and query[1] > 0.15 and query[0] == pytest.approx(-2 * -query[1], abs=0.05)
    )


def test_moving_a_slider_redraws_the_curve(page):
    curve = page.locator("attn-decay path[stroke='#D55E00']")
    before = curve.get_attribute("d")
    page.locator("attn-decay input").first.focus()
    page.keyboard.press("ArrowLeft")
    assert curve.get_attribute("d") != before


def test_without_scripts_the_same_numbers_stand_in_a_still_picture():
    still = lookup().still()
    for weight in lookup().weights(torch.tensor([1.0, 0.5]), "additive"):
        assert f">{weight:.2f}</text>" in still
    assert "polyline" in Decay().still()


def test_the_stored_text_does_not_change_from_run_to_run_or_break_out_of_its_attribute():
    first, second = lookup()._repr_html_(), lookup()._repr_html_()
    assert first == second
    hostile = Lookup(['"><script>', "b"], STATES[:2], torch.zeros(2))._repr_html_()
    assert hostile.count("<script>") == 1
    assert json.loads(json.dumps(hostile)) == hostile


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"3 words need states \(3, 2\), not \(2, 2\)"):
        Lookup(WORDS, STATES[:2], torch.zeros(2))
    with pytest.raises(ValueError, match=r"radius is 0\.5 to 1\.5"):
        Decay(radius=2.0)
