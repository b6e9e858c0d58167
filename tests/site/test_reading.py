"""A chapter as a reader meets it: first screen, folds, lines, heights, weight, paper."""

import gzip
import re
import sys
import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from toc import pages

ROOT = Path(__file__).parents[2]
CHAPTERS = [file for file in pages(ROOT) if re.match(r"book/\d\d-", file)]
MAIN = [file for file in CHAPTERS if "deeper" not in file]
SOME = [  # the others beside, where more time is
    pytest.param(name, marks=[] if name[5:7] in ("03", "06", "13", "18") else pytest.mark.slow)
    for name in MAIN
]
# A picture is an image, a drawing, or an explorable that is drawn without one.
PICTURE = ".opening .picture :is(img, svg, attn-next-token, attn-inside, attn-clinic):visible"
PAGE, LANDING = 1_000_000, 250_000  # bytes, compressed as a server would
BLOCKING = 45_000  # bytes of these for which the first paint waits
PACKED = (".png", ".webp", ".woff")
STILL = 0.005  # of the screen, times how far: what may move while a page loads
SET = "async () => { if (window.MathJax?.startup) await MathJax.startup.promise }"
SHIFTS = """() => { window.shifts = []; new PerformanceObserver((list) => {
    for (const e of list.getEntries()) window.shifts.push([e.value, ...e.sources.map(
        (s) => (s.node?.outerHTML || s.node?.data || '?').slice(0, 90))])
}).observe({ type: 'layout-shift', buffered: true }) }"""

if sys.version_info < (3, 11):
    pytest.skip("on Python 3.10 the lock holds an older theme", allow_module_level=True)


@pytest.fixture(scope="module", params=MAIN, ids=lambda name: name[5:])
def chapter(request, visit):
    """A chapter, opened once for all that is asked of it in the light, 1,366 pixels wide."""
    with visit(f"{request.param}.html", init=f"({SHIFTS})()") as page:
        page.chapter = request.param
        yield page


def test_the_first_screen_has_the_question_and_a_whole_picture(chapter):
    question = chapter.locator(".opening .question")
    assert question.is_visible() and question.inner_text().strip().endswith("?")
    image = chapter.locator(PICTURE).first.bounding_box()
    assert image and image["width"] > 150 and image["y"] + image["height"] < 1.2 * 900
    assert "min to read" in chapter.locator(".facts").inner_text()


# Pictures that are wider or higher than they should be for their form.
BENT = """() => [...document.querySelectorAll('article img')].filter((n) => n.checkVisibility()
).map(
    (n) => [n.width / n.height, n.getAttribute('width') / n.getAttribute('height'), n.src]
).filter(([shown, own]) => !(Math.abs(shown / own - 1) < 0.02))"""


def test_no_picture_is_bent(chapter):
    assert chapter.evaluate(BENT) == []


def test_the_list_of_chapters_is_no_wider_than_its_room(chapter):
    """A scroll bar that takes room, as most have, would stand on what is wider."""
    over = "(bar) => bar.scrollWidth - bar.clientWidth"
    assert chapter.locator(".bd-sidebar-primary").evaluate(over) == 0


def test_no_import_is_in_sight(chapter):
    seen = """() => [...document.querySelectorAll('.cell_input pre')].filter(
        (n) => n.checkVisibility()).map((n) => n.innerText)"""
    assert not [code for code in chapter.evaluate(seen) if re.match("(import|from) ", code)]


def test_every_fold_has_words_and_something_in_it(chapter):
    folds = """() => [...document.querySelectorAll('article details')].map((d) => [
        d.querySelector(':scope > summary')?.textContent.trim() ?? '',
        [...d.children].some((n) => n.localName != 'summary' && n.textContent.trim() + n.innerHTML)
    ])"""
    found = chapter.evaluate(folds)
    assert found and not [words for words, filled in found if not words or not filled]
    assert not [words for words, _ in found if words.endswith(":") or "TODO" in words]


def test_a_line_of_text_has_at_most_eighty_characters(chapter):
    lines = """() => [...document.querySelectorAll('article section > p')].filter(
        (p) => p.checkVisibility() && p.innerText.length > 300 && !p.querySelector('.math, code')
    ).map((p) => p.innerText.length / Math.round(
        p.clientHeight / parseFloat(getComputedStyle(p).lineHeight)))"""
    found = chapter.evaluate(lines)
    assert found and max(found) <= 80, sorted(found)[-3:]


