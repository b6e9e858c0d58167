"""The transformer is built up in five presses; without script, and in print, it is whole."""

from pathlib import Path

import pytest

from bookkit.drawings import gallery
from bookkit.drawings.drawing import page
from bookkit.drawings.transformer import STAGES

FAULTS = Path(__file__).with_name("drawings.js").read_text("utf-8")
SEEN = """(svg, parts) => parts.map((part) => Math.max(
    ...[...svg.querySelectorAll('[data-part]')].filter((node) => !node.matches('.note')
        && node.dataset.part.split(' ').includes(part)).map((g) => getComputedStyle(g).opacity)))"""


@pytest.fixture(params=[(1200, "wide"), (390, "tall")], ids=["page", "phone"])
def built(request, chromium):
    width, look = request.param
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    sheet = context.new_page()
    sheet.set_content(page({"it": gallery.GALLERY["transformer_2017"]()}))
    yield sheet, sheet.locator(f"svg.{look}")
    context.close()


def test_each_press_lights_what_it_adds_and_a_second_one_shows_the_whole(built):
    sheet, svg = built
    bands = [name.split()[0] for name in STAGES]
    presses = sheet.locator(".stages button")
    assert presses.count() == len(STAGES) == 5
    assert svg.evaluate(SEEN, bands) == [1] * 5
    for n in range(5):
        presses.nth(n).click()
        before, now, later = 0.5, 1, 0.08
        assert svg.evaluate(SEEN, bands) == [before] * n + [now] + [later] * (4 - n)
        (name, first, *_) = list(STAGES.values())[n]
        assert svg.get_by_text(first, exact=True).is_visible(), name
        assert sheet.evaluate(FAULTS) == [], name
    svg.locator("[data-part=norm][data-on]").first.dispatch_event("pointerover", {"bubbles": True})
    assert svg.get_by_text("add and norm", exact=True).is_visible()
    presses.nth(4).click()
    svg.locator("desc").dispatch_event("pointerout", {"bubbles": True})
    assert presses.nth(4).get_attribute("aria-pressed") == "false"


def test_without_script_there_is_the_whole_and_no_button(chromium):
    context = chromium.new_context(java_script_enabled=False)
    sheet = context.new_page()
    sheet.set_content(page({"it": gallery.GALLERY["transformer_2017"]()}))
    assert not sheet.locator(".stages").is_visible()
    svg = sheet.locator("svg.wide")
    assert svg.get_by_text("the table again: scores").is_visible()
    context.close()
