"""The built site is complete, links to what exists and asks nothing of any other host."""

import ast
import json
import re
import statistics
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from built_site import CHAPTERS, FILES, ROOT, SITE, built, read

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
FORMULAS = CONFIG["sphinx"]["config"]["mathjax3_config"]["loader"]["load"]
MAIN = [file for file in CHAPTERS if "deeper" not in file]
LABS = [file for file in FILES if file.startswith("labs/student/")]
PAGES = [*FILES, "search", "genindex"]
LOADS = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}
FETCHED = {"stylesheet", "preload", "icon", "shortcut", "preconnect", "dns-prefetch", "manifest"}

pytestmark = built


def by(name, pages):
    """A case for each page; all of a page's come one after the other, so it is parsed once."""
    return pytest.mark.parametrize(name, pages, ids=str, scope="module")


@cache
def targets(file):
    """All ids of a page, which every other asks for: without parsing it."""
    text = re.sub(r"<script\b.*?</script>", "", file.read_text("utf-8"), flags=re.DOTALL)
    return set(re.findall(r'<[^<>]*\sid="([^"]+)"', text))


def article(page):
    return read(page).select_one("article.bd-article")


def loaded(soup):
    """Every address that the page's markup makes a browser fetch by itself."""
    for name, attribute in LOADS.items():
        yield from (tag[attribute] for tag in soup.find_all(name) if tag.get(attribute))
    yield from (tag["href"] for tag in soup.find_all("link") if FETCHED & set(tag.get("rel", [])))


@by("page", PAGES)
def test_what_a_page_loads_lies_beside_it(page):
    for address in loaded(read(page)):
        parts = urlsplit(address)
        assert not parts.scheme and not parts.netloc, f"{page} loads {address}"
        file = (SITE / f"{page}.html").parent / unquote(parts.path)
        assert file.exists(), f"{page} loads {address}, which is not there"


@by("page", PAGES)
def test_a_link_into_the_site_leads_somewhere(page):
    for link in read(page).select("a[href]"):
        parts = urlsplit(link["href"])
        if parts.scheme or parts.netloc:
            continue
        file = SITE / f"{page}.html"
        file = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        assert file.exists(), f"{page}: {link['href']}"
        if parts.fragment and file.suffix == ".html":
            assert unquote(parts.fragment) in targets(file), f"{page}: {link['href']}"


PREFIXED = re.compile(r"(?<![\w-])-(?:webkit|moz|ms)-([a-z-]+) *:")
COMMON = {"line-clamp", "box-orient"}  # which every browser knows by the prefixed name


def test_no_style_is_for_one_browser_alone():
    """What one browser calls by a name of its own is said in the common name, too."""
    found = 0
    for folder in ("book/_static", "book/_ext/scripts", "src/bookkit"):
        for file in sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".css", ".js")):
            for rule in re.findall(r"\{[^{}]*\}", file.read_text("utf-8")):
                for name in set(PREFIXED.findall(rule)) - COMMON:
                    found += 1
                    assert re.search(rf"(?<![\w-]){name} *:", rule), f"{file.name}: {name}"
    assert found


@by("page", FILES)
def test_every_image_says_in_words_what_it_shows(page):
    for image in article(page).find_all("img"):
        words, door = image.get("alt", ""), image.find_parent("a")
        if words == "" and door and door.get_text(strip=True):
            continue  # beside words that say where it leads
        assert " " in words.strip(), f"{page}: {image['src']} has the alt text {words!r}"


@by("page", FILES)
def test_nothing_of_the_markup_shows_through(page):
    apart = set(map(id, article(page).select("pre, code, .math")))
    strings = article(page).strings
    text = "".join(s for s in strings if not any(id(above) in apart for above in s.parents))
    marks = re.findall(r"\{[a-z:-]+\}`|:::|\$\$|\]\(|\bTODO\b", text)
    assert not marks, f"{page} shows {marks}"


@by("page", FILES)
def test_no_page_needs_a_widget_runtime_or_a_server(page):
    scripts = " ".join(map(str, read(page).find_all("script")))
    for name in ("widget-state", "widget-view", "html-manager", "require", "THEBE_JS_URL"):
        assert name not in scripts, f"{page} carries {name}"


@by("notebook", CHAPTERS + LABS)
def test_colab_opens_the_notebook_of_the_repository_in_the_configuration(notebook):
    repository = CONFIG["repository"]["url"].removeprefix("https://github.com/")
    address = (
        f"{CONFIG['launch_buttons']['colab_url']}/github/{repository}/blob/main/{notebook}.ipynb"
    )
    assert read(notebook).select_one(f'.buttons a.colab[href="{address}"]')
    if "deeper" in notebook:  # its chapter leads to it, the landing page to its chapter
        return
    list_of_all = FILES[0] if notebook in CHAPTERS else "book/teaching"
    assert read(list_of_all).select_one(f'article a[href="{address}"]'), f"not in {list_of_all}"