def test_nothing_jumps_while_loading(chapter):
    nothing_jumps(chapter)


def nothing_jumps(page):
    page.wait_for_timeout(300)
    shifts = page.evaluate("window.shifts")
    assert sum(value for value, *_ in shifts) < STILL, sorted(shifts)[-3:]


class InParts(SimpleHTTPRequestHandler):
    """A server of one page in parts, each once it is in the queue, and of its pictures after it."""

    def do_GET(self):
        if self.path != self.server.page:
            if self.path.endswith(".svg"):
                self.server.sent.wait()
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        for part in iter(self.server.parts.get, None):
            self.wfile.write(part)
        self.server.sent.set()

    def log_message(self, *_):
        pass


# Where a slow connection may stop, and what is on the screen by then.
STOPS = {
    "<article": ".bd-header-article",
    "<script>": ".opening [data-numbers] > svg",
    '<dialog id="pst-secondary': ".prev-next-footer",
}
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
WIDE = "() => document.querySelector('.bd-article-container').offsetWidth"


@pytest.mark.parametrize("name", [MAIN[11], MAIN[13]])  # they begin with an explorable
def test_nothing_jumps_on_a_slow_connection(chromium, site, name):
    """What comes last has its room: the list of contents, the script of the first picture."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(InParts, directory=site))
    server.page, server.parts, server.sent = f"/{name}.html", Queue(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = chromium.new_context(viewport={"width": 1366, "height": 900})
    context.add_init_script(f"({SHIFTS})()")
    page = context.new_page()
    text, at, wide = (site / f"{name}.html").read_text("utf-8"), 0, set()
    for stop, there in STOPS.items():
        begun, at = at, text.index(stop, at)
        server.parts.put(text[begun:at].encode())
        if begun == 0:
            page.goto(f"http://127.0.0.1:{server.server_port}{server.page}", wait_until="commit")
        page.wait_for_selector(there, state="attached")
        page.evaluate(PAINTED)
        wide.add(page.evaluate(WIDE))
    server.parts.put(text[at:].encode())
    server.parts.put(None)
    page.wait_for_load_state()
    nothing_jumps(page)
    assert wide == {page.evaluate(WIDE)}
    context.close()
    server.shutdown()


def test_nothing_keeps_the_first_screen_waiting(chapter, site):
    nothing_keeps_the_reader_waiting(chapter, site)


def nothing_keeps_the_reader_waiting(page, site):
    """What a browser must have before it paints, counted: a time would be the machine's."""
    html = (site / unquote(urlsplit(page.url).path).lstrip("/")).read_text("utf-8")
    found = BeautifulSoup(html, "html.parser").select(
        "script[src]:not([defer], [async]), link[rel=stylesheet]"
    )
    found = [urljoin(page.url, tag.get("src") or tag["href"]) for tag in found]
    scripts = [Path(urlsplit(name).path).name for name in found if ".js" in name]
    assert scripts == ["documentation_options.js"]  # 200 bytes, on which scripts in the page stand
    assert len(found) <= 12 and sum(compressed(site, name) for name in found) <= BLOCKING


def test_a_page_weighs_no_more_than_it_should(chapter, site):
    found = sum(weighed(chapter, site).values())
    assert found <= PAGE, f"{chapter.chapter}: {found:,} bytes, at most {PAGE:,}"


def weighed(page, site):
    """Bytes of all that the page has asked for or will ask for, compressed."""
    images = page.evaluate("[...document.images].map((image) => image.src)")
    return {
        name: compressed(site, name) for name in {*page.requests, *images} if "data:" != name[:5]
    }


@cache
def compressed(site, address):
    file = site / unquote(urlsplit(address).path).lstrip("/")
    data = file.read_bytes()
    return len(data) if file.suffix in PACKED else len(gzip.compress(data, 6))


def test_the_landing_page_is_light(visit, site):
    with visit("book/index.html", init=f"({SHIFTS})()") as page:
        weight = weighed(page, site)
        assert sum(weight.values()) < LANDING, sorted(weight.items(), key=lambda i: -i[1])[:6]
        nothing_keeps_the_reader_waiting(page, site)
        nothing_jumps(page)


