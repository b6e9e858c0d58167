"""What readers take with them: slides, the printed book, a shared link, a reference to cite."""

import json
import re
import unicodedata
import xml.etree.ElementTree as xml
from pathlib import Path
from urllib.parse import urlsplit

import cards
import join
import pdf
import pytest
import slides
import yaml
from built_site import CHAPTERS, FILES, ROOT, SITE, built, read, todays_theme
from paper import Paper

ROAD = [file for file in CHAPTERS if "deeper" not in file]
HEAVIEST_BOOK = 60e6  # bytes
PRINTED = [  # a part of the book that has all that the whole has
    *(page for page in CHAPTERS if re.match(r"book/0[135]-", page)),
    "book/derivations",
    "book/notation",
    "book/glossary",
    "genindex",
]
SAMPLE = "book/05-multi-head-attention"
THREE = {page for page in ROAD if re.match(r"book/(02|06|13)-", page)}

pytestmark = [built, todays_theme]


def weekly(value):
    return pytest.param(value, marks=pytest.mark.weekly)


@pytest.fixture
def tab(chromium):
    """A page that collects what goes wrong and what is asked for."""
    context = chromium.new_context(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")
    page = context.new_page()
    page.trouble, page.asked = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("requestfailed", lambda request: page.trouble.append(request.url))
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on(
        "console", lambda line: line.type in ("error", "warning") and page.trouble.append(line.text)
    )
    yield page
    context.close()


# ---- present ----

NOW = """() => {
    const node = document.querySelector(".present-now"), box = node.getBoundingClientRect()
    const ids = [node, ...node.querySelectorAll("[id]")].map(each => each.id).filter(Boolean)
    const live = [...node.querySelectorAll("*")].some(each => each.localName.startsWith("attn-"))
    const { left, top, right, bottom, width, height } = box
    const whole = left >= -1 && top >= -1 && right <= innerWidth + 1 && bottom <= innerHeight + 1
    const scale = Math.min(...[node, ...node.children].map(each => Number(each.style.zoom || 1)))
    const at = document.querySelector(".present-count").textContent
    return { ids, live, whole, width, height, tag: node.tagName, scale, at }
}"""


def every_slide(tab):
    """What each slide shows, reached by the arrow key."""
    now = tab.evaluate(NOW)
    count = int(now["at"].split("/")[1])
    for at in range(1, count + 1):
        assert now["at"] == f"{at} / {count}"
        yield now
        for _ in range(2):  # an answer is a step of its own
            if at < count and now["at"] == f"{at} / {count}":
                tab.keyboard.press("ArrowRight")
                now = tab.evaluate(NOW)


def present(tab, page, anchor=""):
    tab.goto(f"{(SITE / page).as_uri()}.html?present{anchor}")
    tab.locator(".present-count").wait_for()
    tab.evaluate("async () => { await MathJax.startup.promise }")


@pytest.mark.parametrize("name", [SAMPLE, "book/06-the-transformer", "book/07-language-models"])
def test_the_arrow_key_reaches_every_picture_of_a_page(tab, name):
    present(tab, name)
    seen = list(every_slide(tab))
    ids = {each for slide in seen for each in slide["ids"]}
    body = read(name).select_one("article.bd-article")
    figures = {
        tag["id"] for tag in body.select("figure[id]") if not tag.find_parent(class_="solution")
    }
    assert figures and figures <= ids, figures - ids
    explorables = [
        tag for tag in body.find_all(re.compile("^attn-")) if not tag.find_parent(class_="solution")
    ]
    assert sum(slide["live"] for slide in seen) >= bool(explorables)
    headings = [slide for slide in seen if slide["tag"] == "H2"]
    assert len(headings) == len(
        [tag for tag in body.select("section > h2") if not tag.find_parent("details")]
    )
    for slide in seen:
        assert slide["width"] > 50 and slide["height"] > 10, slide["ids"]
        assert slide["whole"] and slide["scale"] >= 0.6, (slide["ids"], slide["scale"])
    assert tab.trouble == []


def test_a_presentation_begins_where_the_address_says_and_ends_there(tab):
    first = read(SAMPLE).select_one("article figure[id]")["id"]
    present(tab, SAMPLE, f"#{first}")
    assert first in tab.evaluate(NOW)["ids"]
    tab.keyboard.press("ArrowLeft")
    assert first not in tab.evaluate(NOW)["ids"]
    tab.keyboard.press("PageDown")
    assert tab.url.endswith(f"#{first}")
    tab.keyboard.press("Escape")
    tab.wait_for_url(lambda url: "present" not in url)
    assert tab.url.endswith(f"{SAMPLE}.html#{first}")
    assert tab.locator("article p").first.is_visible()


def test_a_title_with_nothing_to_show_says_how_its_section_begins(tab):
    present(tab, "book/18-many-machines", "#sec-data-parallel")
    said = tab.locator("h2[data-lead]").all()
    assert 0 < len(said) < tab.locator("article section > h2").count() / 2
    for title in said:
        lead = title.get_attribute("data-lead")
        paragraph = title.locator("xpath=../p").first.text_content()
        assert lead and paragraph.strip().startswith(lead)


def test_nothing_else_is_seen_while_presenting(tab):
    present(tab, SAMPLE)
    tab.keyboard.press("ArrowRight")
    for selector in (
        ".bd-sidebar-primary",
        ".bd-header-article",
        "article section > p",
        ".bd-footer-content",
    ):
        assert not any(node.is_visible() for node in tab.locator(selector).all()), selector


def test_slides_print_one_on_each_page(tab):
    present(tab, SAMPLE)
    count = int(tab.locator(".present-count").inner_text().split("/")[1])
    sheets = tab.evaluate("attnPaper().children.length")
    data = tab.pdf(prefer_css_page_size=True, print_background=True)
    slides_on_paper = Paper(data)
    assert len(slides_on_paper.pages) == sheets >= count, "long answers have pages of their own"
    for at in range(1, sheets + 1):
        width, height = slides_on_paper.size(at)
        assert width > height and slides_on_paper.text(at).strip(), at


# Of each sheet: what is cut, what lies on something else, and the smallest letters in pixels of a
# projector, 1,920 pixels wide. Exponents are smaller than what they stand at.
SHEETS = """() => [...document.querySelector(".present-paper").children].map((sheet, at) => {
    const outer = sheet.getBoundingClientRect(), inside = sheet.lastElementChild
    const projector = 1920 / (outer.width + 82), found = []
    const out = box => box.left < outer.left - 1 || box.top < outer.top - 1
        || box.right > outer.right + 1 || box.bottom > outer.bottom + 1
    const depth = (a, b) => Math.min(Math.min(a.right, b.right) - Math.max(a.left, b.left),
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top))
    const whole = { opacityProperty: true, visibilityProperty: true }
    const seen = each => each.checkVisibility(whole) && !each.closest("legend, title, desc, style")
    const texts = [], walk = document.createTreeWalker(sheet, NodeFilter.SHOW_TEXT)
    while (walk.nextNode()) {
        const text = walk.currentNode, above = text.parentElement
        if (!text.data.trim() || !seen(above) || above.closest("mjx-container")) continue
        const range = document.createRange()
        range.selectNodeContents(text)
        const box = range.getBoundingClientRect(), svg = above.closest("svg")
        const zoom = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width
            : above.currentCSSZoom
        const owner = above.closest("text, p, li, pre, td, th, h1, h2, h3, label") || above
        texts.push({ owner, box, size: parseFloat(getComputedStyle(above).fontSize) * zoom,
            words: text.data.trim().slice(0, 30), raised: above.localName === "tspan" })
        if (out(box)) found.push(`${text.data.trim().slice(0, 30)} is off the sheet`)
    }
    for (const [n, a] of texts.entries()) for (const b of texts.slice(n + 1)) {
        if (a.owner !== b.owner && !a.owner.contains(b.owner) && depth(a.box, b.box) > 3)
            found.push(`${a.words} lies on ${b.words}`)
    }
    const blocks = [...inside.querySelectorAll(
        "svg, img, pre, table, figcaption, div.box, .compare")]
    for (const [n, a] of blocks.entries()) {
        if (!seen(a)) continue
        const box = a.getBoundingClientRect()
        if (!a.matches(".compare") && out(box)) found.push(`${a.localName} is off the sheet`)
        if (a.clientWidth && a.scrollWidth > a.clientWidth + 2 && !a.matches("svg, svg *"))
            found.push(`${a.localName} is cut`)
        for (const b of blocks.slice(n + 1))
            if (seen(b) && !a.contains(b) && !b.contains(a)
                && depth(box, b.getBoundingClientRect()) > 2)
                found.push(`${a.localName} lies on ${b.localName}`)
    }
    const size = Math.min(...texts.filter(text => !text.raised).map(text => text.size)) * projector
    const bars = [...inside.querySelectorAll(".box.predict, .box.result")].every(
        box => parseFloat(getComputedStyle(box).borderLeftWidth) >= 2)
    const { width, height } = inside.getBoundingClientRect()
    const what = sheet.innerText.trim().slice(0, 60)
    return { at: at + 1, found, size, bars, width, height, what }
})"""


@pytest.mark.parametrize("name", [page if page in THREE else weekly(page) for page in ROAD])
def test_on_a_sheet_of_paper_nothing_is_cut_and_nothing_overlaps(tab, name):
    present(tab, name)
    tab.emulate_media(media="print")
    tab.evaluate("() => { document.documentElement.dataset.theme = 'light'; attnPaper() }")
    for sheet in tab.evaluate(SHEETS):
        assert sheet["width"] > 50 and sheet["height"] > 10, sheet
        assert sheet["found"] == [], sheet
        assert sheet["bars"], sheet
        assert sheet["size"] >= 14, sheet


def test_an_answer_comes_after_its_question_on_paper(tab):
    present(tab, SAMPLE)
    asked = tab.evaluate(
        """() => [...attnPaper().children].map(sheet => [
            sheet.querySelector(".predict")?.textContent.trim().slice(0, 80),
            Boolean(sheet.querySelector(".compare"))]).filter(([text]) => text)"""
    )
    assert asked and not asked[0][1], "a question stands alone first"
    for (text, answered), (before, _) in zip(asked[1:], asked, strict=False):
        assert not answered or text[:40] == before[:40], text


def test_a_file_of_slides_needs_nothing_beside_it(tab, tmp_path):
    with_math = slides.make(tab, SITE, SAMPLE, tmp_path)
    tab.asked.clear(), tab.trouble.clear()
    moved = tmp_path / "elsewhere.html"
    with_math.rename(moved)
    tab.goto(moved.as_uri())
    tab.locator(".present-count").wait_for()
    assert [url for url in tab.asked if not url.startswith(("data:", moved.as_uri()))] == []
    assert tab.trouble == []
    seen = list(every_slide(tab))
    figures = {
        tag["id"]
        for tag in read(SAMPLE).select("article figure[id]")
        if not tag.find_parent(class_="solution")
    }
    assert figures <= {each for slide in seen for each in slide["ids"]}
    assert moved.stat().st_size < 8e6
    broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).length"
    assert tab.evaluate(broken) == 0
    assert tab.locator("mjx-container").count() > 0