def written(lab):
    """A lab's questions that are answered in words: their headings name no function."""
    heads = [head for head in article(lab).select("h2") if head.get_text().startswith("Question")]
    assert heads
    return [head for head in heads if not head.select("code")]


def test_the_site_has_every_lab_as_students_get_it_and_no_source():
    copies = sorted(path.stem for path in ROOT.glob("labs/student/*.ipynb"))
    assert (
        copies
        == [Path(file).stem for file in LABS]
        == sorted(path.stem for path in ROOT.glob("labs/*.ipynb"))
    )
    assert not [*SITE.glob("labs/*.html"), *SITE.rglob("_sources/labs/*.ipynb*")]
    for lab in LABS:
        cells = article(lab).select("div.cell")
        assert cells and not article(lab).select(".cell_output")
        assert "Replace each ..." in article(lab).get_text()
        assert ("Write your answer here" in article(lab).get_text()) == bool(written(lab))


@by("chapter", MAIN)
def test_a_chapter_has_numbered_equations_captioned_figures_and_folded_solutions(chapter):
    body = article(chapter)
    assert re.match(r"\d+\. ", body.h1.get_text())
    assert body.select(".math .eqno") or body.select('[id^="equation-"]')
    assert body.select("figure :is(img, svg)") and all(
        f.select_one("figcaption") for f in body.select("figure")
    )
    exercises, solutions = body.select(".exercise"), body.select(".solution")
    open_ended = [one for one in exercises if "(Open:" in one.get_text()]
    answered = len(solutions)  # an open exercise may have one, all others must
    assert max(1, len(exercises) - len(open_ended)) <= answered <= len(exercises)
    assert all(fold.name == "details" and not fold.has_attr("open") for fold in solutions)


@by("chapter", CHAPTERS)
def test_the_cell_that_installs_is_not_shown(chapter):
    assert "%pip" not in article(chapter).get_text()


SHOWN = r"^\*\*`((?:attnbook|bookkit|attnlabs)\.[\w.]+)`\*\*$"


def shown(chapter):
    """The full names that `show` has written into a chapter's stored outputs."""
    for cell in json.loads((ROOT / f"{chapter}.ipynb").read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            text = "".join(output.get("data", {}).get("text/markdown", ""))
            yield from re.findall(
                r"^\*\*`((?:attnbook|bookkit|attnlabs)\.[\w.]+)`\*\*$", text, re.MULTILINE
            )


@by("chapter", CHAPTERS)
def test_each_shown_name_is_a_link_to_its_entry_in_the_reference(chapter):
    """That the entry is there is checked with all other links."""
    links = article(chapter).select(".cell_output p > strong > a.reference[href]")
    found = [link.get_text() for link in links]
    assert found == list(shown(chapter))
    for link in links:
        page, _, anchor = link["href"].partition("#")
        assert page.startswith("reference/") and anchor == link.get_text()


def letters(text):
    """A text without what typesetting changes: quotes, spaces, code marks."""
    return re.sub(r"\W", "", text)


def documented(path):
    """What the reference owes to a file of the module: full names, and how docstrings begin."""
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for node in ast.parse(path.read_text("utf-8")).body:
        said = isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)
        if said and not node.name.startswith("_"):
            yield f"{module}.{node.name}", letters(said)[:12]


def test_the_reference_has_each_documented_definition_of_the_module_once():
    pages = [article(file) for file in FILES if file.startswith("book/reference/")]
    entries = [tag for page in pages for tag in page.select("dl.py > dt[id]")]
    names = [tag["id"] for tag in entries]
    assert len(names) == len(set(names))
    texts = {tag["id"]: letters(tag.find_next_sibling("dd").get_text()) for tag in entries}
    for path in ROOT.glob("src/attnbook/**/*.py"):
        for name, start in documented(path):
            assert name in texts, f"{name} has no entry: is {path.name} on a page of the reference?"
            assert texts[name].startswith(start), name


def test_a_signature_in_the_reference_has_its_shapes():
    (entry,) = article("book/reference/attention").select('[id="attnbook.attention.attend"]')
    text = " ".join(entry.get_text().split())
    assert 'q: Float[Tensor, "*batch Tq Dq"]' in text and 'mask: Bool[Tensor, "..."]' in text
    (link,) = entry.find_next_sibling("dd").select("p.source a")
    assert link["href"].startswith(
        f"{CONFIG['repository']['url']}/blob/main/src/attnbook/attention.py#L"
    )
    first = int(re.search(r"#L(\d+)-L\d+$", link["href"])[1])
    assert (
        (ROOT / "src/attnbook/attention.py")
        .read_text("utf-8")
        .split("\n")[first - 1]
        .startswith("def attend(")
    )