CUT = """() => {
    document.querySelectorAll('details').forEach((fold) => { fold.open = true })
    return [...document.querySelectorAll('article pre')].filter(
        (n) => n.checkVisibility() && n.scrollWidth > n.clientWidth + 1).map((n) => n.innerText)
}"""


@pytest.mark.parametrize("name", SOME)
def test_on_a_phone_the_picture_is_whole_and_no_code_is_cut(visit, name):
    with visit(f"{name}.html", width=390, height=844) as page:
        image = page.locator(PICTURE).first.bounding_box()
        assert image["width"] <= 390
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate(BENT) == []
        assert page.evaluate(CUT) == []


@pytest.mark.parametrize("name", SOME)
def test_in_a_narrow_window_no_code_is_cut(visit, name):
    with visit(f"{name}.html", width=1200, height=800) as page:
        assert page.evaluate(CUT) == []
        page.set_viewport_size({"width": 1366, "height": 800})
        assert page.evaluate(CUT) == []


def test_a_printed_page_has_its_title_and_no_frame_that_stays_empty(visit):
    """No flexible box is cut between lines: an empty frame would end the page."""
    flexible = """() => [...document.querySelectorAll(
        '.cell_input, .output, [class*="highlight-"]')].filter(
        (each) => getComputedStyle(each).display === 'flex').length"""
    with visit(f"{MAIN[2]}.html") as page:
        assert page.evaluate(flexible) > 0
        assert page.locator(".drawing .hint:visible").count() > 0
        page.emulate_media(media="print")
        assert page.locator(".drawing .hint:visible").count() == 0  # nobody touches paper
        assert page.locator("article h1").first.is_visible()
        assert page.evaluate(flexible) == 0


def test_on_paper_an_equation_is_as_large_as_a_formula_and_a_short_listing_is_whole(visit):
    sizes = """(where) => [...document.querySelectorAll(where)].filter((n) => n.checkVisibility())
        .map((n) => parseFloat(getComputedStyle(n).fontSize)
            * (n.style.getPropertyValue('--paper') || 1))"""
    listings = """() => [...document.querySelectorAll('article .cell_input pre')].filter(
        (n) => n.offsetHeight).map((n) => [n.offsetHeight, getComputedStyle(n).breakInside])"""
    with visit(f"{MAIN[9]}.html") as page:
        page.evaluate(SET)
        page.wait_for_function("document.querySelector('mjx-container[display]').style.length > 1")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        inline = page.evaluate(sizes, "section > p mjx-container:not([display])")
        equations = page.evaluate(sizes, "article div.math > mjx-container[display]")
        assert len(equations) > 5 and min(equations) == pytest.approx(min(inline), rel=0.03)
        found = page.evaluate(listings)
        assert {way for height, way in found if height < 300} == {"avoid"}
        assert len([height for height, _ in found if 150 < height < 300]) > 2


@pytest.mark.parametrize("name", ["book/09-modern-tweaks", "book/17-deeper-ahead"])
def test_on_a_phone_a_measured_row_is_no_wider_than_the_window(visit, name):
    """Its name stands above its numbers; to the last dot and seed all is in sight."""
    ends = """() => {
        document.querySelectorAll('details').forEach((fold) => { fold.open = true })
        return [...document.querySelectorAll('table.measured td.interval ~ td')].flatMap(
            (cell) => [cell, ...cell.querySelectorAll('data')].map(
                (node) => node.getBoundingClientRect().right))
    }"""
    with visit(f"{name}.html", width=390, height=844) as page:
        found = page.evaluate(ends)
        assert len(found) > 40 and max(found) <= 382


def test_in_the_dark_a_table_of_results_stands_on_the_page_itself(visit):
    ground = """() => [...document.querySelectorAll('.text_html:has(table.measured)')].map(
        (output) => getComputedStyle(output).backgroundColor)"""
    with visit(f"{MAIN[5]}.html") as page:
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert set(page.evaluate(ground)) == {"rgba(0, 0, 0, 0)"}


def test_one_button_shows_all_code_and_is_remembered(visit):
    closed = "document.querySelectorAll('details.fold.code:not([open])').length"
    with visit(f"{MAIN[4]}.html") as page:
        assert page.evaluate(closed) > 5
        button = page.get_by_role("button", name="Show all code")
        button.click()
        assert page.evaluate(closed) == 0
        page.reload()
        assert page.evaluate(closed) == 0
        page.get_by_role("button", name="Hide code").click()
        page.reload()
        assert page.evaluate(closed) > 5
    with visit(f"{MAIN[4]}.html?code") as page:
        assert page.evaluate(closed) == 0