# ---- the printed book ----


def test_two_pages_become_one_document_without_two_ids_alike():
    both = {SAMPLE, "book/glossary"}
    bodies = [join.joined(SITE, page, both, "https://example.org/") for page in sorted(both)]
    ids = [tag["id"] for body in bodies for tag in body.select("[id]")] + [
        body["id"] for body in bodies
    ]
    assert len(ids) == len(set(ids)) > 100
    links = [tag["href"] for body in bodies for tag in body.select("a[href]")]
    inside = [href[1:] for href in links if href.startswith("#")]
    assert inside and set(inside) <= set(ids)
    assert not [href for href in links if urlsplit(href).scheme not in ("", "http", "https")]
    assert [href for href in links if href.startswith("https://example.org/book/04-")]


@pytest.fixture(scope="module")
def printed(tmp_path_factory, chromium):
    """A part of the book, as `make pdf` prints the whole, which takes minutes."""
    output = tmp_path_factory.mktemp("pdf") / "book.pdf"
    count = pdf.make(SITE, PRINTED, output, chromium)
    return Paper(output.read_bytes()), count, output


def letters(text):
    """Without spaces, and with letters that Unicode has twice written one way."""
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", text))


def headings_of(page):
    """The headings that the contents list, as the page has them."""
    for node in read(page).select("article h1, article section > section > h2"):
        if not node.find_parent(class_="solution"):
            yield node.get_text(" ", strip=True).removesuffix("#").strip()