def test_the_glossary_gives_a_chinese_term_beside_every_english_one():
    for definition in article("book/glossary").select("dl.glossary dd"):
        chinese, english = definition.find_previous_siblings("dt")[:2]
        assert re.search("[\u4e00-\u9fff]", chinese.get_text()), english.get_text()
        assert re.match("[A-Za-z]", english.get_text())


# Where the files in a folder of results/ have the numbers that "Your run, and ours" shows.
NUMBERS = {
    "characters": lambda run: [loss for m in run["models"].values() for loss in m["losses"]],
    "translation": lambda run: [run[name] for name in ("bleu", "bleu_beams") if name in run],
    "shakespeare": lambda run: [run["validation_loss"]],
    "images": lambda run: [100 * run["test_accuracy"]],
    "tweaks": lambda run: [each["report"] for each in run["runs"]],
    "scaling": lambda run: [run["validation_loss"]],
    "leaderboard": lambda run: [run["nats_per_byte"]],
    "grading": lambda run: [run["seconds"]],
}


FOLDERS = sorted({path.parent for path in ROOT.glob("results/*/*.json")})


def stored(folder):
    return [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")]


def column(table, number):
    return [row.find_all("td")[number].get_text() for row in table.select("tbody tr")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_your_run_and_ours_shows_what_is_stored(folder):
    runs, table = stored(folder), article("book/your-run").select_one(f".measured-{folder.name}")
    assert table, f"the page shows nothing of results/{folder.name}"
    if folder.name == "notebooks":
        expected = {(run["notebook"], f"{run['cpu_seconds']:.0f} s") for run in runs}
        assert set(zip(column(table, 0), column(table, 2), strict=True)) == expected
        assert set(MAIN) <= {f"book/{name}" for name in column(table, 0)} <= set(CHAPTERS)
        return
    if folder.name == "speedrun":  # five seeds a row: their mean and spread
        seeds = [[each["validation_loss"] for each in run.get("runs", [run])] for run in runs]
        means = sorted(f"{statistics.mean(each):.3f}" for each in seeds)
        assert sorted(cell.split(" ")[0] for cell in column(table, 1)) == means
        return
    shown = ", ".join(column(table, 1)).split(", ")
    digits = len(shown[0].partition(".")[2])
    numbers = [number for run in runs for number in NUMBERS[folder.name](run)]
    assert sorted(shown) == sorted(f"{number:.{digits}f}" for number in numbers)
    commands = table.find_next("pre").get_text().strip().split("\n")
    given = {run["provenance"]["command"] for run in runs}
    assert set(commands) in (given, {f"python results/{folder.name}.py"})


# The topics of a course: a letter and how many, chapter by chapter.
COUNTS = 12, 9, 14, 7, 4, 12, 5, 4, 5, 9, 5, 5, 7, 7, 3, 8, 5, 5
ELSEWHERE = "I7", "D1", "F4"  # a part of these is told in another chapter
TOPICS = dict(zip("RSQOMTLVWCXYIPDAFN", COUNTS, strict=True))


def test_each_topic_of_a_course_leads_to_a_section_of_its_chapter():
    """That the section is there is checked with all other links."""
    expected = [
        (f"{letter}{n + 1}", f"{number:02}-")
        for number, (letter, count) in enumerate(TOPICS.items(), start=1)
        for n in range(count)
    ]
    rows = [row.find_all("td") for row in article("book/lectures-map").select("tbody tr")]
    rows = [row for row in rows if re.fullmatch(r"[A-Z]\d+", row[0].get_text())]
    assert [row[0].get_text() for row in rows] == [topic for topic, _ in expected]
    for (topic, chapter), (_, words, where) in zip(expected, rows, strict=True):
        links = [link["href"].partition("#") for link in where.find_all("a")]
        assert words.get_text() and links, topic
        own = all(page[:3] == chapter for page, _, _ in links)
        assert own or topic in ELSEWHERE, topic
        assert all(anchor for _, _, anchor in links), topic


def test_only_written_chapters_are_linked_from_the_landing_page():
    doors = article(FILES[0]).select("li > a:has(.frame)")
    assert len(doors) == 18 == len(MAIN)
    assert ["book/" + door["href"].removesuffix(".html") for door in doors] == MAIN


def test_a_formula_can_be_set_without_a_network():
    mathjax, parts = SITE / "_static/mathjax", ["startup", "ui/menu", *FORMULAS]
    assert all((mathjax / f"{part}.js").exists() for part in parts)
    assert len(list((mathjax / "output/chtml/fonts/woff-v2").glob("*.woff"))) == 23
    assert (mathjax / "input/tex/extensions/boldsymbol.js").exists()


def test_the_search_index_knows_words_and_terms():
    text = (SITE / "_static/sections.js").read_text("utf-8")
    index = json.loads(text.removeprefix("attnSections(").rstrip(")\n"))
    assert {page for page, _ in index["pages"]} == set(FILES)
    assert "attent" in index["words"] and "softmax" in index["phrases"]
