"""What a reader meets: on a phone, at night, without network, by keyboard or screen reader."""

import re
import sys
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from built_site import CHAPTERS, FILES, SITE

PAGES = [f"{file}.html" for file in FILES] + ["search.html?q=attention", "genindex.html"]
FIRST = [  # one page of each kind; what the others have is made by the same rules
    "book/index.html",
    "book/03-queries-keys-values.html",
    "book/06-the-transformer.html",
    "book/13-looking-inside.html",
    "book/18-many-machines.html",
    "book/13-deeper-gemma.html",
    "labs/student/05-mini-transformer.html",
    *(f"book/{name}.html" for name in ("open-models", "notation", "glossary", "references")),
    "book/reference/attention.html",
    "search.html?q=attention",
    "genindex.html",
]
assert set(FIRST) <= set(PAGES)
THEN = [
    *(page for page in PAGES if "-deeper-" not in page and "/reference/" not in page),
    *{page.split("-")[0]: page for page in PAGES if "-deeper-" in page}.values(),
]


def how_often(page):
    return [] if page in FIRST else pytest.mark.slow if page in THEN else pytest.mark.weekly


ALL = [pytest.param(page, marks=how_often(page)) for page in PAGES]
THREE = "02", "06", "13"
MAIN = [
    pytest.param(page, marks=pytest.mark.slow if number in THREE else pytest.mark.weekly)
    for page in PAGES
    if "-deeper-" not in page and (number := page[5:7]).isdigit()
]
LATER = "article li:nth-child(n + 9)"
PHONE, DESK = ({"width": width, "height": 844} for width in (390, 1280))
SET = "async () => { if (window.MathJax?.startup) await MathJax.startup.promise }"

pytestmark = pytest.mark.timeout(400)  # axe reads every node of a page: minutes beside other work

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
    """Open an address as whoever has never been here does."""
    viewport = {"width": width, "height": 844}
    context = chromium.new_context(viewport=viewport, reduced_motion="reduce", **settings)
    with opened(context.new_page(), address) as page:
        yield page
    context.close()


@contextmanager
def opened(page, address):
    """An address in this tab; `page.trouble` and `page.requests` collect what happens meanwhile."""
    page.requests, page.trouble = [], []
    note = page.trouble.append
    heard = {
        "request": lambda request: page.requests.append(request.url),
        "response": lambda answer: answer.status < 400 or note(f"{answer.status} {answer.url}"),
        "requestfailed": lambda request: note(f"failed: {request.url}"),
        "pageerror": lambda error: note(str(error)),
        "console": lambda line: line.type in ("error", "warning") and note(line.text),
    }
    for event, hear in heard.items():
        page.on(event, hear)
    page.goto(address)
    page.evaluate(SET)
    yield page
    for event, hear in heard.items():
        page.remove_listener(event, hear)


@pytest.fixture(scope="module")
def tabs(chromium):
    """One tab for each place: who reads on keeps the scripts and the fonts of the page before."""
    with ExitStack() as stack:
        found = {}
        for place in ("http", "file"):
            context = chromium.new_context(reduced_motion="reduce", color_scheme="light")
            stack.callback(context.close)
            found[place] = context.new_page()
        yield found


@pytest.fixture
def tab(tabs):
    """`with tab(place, address) as page`: what a page stores is forgotten with it."""

    @contextmanager
    def tab(place, address):
        page = tabs[place]
        page.set_viewport_size(DESK)
        page.emulate_media(media="screen", color_scheme="light")
        try:
            with opened(page, address):
                yield page
        finally:
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear() }")
            page.goto("about:blank")

    return tab


def goes_wrong_nowhere(page, place, name):
    """Nothing is asked of other hosts, nothing fails, every formula is set."""
    assert not [url for url in page.requests if not url.startswith((place, "data:"))]
    if place.startswith("file:"):  # the summaries of search results are fetched: no disk allows it
        page.trouble = [line for line in page.trouble if not name.startswith("search")]
    assert not page.trouble
    broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert page.evaluate(broken) == []
    formulas = page.locator(".math").count()
    assert formulas > 0 or not is_chapter(name) or "deeper" in name
    assert formulas == page.locator(".math:has(mjx-container)").count()
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0


def is_chapter(name):
    return name.removesuffix(".html") in CHAPTERS


def buttons_lead_to_colab_and_to_the_file(page, name):
    link = page.locator(".buttons .colab")
    assert link.is_visible() and link.inner_text() == "Run on Colab"
    address = link.get_attribute("href")
    assert re.match(r"https://colab\.research\.google\.com/github/\w", address)
    assert address.endswith(f"/blob/main/{name.removesuffix('.html')}.ipynb")
    file = page.locator(".buttons .download").evaluate("link => link.href")
    assert page.request.get(file).json()["nbformat"] == 4


