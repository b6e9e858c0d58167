"""What a reader meets: on a phone, at night, without network, by keyboard or screen reader."""

import os
import re
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from toc import pages

ROOT = Path(__file__).parents[1]
SITE = Path(os.environ.get("ATTNBOOK_SITE", ROOT / "_build/html")).resolve()
FILES = pages(ROOT)
CHAPTERS = [file for file in FILES if re.match(r"book/\d\d-", file)]
PAGES = [f"{file}.html" for file in FILES] + ["search.html?q=attention", "genindex.html"]
SET = "async () => { if (window.MathJax?.startup) await MathJax.startup.promise }"

if sys.version_info < (3, 11):
    pytest.skip("on Python 3.10 the lock holds an older theme", allow_module_level=True)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def places(need):
    """The site's address on a server of this machine, and as a folder on a disk."""
    need((SITE / "index.html").exists(), f"there is no site in {SITE}: make book")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {"http": f"http://127.0.0.1:{server.server_port}", "file": SITE.as_uri()}
    server.shutdown()


@contextmanager
def visit(chromium, address, width=1280, **settings):
    """Open an address; `page.trouble` and `page.requests` collect what happened on the way."""
    viewport = {"width": width, "height": 844}
    context = chromium.new_context(viewport=viewport, reduced_motion="reduce", **settings)
    page = context.new_page()
    page.requests, page.trouble = [], []
    note = page.trouble.append
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("response", lambda answer: answer.status < 400 or note(f"{answer.status} {answer.url}"))
    page.on("requestfailed", lambda request: note(f"failed: {request.url}"))
    page.on("pageerror", lambda error: note(str(error)))
    page.on("console", lambda line: line.type in ("error", "warning") and note(line.text))
    page.goto(address)
    page.evaluate(SET)
    yield page
    context.close()


def open_solutions(page):
    for button in page.locator("button.toggle-button").all():
        button.click()


def faults(page):
    """What axe-core finds."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [(fault["id"], [node["html"][:200] for node in fault["nodes"][:3]]) for fault in found]


@pytest.mark.parametrize("place", ["http", "file"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_only_its_own_site_and_nothing_goes_wrong(chromium, places, name, place):
    with visit(chromium, f"{places[place]}/{name}") as page:
        others = [url for url in page.requests if not url.startswith((places[place], "data:"))]
        assert not others
        if place == "file":  # the summaries below search results are fetched, which no disk allows
            page.trouble = [line for line in page.trouble if not name.startswith("search")]
        assert not page.trouble
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == []
        formulas = page.locator(".math").count()
        assert formulas > 0 or name[:7] != "book/0"
        assert formulas == page.locator(".math:has(mjx-container)").count()
        assert page.locator("mjx-merror, [data-mjx-error]").count() == 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_for_everybody_by_day_by_night_and_on_a_phone(chromium, places, name):
    with visit(chromium, f"{places['http']}/{name}", color_scheme="light") as page:
        if name.startswith("search"):
            page.locator("#search-results li a").first.wait_for()
        open_solutions(page)
        assert page.locator("html").get_attribute("data-theme") == "light"
        assert faults(page) == []
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("document.documentElement.dataset.theme == 'dark'")
        assert faults(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_timeout(400)  # the theme lets the keyboard into what scrolls now
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert faults(page) == []


@pytest.mark.parametrize("place", ["http", "file"])
@pytest.mark.parametrize("words", ["attention", "vanishing gradient", "注意力"])
def test_search_finds(chromium, places, place, words):
    with visit(chromium, f"{places[place]}/search.html?q={words}") as page:
        first = page.locator("#search-results li a").first
        first.wait_for(timeout=5000)
        assert "book/" in first.get_attribute("href")


def test_the_switch_changes_the_theme_and_the_choice_stays(chromium, places):
    with visit(chromium, f"{places['http']}/{FILES[1]}.html", color_scheme="light") as page:
        theme = lambda: page.locator("html").get_attribute("data-theme")  # noqa: E731
        button = page.locator("button.theme-switch-button:visible").first
        while theme() != "dark":
            button.click()
        background = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(background)
        page.reload()
        assert theme() == "dark" and page.evaluate(background) == dark
        red, green, blue = map(int, re.findall(r"\d+", dark)[:3])
        assert max(red, green, blue) < 64


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_rocket_leads_to_colab(chromium, places, chapter):
    with visit(chromium, f"{places['http']}/{chapter}.html") as page:
        page.locator(".dropdown-launch-buttons > button").click()
        link = page.locator(".dropdown-launch-buttons a")
        assert link.is_visible()
        address = link.get_attribute("href")
        assert re.match(r"https://colab\.research\.google\.com/github/\w", address)
        assert address.endswith(f"/blob/main/{chapter}.ipynb")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_solution_stays_folded_until_asked_for(chromium, places, chapter):
    with visit(chromium, f"{places['http']}/{chapter}.html") as page:
        solution = page.locator(".solution").first
        inside = solution.locator("section, .cell").last
        assert not inside.is_visible()
        solution.locator("button.toggle-button").click()
        assert inside.is_visible()


def test_the_keyboard_gets_everywhere_and_is_seen(chromium, places):
    ring = """() => { const style = getComputedStyle(document.activeElement)
                      return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) > 0 }"""
    with visit(chromium, f"{places['http']}/{TOC['root']}.html") as page:
        page.keyboard.press("Tab")
        assert page.locator("#pst-skip-link a").is_visible()
        reached = set()
        while page.evaluate("document.activeElement != document.body"):
            assert page.evaluate(ring), page.evaluate("document.activeElement.outerHTML")
            reached.add(page.evaluate("document.activeElement.getAttribute('href')"))
            page.keyboard.press("Tab")
        assert {f"{Path(chapter).name}.html" for chapter in CHAPTERS} <= reached


def test_every_icon_of_the_theme_is_drawn(chromium, places):
    with visit(chromium, f"{places['http']}/{CHAPTERS[0]}.html") as page:
        page.locator("svg.fa-rocket").first.wait_for(state="attached")
        missing = page.locator("i[class*='fa-'], svg[data-icon] path:not([d]), svg.fa-question")
        assert [node.evaluate("n => n.outerHTML") for node in missing.all()] == []