@pytest.mark.slow
@pytest.mark.timeout(900)  # it is laid out twice
def test_the_printed_book_is_whole_with_a_title_page_an_outline_and_page_numbers(printed):
    paper, count, output = printed
    assert len(paper.pages) == count > 100 and output.stat().st_size < HEAVIEST_BOOK
    assert paper.title == "Attention and Transformers"
    assert letters("Attention and Transformers") in letters(paper.text(1))
    outline = [letters(title) for _, title in paper.outline()]
    for page in PRINTED[:-1]:
        title = read(page).select_one("article h1").get_text(" ", strip=True).removesuffix("#")
        assert letters(title) in outline, title
    for at in range(2, count + 1):
        lines = paper.text(at).split("\n")
        assert str(at) in lines, f"no number on page {at}"
        assert len(letters("".join(lines))) > len(str(at)) or paper.drawn(at), f"page {at} is blank"
    assert not list(output.parent.glob(".*")), "a draft was left"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_contents_name_the_page_on_which_a_section_stands(printed):
    paper, count, _ = printed
    texts = [letters(paper.text(at)) for at in range(1, count + 1)]
    listed = ""  # of the contents, which come first; a number that stands alone in brackets
    for line in [line for at in range(2, 30) for line in paper.text(at).split("\n")]:
        listed += f"[{line.strip()}]" if line.strip().isdigit() else letters(line)
    for page in PRINTED[:-4]:
        for title in headings_of(page):
            found = [int(at) for at in re.findall(re.escape(letters(title)) + r"\[(\d+)\]", listed)]
            assert found, f"{title} is not in the contents"
            stands = [at for at in found if at <= count and letters(title) in texts[at - 1]]
            assert stands, f"{title} is not on page {found}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_references_in_the_printed_book_lead_somewhere(printed):
    paper, count, _ = printed
    targets = [target for at in range(1, count + 1) for target in paper.links(at)]
    inside = [target for target in targets if not re.match("[a-z]+:", target)]
    assert len(inside) > 500 and set(inside) <= set(paper.places)
    home = pdf.words_of()["home"]
    away = {target for target in targets if target.startswith(f"{home}book/")}
    kept = {f"{home}{page}.html" for page in PRINTED}
    assert not {target.partition("#")[0] for target in away} & kept, "it is in the book itself"