def solution_stays_folded_until_asked_for(page):
    solution = page.locator(".solution").first
    inside = solution.locator("section, .cell").last
    assert not inside.is_visible()
    solution.locator("summary").first.click()
    assert inside.is_visible()


def open_all(page):
    """All that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")


# One element for each way in which text looks: its own colour, whether it is large (then less
# contrast is enough), and what lies behind it. What is marked already stands for its look again.
LOOKS = """() => {
    const looks = new Map(), seen = new Set()
    const all = (selector) => [...document.body.querySelectorAll(selector)]
    const behind = (node) => {
        if (!node) return ""
        if (!looks.has(node)) {
            const { backgroundColor, backgroundImage, opacity } = getComputedStyle(node)
            const solid = /^rgb\\(/.test(backgroundColor) && opacity == 1
            const own = [backgroundColor, backgroundImage, opacity].join(" ")
            looks.set(node, solid ? own : behind(node.parentElement) + own)
        }
        return looks.get(node)
    }
    for (const node of [...all("[data-look]"), ...all("*")]) {
        if (![...node.childNodes].some((n) => n.nodeType == 3 && n.data.trim())) continue
        if (!node.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue
        const { color, fontSize, fontWeight, textShadow } = getComputedStyle(node)
        const large = parseFloat(fontSize) >= (fontWeight < 700 ? 24 : 18.66)
        const look = [color, large, textShadow, behind(node)].join(" ")
        if (!seen.has(look)) node.setAttribute("data-look", seen.add(look).size)
    }
}"""
# What has a colour or a form and no meaning: spans in code, the glyphs of a formula (hidden from
# screen readers, which are given its MathML). What is marked stays.
FLATTEN = """() => {
    const plain = (node) => !node.matches("[data-look]") && !node.querySelector("[data-look]")
    const spans = [...document.querySelectorAll("pre span")].filter(plain)
    spans.reverse().forEach((node) => node.replaceWith(...node.childNodes))
    document.querySelectorAll("pre").forEach((node) => node.normalize())
    const formulas = document.querySelectorAll("mjx-math[aria-hidden=true]")
    for (const node of [...formulas].filter(plain)) {
        const { width, height } = node.getBoundingClientRect()
        node.replaceChildren()
        node.style.cssText = `display: inline-block; width: ${width}px; height: ${height}px`
    }
}"""
# The theme lets the keyboard into what scrolls, a moment after the window has a new width.
REACHED = """() => [...document.querySelectorAll(
    "pre, .cell_output > .output, .jp-RenderedHTMLCommon, .pst-scrollable-table-container"
)].every((node) => node.tabIndex == 0
    || (node.scrollWidth <= node.clientWidth && node.scrollHeight <= node.clientHeight))"""


FAULTS = """async ([context, options]) => {
    const { violations } = await axe.run(context ?? document, options)
    const said = (nodes) => nodes.slice(0, 3).map((node) => node.html.slice(0, 200))
    return violations.map(({ id, nodes }) => [id, said(nodes)])
}"""


def faults(page, context=None, **options):
    """What axe-core finds; it is given to a page once."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.axe_script)
    options["resultTypes"] = ["violations"]
    return [tuple(found) for found in page.evaluate(FAULTS, [context, options])]


def pale(page):
    """Text that is hard to read on its ground; of all that looks alike the marked is measured."""
    return faults(page, {"include": [["[data-look]"]]}, runOnly=["color-contrast"])


def barriers(page):
    """All other rules."""
    return faults(page, rules={"color-contrast": {"enabled": False}})


def seen(page, scheme, media="screen", size=DESK):
    """The page by day or by night, on a screen or on paper."""
    page.emulate_media(media="screen", color_scheme=scheme)
    page.wait_for_function(f"document.documentElement.dataset.theme == '{scheme}'")
    page.emulate_media(media=media, color_scheme=scheme)
    page.set_viewport_size(size)
    page.wait_for_function(REACHED)


def is_for_everybody(page, looks, barriers_on):
    """In each look, the contrast; in one of them, whatever else stands in somebody's way."""
    page.mouse.move(0, 0)  # paper knows no link that is pointed at
    for look in looks:
        seen(page, *look)
        page.evaluate(LOOKS)
        if look[-1] is PHONE:
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate(FLATTEN)
    for look in reversed(looks):
        seen(page, *look)
        assert pale(page) == []
        if look == barriers_on:
            assert barriers(page) == []


def loaded(page, places, name):
    if name.startswith("search"):
        page.locator("#search-results li a").first.wait_for()
        page.wait_for_load_state("networkidle")  # each result fetches its summary
    goes_wrong_nowhere(page, places["http"], name)


@pytest.mark.parametrize("name", ALL)
def test_a_page_serves_every_reader_and_asks_only_its_own_site(tab, places, name):
    """By day, and by night on a phone."""
    with tab("http", f"{places['http']}/{name}") as page:
        loaded(page, places, name)
        if is_chapter(name):
            buttons_lead_to_colab_and_to_the_file(page, name)
            if "deeper" not in name or page.locator(".solution").count():
                solution_stays_folded_until_asked_for(page)
        if name == "genindex.html":  # thousands of lines of one form: the first of each list
            page.evaluate(f"document.querySelectorAll('{LATER}').forEach((line) => line.remove())")
        open_all(page)
        night = ("dark", "screen", PHONE)
        is_for_everybody(page, [("light",), night], barriers_on=night)


@pytest.mark.parametrize("name", MAIN)
def test_a_main_page_serves_every_reader_by_night_on_a_desk_and_on_paper(tab, places, name):
    with tab("http", f"{places['http']}/{name}") as page:
        loaded(page, places, name)
        open_all(page)
        day = ("light",)
        is_for_everybody(page, [("dark",), ("light", "print"), day], barriers_on=day)


@pytest.mark.parametrize("name", ALL)
def test_a_page_reads_from_a_disk_and_fits_a_phone(tab, places, name):
    with tab("file", f"{places['file']}/{name}") as page:
        goes_wrong_nowhere(page, places["file"], name)
        page.set_viewport_size(PHONE)
        open_all(page)  # drawings take their tall layout a moment later
        page.wait_for_function("document.documentElement.scrollWidth <= 390", timeout=20_000)


def test_what_is_hard_to_read_or_has_no_words_is_found(chromium, places):
    wrong = """<p style="color: #ccc; background: #fff">pale</p><pre><code>
               <span style="color: #333; background: #222">dark</span></code></pre>
               <img src="_static/favicon.svg"><a href="#x"></a>"""
    with visit(chromium, f"{places['http']}/genindex.html", color_scheme="light") as page:
        page.locator("article").evaluate("(node, html) => { node.innerHTML = html }", wrong)
        page.evaluate(LOOKS)
        (contrast,) = pale(page)
        assert contrast[0] == "color-contrast" and len(contrast[1]) == 2
        page.evaluate(FLATTEN)
        assert {"image-alt", "link-name"} <= {rule for rule, _ in barriers(page)}


@pytest.mark.parametrize("place", ["http", "file"])
@pytest.mark.parametrize("words", ["attention", "vanishing gradient", "注意力"])
def test_search_finds(chromium, places, place, words):
    with visit(chromium, f"{places[place]}/search.html?q={words}") as page:
        first = page.locator("#search-results li a").first
        first.wait_for(timeout=5000)
        assert "book/" in first.get_attribute("href")


def test_a_result_of_the_search_shows_the_place_it_leads_to(chromium, places):
    with visit(chromium, f"{places['http']}/search.html?q=attention") as page:
        page.locator("#search-results li a").first.wait_for()
        page.wait_for_load_state("networkidle")
        found = page.locator("#search-results li:has(a[href$='#attnbook.attention'])")
        assert "score every key against a query" in found.inner_text()
        assert not page.trouble


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


def test_the_keyboard_gets_everywhere_and_is_seen(chromium, places):
    ring = """() => { let node = document.activeElement
                      while (node.shadowRoot?.activeElement) node = node.shadowRoot.activeElement
                      const style = getComputedStyle(node)
                      return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) > 0 }"""
    with visit(chromium, f"{places['http']}/{FILES[0]}.html") as page:
        page.keyboard.press("Tab")
        assert page.locator("#pst-skip-link a").is_visible()
        reached = set()
        while page.evaluate("document.activeElement != document.body"):
            assert page.evaluate(ring), page.evaluate("document.activeElement.outerHTML")
            reached.add(page.evaluate("document.activeElement.getAttribute('href')"))
            page.keyboard.press("Tab")
        main = [name for name in CHAPTERS if "deeper" not in name]  # the others when it is open
        assert {f"{Path(chapter).name}.html" for chapter in main} <= reached


def test_the_table_of_open_models_is_chosen_from_and_sorted(chromium, places):
    with visit(chromium, f"{places['http']}/book/open-models.html") as page:
        rows = page.locator(".open-models tbody tr:visible")
        everyone = rows.count()
        box = page.get_by_label("norm after the sublayer")
        counted = int(box.locator("xpath=..").locator("span").inner_text())
        box.check()
        assert 0 < rows.count() == counted < everyone
        assert page.locator(".open-models output").inner_text().startswith(f"{counted} of")
        box.uncheck()
        page.get_by_role("button", name="Cache, per token").click()
        kept = [
            float(row.split(" kB")[0]) for row in rows.locator("td:nth-child(6)").all_inner_texts()
        ]
        assert kept == sorted(kept)
        assert len(kept) == everyone
        page.get_by_label("show where each cell was read").check()
        assert "Config" in rows.first.inner_text()
        box.check()
        page.goto("about:blank")
        page.go_back()
        page.wait_for_function("document.querySelector('.open-models tbody [hidden]')")
        assert box.is_checked() and rows.count() == counted
        assert not page.trouble


@pytest.mark.parametrize("width", [1440, 1000, 390])
def test_all_columns_of_the_open_models_are_seen(chromium, places, width):
    with visit(chromium, f"{places['http']}/book/open-models.html", width=width) as page:
        seen = """() => {
            const box = document.querySelector(".open-models .wide")
            const last = box.querySelector("tbody tr").lastChild.getBoundingClientRect()
            return [box.scrollWidth <= box.clientWidth, last.width > 60]
        }"""
        assert page.evaluate(seen) == [True, True]


def test_every_icon_is_drawn_by_the_style_sheet(chromium, places):
    mask = "node => getComputedStyle(node, '::before').maskImage"
    with visit(chromium, f"{places['http']}/{CHAPTERS[0]}.html") as page:
        icons = page.locator("i[class*='fa-'], span[class*='fa-']").all()
        assert len(icons) > 5
        for icon in icons:
            assert "svg" in icon.evaluate(mask), icon.evaluate("node => node.outerHTML")


STATES = """async () => {
    const found = []
    for (const node of document.querySelectorAll("[data-numbers]")) {
        const first = JSON.stringify(node.state)
        const moves = Object.entries(node.constructor.limits ?? {})
        for (const [key, [low, high]] of moves.slice(0, 3)) {
            const other = typeof low === "string" ? high : node.start[key] === low ? high : low
            node.reset()
            try { node.set({ [key]: other }) } catch { continue }
            const there = JSON.stringify(node.state), link = attnStates.link(node)
            node.reset()
            const said = decodeURIComponent(link).split(/=(.*)/s)[1]
            if (said) attnStates.take(node, said)
            found.push([link, there === JSON.stringify(node.state)])
        }
        node.reset()
        for (const wrong of ["'none':1", "x", "'constructor':{}"]) attnStates.take(node, wrong)
        found.push([node.localName, JSON.stringify(node.state) === first])
    }
    return found
}"""


@pytest.mark.parametrize(
    "name", ["03-queries-keys-values", "04-order-and-masks", "18-many-machines"]
)
def test_a_state_of_an_explorable_has_an_address(tab, places, name):
    with tab("http", f"{places['http']}/book/{name}.html") as page:
        found = page.evaluate(STATES)
        assert len(found) > 1 and all(fits for _, fits in found), found
        link = next(link for link, _ in found if "=" in link)
        page.goto("about:blank")
        page.goto(f"{places['http']}/book/{name}.html{link}")
        page.wait_for_function(
            "window.attnStates && document.querySelector('[data-numbers]').state"
        )
        now = page.evaluate("[...document.querySelectorAll('[data-numbers]')].map(attnStates.link)")
        assert link in now


EDGES = """() => {
    const seen = (node) => node.getBoundingClientRect().width > 0 && !node.closest(".box, li, td")
    const lefts = (what) => [...document.querySelectorAll(what)].filter(seen)
        .map(node => Math.round(node.getBoundingClientRect().left))
    return [...new Set(lefts("article figure, article figcaption, article [data-numbers]"))]
        .map(left => left - lefts("article section > h2")[0])
}"""


@pytest.mark.parametrize("name", ["01-recurrent-networks", "06-the-transformer"])
def test_text_captions_and_pictures_have_one_left_edge(tab, places, name):
    with tab("http", f"{places['http']}/book/{name}.html") as page:
        assert page.evaluate(EDGES) == [0]


COVERED = """() => {
    const both = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1
    const signs = [...document.querySelectorAll(".tag_plot > details.fold.code > summary")]
        .map((sign) => [sign.getBoundingClientRect(), sign.closest(".cell")])
        .filter(([box]) => box.width)
    return [signs.length, signs.flatMap(([box, cell]) =>
        [...cell.querySelectorAll(".cell_output text")].filter((text) => text.checkVisibility()
            && both(box, text.getBoundingClientRect())).map((text) => text.textContent))]
}"""


@pytest.mark.parametrize("width", [390, 1200, 1366])
def test_the_sign_of_a_figures_code_lies_on_none_of_its_words(tab, places, width):
    with tab("http", f"{places['http']}/book/05-multi-head-attention.html") as page:
        page.set_viewport_size({"width": width, "height": 844})
        signs, covered = page.evaluate(COVERED)
        assert signs > 1 and covered == []


def test_a_fold_that_opens_has_its_own_formulas_measured_and_no_others(tab, places):
    """All folds times all formulas took a chapter's "Show all code" half a minute."""
    mark = """() => document.querySelectorAll("mjx-container[display]").forEach((node) => {
        node.style.setProperty("--paper", 9)
    })"""
    left = """() => [...document.querySelectorAll("mjx-container[display]")]
        .filter((node) => node.clientWidth)
        .map((node) => [node.style.getPropertyValue("--paper"), !!node.closest("details")])"""
    with tab("http", f"{places['http']}/book/03-queries-keys-values.html") as page:
        page.wait_for_function("document.querySelector('mjx-container[display]').style.length > 0")
        page.evaluate(mark)
        open_all(page)
        page.wait_for_timeout(300)
        found = page.evaluate(left)
        assert {inside for paper, inside in found if paper != "9"} == {True}
        assert {inside for paper, inside in found if paper == "9"} == {False}


def test_names_in_a_sheet_of_pictures_are_read_on_a_phone(tab, places):
    sizes = """() => [...document.querySelectorAll("#fig-painted svg text")]
        .filter((text) => text.checkVisibility()).map((text) => {
            const { a, b } = text.getScreenCTM()
            return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b)
        })"""
    with tab("http", f"{places['http']}/book/08-vision-transformers.html") as page:
        page.set_viewport_size(PHONE)
        found = page.evaluate(sizes)
        assert len(found) == 3 and min(found) >= 11, found


@pytest.mark.parametrize("width", [390, 1366])
def test_copy_link_stands_beside_reset(tab, places, width):
    lines = """() => [...document.querySelectorAll("[data-numbers]")].map((node) =>
        [...node.shadowRoot.querySelectorAll("button")]
            .filter((button) => /^(Reset|Copy link)$/.test(button.textContent))
            .map((button) => Math.round(button.getBoundingClientRect().top)))"""
    with tab("http", f"{places['http']}/book/13-looking-inside.html") as page:
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function("window.attnStates")
        found = page.evaluate(lines)
        assert found and all(len(tops) == 2 and len(set(tops)) == 1 for tops in found), found


def test_contents_say_where_one_is_and_a_prediction_answers(tab, places):
    with tab("http", f"{places['http']}/book/09-modern-tweaks.html") as page:
        place = page.locator("article section > h2").nth(3)
        place.evaluate("node => node.scrollIntoView()")
        here = page.locator(".toc-entry > a.here")
        here.wait_for()
        assert here.get_attribute("aria-current") in ("location", "true")
        section = place.evaluate("node => node.closest('section').id")
        assert here.get_attribute("href") == f"#{section}"
        box = page.locator(".predict:has(.choices)").first
        wrong = box.locator(".choices label:not([data-right])").first
        wrong.click()
        box.locator("summary").first.click()
        assert box.locator(".verdict").inner_text() == "You said otherwise; see why."
        assert "0 of 1 came out so" in page.locator(".tally").inner_text()
        box.locator(".choices label[data-right]").click()
        assert box.locator(".verdict").inner_text() == "You said so, and so it is."
        page.reload()
        assert box.locator(".choices label[data-right] input").is_checked(), "it is remembered"


def test_the_dialog_of_the_search_finds_while_one_types(tab, places):
    with tab("http", f"{places['http']}/book/09-modern-tweaks.html") as page:
        page.keyboard.press("Control+k")
        field = page.locator("#pst-search-dialog input[name=q]")
        field.press_sequentially("flash atten")
        first = page.locator(".found li > a").first
        first.wait_for()
        assert "FlashAttention" in first.inner_text()
        sign = page.locator("#pst-search-dialog .bd-search > i").bounding_box()
        text = field.evaluate(
            "n => n.getBoundingClientRect().left + parseFloat(getComputedStyle(n).paddingLeft)"
        )
        assert sign["x"] + sign["width"] <= text, "the sign stands before the words"