def test_a_link_opens_the_fold_that_it_leads_into(visit):
    inside = """() => document.querySelector('article details :is(figure, p, div)[id]')?.id"""
    with visit(f"{MAIN[5]}.html") as page:
        name = page.evaluate(inside)
        assert name
        page.evaluate("(name) => { location.hash = name }", name)
        page.wait_for_function(
            "(name) => document.getElementById(name).checkVisibility()", arg=name
        )


def test_an_anchor_that_has_moved_is_found_on_its_new_page(visit):
    """A label of chapter 12, asked for on chapter 5."""
    with visit(f"{MAIN[4]}.html#sec-long-recall", wait=False) as page:
        page.wait_for_url("**/12-why-it-works.html#sec-long-recall")
    with visit(f"{MAIN[4]}.html#nowhere-at-all") as page:
        page.wait_for_timeout(300)
        assert page.url.endswith("05-multi-head-attention.html#nowhere-at-all")


def test_searching_in_the_page_opens_a_fold(visit):
    """As a link to a text does; Chromium's Ctrl+F goes the same way."""
    with visit(f"{MAIN[4]}.html#:~:text=before%2C%20after%20%3D%20(join") as page:
        opened = "document.querySelectorAll('details.fold.code[open]').length"
        page.wait_for_function(f"{opened} > 0")


def test_without_script_a_prediction_still_hides_and_shows_its_answer(visit):
    with visit(f"{MAIN[4]}.html", java_script_enabled=False, wait=False) as page:
        box = page.locator(".predict").first
        answer = box.locator("details.compare .cell").first
        assert not answer.is_visible()
        box.get_by_text("Compare").click()
        assert answer.is_visible()


@pytest.mark.parametrize("name", [MAIN[3], MAIN[4]])
def test_on_paper_every_figure_is_there_and_every_word_is_black(visit, name):
    hidden = """() => [...document.querySelectorAll('article figure')].filter(
        (n) => !n.checkVisibility()).map((n) => n.id)"""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    theme = "document.documentElement.dataset.theme"
    with visit(f"{name}.html", color_scheme="dark") as page:
        page.wait_for_function(f"{theme} == 'dark'")
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(theme) == "light"
        assert page.evaluate(hidden) == []
        assert not page.locator(".buttons").first.is_visible()
        only = {"runOnly": ["color-contrast", "image-alt"], "resultTypes": ["violations"]}
        found = axe.run(
            page, context={"include": [[".opening"], [".box"], ["figcaption"]]}, options=only
        )
        assert found.response["violations"] == []
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details.compare[open]").count() == 0 and page.evaluate(theme) == "dark"


def test_plots_follow_the_dark_theme_and_photographs_do_not(visit):
    look = "(image) => getComputedStyle(image).filter"
    with visit("book/08-vision-transformers.html", color_scheme="dark") as page:
        photo = page.locator(".cell.tag_photo .cell_output img").first
        assert "invert" not in photo.evaluate(look)
        ink = page.locator(".drawing.plot svg text").first
        assert ink.evaluate("(text) => getComputedStyle(text).fill") != "rgb(38, 38, 38)"


def test_a_formula_shows_its_menu_to_whoever_asks_and_speaks_once_it_is_told_to(visit, site):
    """The menu is not loaded before; what is set in it holds on the next visit."""
    spoken = "mjx-container [data-semantic-speech]"
    with visit(f"{MAIN[2]}.html") as page:
        assert not [name for name in page.requests if name.endswith("ui/menu.js")]
        before = page.locator("mjx-container").count()
        formula = page.locator("section > p .math mjx-container").first
        formula.click(button="right")
        page.locator(".CtxtMenu_ContextMenu").first.wait_for()
        assert page.locator("mjx-container").count() == before > 10
        setting = '{"explorer": true}'
        page.evaluate("(set) => localStorage.setItem('MathJax-Menu-Settings', set)", setting)
        page.reload()
        page.locator(spoken).first.wait_for(state="attached")
        assert page.locator("mjx-container").count() == before