def test_a_page_that_does_not_exist_is_refused_before_any_work(tmp_path):
    with pytest.raises(SystemExit, match="there is no page book/99-nothing"):
        pdf.main(["--site", str(SITE), "--output", str(tmp_path / "x.pdf"), "book/99-nothing"])
    with pytest.raises(SystemExit, match="there is no website"):
        slides.main(["--site", str(tmp_path), "--to", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_what_is_printed_of_one_page_hides_no_picture(tab):
    tab.goto(f"{(SITE / SAMPLE).as_uri()}.html")
    tab.emulate_media(media="print")
    hidden = """[...document.querySelectorAll("article figure img")].filter(image =>
        !image.closest(".solution, details:not([open])") && !image.checkVisibility()
    ).map(image => image.src)"""
    assert tab.evaluate(hidden) == []
    for selector in (".bd-sidebar-primary", ".bd-header-article", ".buttons"):
        assert not any(node.is_visible() for node in tab.locator(selector).all()), selector


# ---- shared and cited ----


def test_a_shared_chapter_has_a_title_a_question_and_a_picture():
    for page in [*ROAD, "book/index"]:
        told = {
            tag["property"]: tag["content"] for tag in read(page).select("meta[property^='og:']")
        }
        assert told["og:title"] and len(told["og:description"]) > 15, page
        assert told["og:url"].startswith("https://") and "og:image" in told, page
        stored = ROOT / "book/_static/cards" / Path(urlsplit(told["og:image"]).path).name
        assert stored.stem == Path(page).name, page
        assert (SITE / "_static/cards" / stored.name).read_bytes() == stored.read_bytes()


def test_cards_are_small_and_of_the_size_that_is_asked_for():
    stored = sorted((ROOT / "book/_static/cards").glob("*.png"))
    assert {path.stem for path in stored} >= {Path(page).name for page in [*ROAD, "book/index"]}
    for path in stored:
        data = path.read_bytes()
        assert len(data) <= cards.HEAVIEST, path.name
        assert data[:4] == b"\x89PNG" and data[16:24] == (1200).to_bytes(4, "big") + (630).to_bytes(
            4, "big"
        )


def test_the_map_of_the_site_lists_every_page_once():
    space = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    found = [node.text for node in xml.parse(SITE / "sitemap.xml").findall("s:url/s:loc", space)]
    root = found[0]
    names = [address.removeprefix(root) for address in found]
    assert len(names) == len(set(names)) and root.startswith("https://")
    assert set(names) - {""} == {f"{page}.html" for page in [*FILES[1:], "genindex"]}
    assert f"Sitemap: {root}sitemap.xml" in (SITE / "robots.txt").read_text("utf-8")


def test_an_address_that_is_gone_offers_chapters_and_a_search(tab):
    text = (SITE / "404.html").read_text("utf-8")
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    name = config["repository"]["url"].rpartition("/")[2]
    tab.route("**/*", lambda route: route.fulfill(status=404, body=text, content_type="text/html"))
    tab.goto(f"https://attnbook.github.io/{name}/book/old/multi-head-attention.html")
    search = tab.locator("#search")
    assert search.inner_text() == "Search for “multi head attention”"
    links = [node.get_attribute("href") for node in tab.locator("a").all()]
    for link in links:
        path = urlsplit(link).path.removeprefix(f"/{name}/")
        assert link.startswith(f"/{name}/") and (SITE / (path or "index.html")).exists(), link
    assert len(links) >= 3 + len(ROAD)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_chapter_says_how_to_cite_it(chapter):
    fold = read(chapter).select_one("details.cite")
    entry = fold.select_one("pre").get_text()
    assert entry.startswith("@incollection{attnbook") and entry.count("{") == entry.count("}")
    title = read(chapter).h1.get_text().rpartition(". ")[2].rstrip("#").strip()
    assert title in entry and f"{chapter}.html" in entry
    assert read(chapter).select_one("link[rel=canonical]")["href"].endswith(f"{chapter}.html")


# ---- the front door ----


def test_the_landing_page_plays_leads_to_every_chapter_and_proves_what_it_says():
    body = read("book/index").select_one("article.bd-article")
    assert body.find(re.compile("^attn-")), "no explorable"
    stops = [link["href"] for link in body.select("nav.stops a")]
    assert stops == [f"{Path(page).name}.html" for page in ROAD]
    for link in body.select("nav.stops a"):  # its picture, its question, its time: each once
        picture = SITE / "book" / link.img["src"]
        assert picture.exists() and picture.stat().st_size < 15_000, picture.name
        name, question, time = link.b, link.find_all("span")[-1], link.small
        assert re.match(r"\d+ \w", name.get_text()) and question.get_text().endswith("?")
        assert re.fullmatch(r"\d+ min", time.get_text())
    assert len(body.select("table")) == 0, "the chapters stand there once"
    assert len(body.select(".front-buttons details a")) == len(ROAD)
    assert re.search(
        r"First reading \(\d+ h to read, \d+ h more with every exercise\)", body.get_text()
    )
    said = body.select_one("ul.proof").get_text()
    cells = 0
    for path in [*ROOT.glob("book/*.ipynb"), *ROOT.glob("labs/*.ipynb")]:
        cells += sum(
            cell["cell_type"] == "code" for cell in json.loads(path.read_text("utf-8"))["cells"]
        )
    assert f"{cells:,} cells" in said


def test_the_landing_page_is_light(tab):
    """What is fetched, as a server sends it: text compressed, pictures as they are."""
    import gzip

    tab.goto((SITE / "book/index.html").as_uri())
    tab.wait_for_load_state("load")
    weight = {}
    for address in set(tab.asked):
        path = Path(urlsplit(address).path)
        if address.startswith("file:"):
            data = path.read_bytes()
            packed = path.suffix in (".png", ".webp", ".woff", ".woff2", ".gz")
            weight[path.name] = len(data if packed else gzip.compress(data, 6))
    assert sum(weight.values()) <= 250_000, sorted(weight.items(), key=lambda each: -each[1])[:8]
    assert tab.trouble == []


def test_labs_name_the_sections_that_they_stand_on():
    for lab in (file for file in FILES if file.startswith("labs/student/")):
        questions = [
            tag
            for tag in read(lab).select("article section")
            if re.search(r"Question \d", tag.find(["h1", "h2"]).get_text())
        ]
        named = [q for q in questions if q.find(string=re.compile("Taught in"))]
        own = 1 if "/12-" in lab else 0  # the capstone introduces its score itself
        assert len(named) >= min(8, len(questions)) - own > 0, lab
        for link in read(lab).select("em:-soup-contains('Taught in') ~ a"):
            assert link["href"].startswith("../../book/") and "#sec-" in link["href"], link["href"]
