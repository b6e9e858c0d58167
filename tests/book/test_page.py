"""What the website makes of a notebook: a small book with every directive, built once."""

import base64
import io
import re
import sys
from pathlib import Path

import measured_tables
import nbformat
import normal_form
import numpy as np
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from bookkit.page.measured import measured

ROOT = Path(__file__).parents[2]
pytest.importorskip("myst_nb")
sys.path.append(str(ROOT / "book/_ext"))
import light_pictures  # noqa: E402
import used_styles  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.errors import ExtensionError  # noqa: E402

THEME = {
    "repository_url": "https://github.com/someone/somewhere",
    "repository_branch": "main",
    "launch_buttons": {"colab_url": "https://colab.example"},
}
CONFIG = {
    "extensions": [
        "myst_nb",
        "sphinx_exercise",
        "small_site",
    ],
    "myst_enable_extensions": ["colon_fence"],
    "nb_execution_mode": "off",
    "numfig": True,
    "html_theme": "basic",
    "html_sourcelink_suffix": "",
    "html_theme_options": THEME,
    "suppress_warnings": ["theme"],
}


def picture(width, height, dots):
    out = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(out, "PNG", dpi=(dots, dots))
    return base64.b64encode(out.getvalue()).decode()


def stored_size(data):
    """As figures of the module store it; those of other programs have none."""
    raw = base64.b64decode((data or {}).get("image/png", ""))
    width, height = Image.open(io.BytesIO(raw)).size if raw else (0, 0)
    return {"width": width, "height": height} if width == 90 else None


def code(name, source, *tags, data=None, figure=None):
    about = {"image/png": size} if (size := stored_size(data)) else {}
    shown = {"text/plain": "it"} | (data or {})
    outputs = [new_output("display_data", shown, metadata=about)] if data else []
    about = {"tags": list(tags)}
    if figure:
        about["mystnb"] = {"figure": {"caption": f"This is {figure}.", "name": figure}}
    return new_code_cell(source, id=name, metadata=about, outputs=outputs)


def words(name, text):
    return new_markdown_cell(text, id=name)


def html_of(table):
    return {"text/html": table._repr_html_()}


# Below a page, as `_toc.yml` would put it; 440 words and two pictures are 2 min 40 s.
TOC = "\n\n```{toctree}\n:hidden:\n01-deeper\n```"
FIRST = [
    code("install", "%pip install it", "remove-cell"),
    words(
        "title",
        """# One

:::{chapter}
**Why look *twice*?**

You will be able to

- do this
- do that

Needs [two](02-two.ipynb)
:::""",
    ),
    code("imports", "import torch", "set-up"),
    code("style", "style()", "set-up", data={"text/plain": "cpu"}),
    code(
        "drawing", "draw()", "remove-input", data={"image/png": picture(200, 100, 256)}, figure="a"
    ),
    words("text", "Two words. " * 220),
    words("ask", ":::{predict}\n**Predict.** Which?\n\n- the one\n- the *other*\n:::"),
    code(
        "see",
        "# @title Plot\nplot()",
        "plot",
        "answer",
        data={"image/png": picture(90, 60, 128)},
        figure="b",
    ),
    words("say", ":::{answer}\n<!-- right: 2 -->\n**Answer.** The other.\n:::\n\nAnd now on."),
    code("helps", 'def f():\n    """Twice `x`."""', "helper"),
    code("holds", "# it is so\nassert x", "check"),
    code("numbers", "measured()", data=html_of(measured({"a": [1, 2], "b": 3}, name="t"))),
    words("result", ":::{result}\n**Result.** It is {n}`t: a`, from {n}`t: a | seeds`.\n:::"),
    words(
        "others", ":::{pitfall}\n**Pitfall.** Not so.\n:::\n\n:::{history}\n**History.** 1950.\n:::"
    ),
    words("more", ":::{deeper} How deep\n:minutes: 7\n\nVery.\n:::"),
    words(
        "ex",
        ":::{exercise} Try\n:label: ex\n:class: stars-2 minutes-15\n\nDo.\n:::\n\n"
        ":::{solution-start} ex\n:class: dropdown\n:::\n\nDone.\n",
    ),
    code("solved", "x = 1"),
    words("end", ":::{solution-end}\n:::\n\n## In short\n\n:::{summary}\n:::" + TOC),
    code(
        "listing",
        "show(f)",
        "listing",
        data={"text/markdown": "```python\n" + "x = 1\n" * 30 + "```"},
    ),
]
DEEPER = [
    words("title", "# Deeper: how far\n\nFrom the text: {n}`t: b`."),
    code("far", "plot()", "plot", data={"image/png": picture(90, 60, 128)}, figure="c"),
]
SECOND = [
    words("title", "# Two"),
    code("last", "plot()", "plot", data={"image/png": picture(90, 60, 128)}, figure="d"),
]


def build(folder, pages):
    (folder / "book").mkdir(parents=True)
    for name, cells in pages.items():
        notebook = normal_form.normal(new_notebook(cells=cells))
        nbformat.write(notebook, folder / f"book/{name}.ipynb")
    roads = "\n".join(f"book/{name}" for name in pages if "deeper" not in name)
    index = f"# All\n\n```{{toctree}}\n:numbered: 2\n\n{roads}\n```\n"
    (folder / "index.md").write_text(index)
    said = io.StringIO()
    app = Sphinx(
        str(folder),
        None,
        str(folder / "html"),
        str(folder / "trees"),
        "html",
        confoverrides=CONFIG,
        status=None,
        warning=said,
    )
    app.build()
    return said.getvalue()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    warnings = build(folder, {"01-one": FIRST, "01-deeper": DEEPER, "02-two": SECOND})
    assert not [
        line for line in warnings.splitlines() if "theme option" not in line and line.strip()
    ]
    return folder / "html"


@pytest.fixture(scope="module")
def page(site):
    return BeautifulSoup((site / "book/01-one.html").read_text(), "html.parser")


def text(node):
    return " ".join(node.get_text().split())


def test_the_first_screen_is_in_its_order(page):
    opening = page.select_one(".opening")
    assert [" ".join(part["class"]) for part in opening.find_all(recursive=False)] == [
        "question",
        "picture",
        "abilities docutils container",
        "facts",
        "buttons d-print-none",
    ]
    assert text(opening.select_one(".question")) == "Why look twice?"
    assert [text(line) for line in opening.select(".able li")] == ["do this", "do that"]
    assert text(opening.select_one(".facts")) == "3 min to read · Needs two"
    assert opening.select_one(".facts a")["href"] == "02-two.html"
    assert opening.select_one(".picture figure#a img")


def test_the_buttons_lead_to_colab_to_the_file_and_to_slides(page, site):
    colab, download, present = page.select(".buttons a")
    at = "https://colab.example/github/someone/somewhere/blob/main/book/01-one.ipynb"
    assert colab["href"] == at and present["href"] == "?present"
    assert (site / "book" / download["href"]).exists()
    other = BeautifulSoup((site / "book/02-two.html").read_text(), "html.parser")
    assert len(other.select("h1 + .buttons a")) == 3, "a notebook without an opening has them, too"


def test_set_up_is_one_closed_fold_and_no_import_is_in_sight(page):
    (fold,) = page.select("details.set-up")
    assert text(fold.summary) == "Set-up" and not fold.has_attr("open")
    assert "import torch" in fold.get_text() and "cpu" in fold.get_text()
    for part in page.select("details"):
        assert not part.has_attr("open")
    assert "%pip" not in page.get_text()


def test_a_prediction_hides_its_answer(page):
    box = page.select_one(".predict")
    assert text(box.select_one(".box-title")) == "Predict"
    assert text(box.p.find_next_sibling("p")) == "Which?"
    assert [text(label) for label in box.select("label")] == ["the one", "the other"]
    assert len({radio["name"] for radio in box.select("input[type=radio]")}) == 1
    assert [label.has_attr("data-right") for label in box.select("label")] == [False, True]
    assert "right: 2" not in str(page)
    answer = box.select_one("details.compare")
    assert text(answer.summary) == "Compare"
    assert answer.select_one("figure#b") and "The other." in text(answer)
    assert "And now on." not in text(box)


def test_labels_say_what_a_fold_holds(page):
    labels = [text(part) for part in page.select(".cell > details > summary")]
    assert labels == ["</>Code of this figure", "Twice x", "✓ checked: it is so"]
    assert page.select_one(".tag_helper summary code").get_text() == "x"
    assert "@title" not in page.get_text()


def test_boxes_have_their_titles(page):
    for kind in ("result", "pitfall", "history"):
        box = page.select_one(f".box.{kind}")
        assert text(box.select_one(".box-title")) == kind.capitalize()
        assert text(box).count(kind.capitalize()) == 1
    assert page.select_one(".history").name == "aside"
    assert text(page.select_one("details.deeper > summary")) == "Deeper How deep 7 min"


def test_the_text_quotes_the_stored_numbers(page, site):
    assert "It is 1.50, from 1.00 and 2.00." in text(page.select_one(".result"))
    assert "From the text: 3.00." in text(
        BeautifulSoup((site / "book/01-deeper.html").read_text(), "html.parser")
    )


def test_the_summary_repeats_the_results_and_leads_back(page):
    (line,) = page.select("ul.summary li")
    assert text(line) == "It is 1.50, from 1.00 and 2.00. ↑"
    assert page.select_one(line.a["href"]) is page.select_one(".result")


def test_exercises_show_stars_and_minutes_and_solutions_are_folds(page):
    title = page.select_one(".exercise .admonition-title")
    assert text(title) == "Exercise 1.1 (Try) ★★☆ 15 min"
    assert title.select_one("[role=img]")["aria-label"] == "difficulty 2 of 3"
    solution = page.select_one("details.solution")
    assert text(solution.summary) == "Solution" and "x = 1" in solution.get_text()


def test_a_long_listing_is_clipped_and_says_how_long_it_is(page):
    clip = page.select_one(".clip")
    assert text(clip.label) == "Whole listing (30 lines)" and clip.get_text().count("x = 1") == 30


def test_figures_go_on_counting_on_deeper_pages(site):
    def captions(name):
        soup = BeautifulSoup((site / f"book/{name}.html").read_text(), "html.parser")
        return [text(part) for part in soup.select(".caption-number")]

    assert captions("01-one") == ["Fig. 1.1", "Fig. 1.2", "Exercise 1.1"]
    assert captions("01-deeper") == ["Fig. 1.3"]
    assert captions("02-two") == ["Fig. 2.1"]


def test_a_chapter_ends_with_the_next_one_and_its_deeper_pages(site):
    def links(name):
        soup = BeautifulSoup((site / f"book/{name}.html").read_text(), "html.parser")
        heads = soup.select("head link[rel]")
        found = {
            link["rel"][0]: link["href"] for link in heads if link["rel"][0] in ("prev", "next")
        }
        return found, [link["href"] for link in soup.select(".deeper-pages a")]

    found, deeper = links("01-one")
    assert found["next"] == "02-two.html" and deeper == ["01-deeper.html"]
    assert links("02-two")[0]["prev"] == "01-one.html"
    assert links("01-deeper") == ({"prev": "01-one.html", "next": "02-two.html"}, [])


def test_the_list_of_deeper_pages_says_so_once(page):
    assert text(page.select_one(".deeper-pages p")) == "Deeper: 1 page"
    (name,) = (text(link) for link in page.select(".deeper-pages a"))
    assert name.endswith("How far") and "Deeper" not in name


def test_an_old_address_knows_where_its_anchor_went(site):
    moved = (site / "_static/moved.js").read_text()
    assert '"book/01-one#c": "book/01-deeper"' in moved and '"c": "book/01-deeper"' in moved


def test_a_figure_has_its_size_before_it_is_there(page):
    sizes = [(image["width"], image["height"]) for image in page.select("figure img")]
    assert sizes == [("100", "50"), ("90", "60")]
    assert [image.get("loading") for image in page.select("figure img")] == [None, "lazy"]
    styles = [image.get("style", "") for image in page.select("figure img")]
    assert not [style for style in styles if "px" in style], "it would be bent on a phone"


def test_a_plot_is_sent_as_webp_with_every_dot_as_it_was(page, site):
    sources = [image["src"] for image in page.select("figure img")]
    assert all(source.endswith(".webp") for source in sources)
    for source, size in zip(sources, [(200, 100), (90, 60)], strict=True):
        with Image.open(site / "book" / source) as shown:
            assert shown.size == size and shown.convert("RGB").getcolors() == [
                (size[0] * size[1], (255, 255, 255))
            ]
    assert not list((site / "_images").glob("*.png"))
    links = [link["href"] for link in page.select("a.image-reference")]
    assert all((site / "book" / link).exists() for link in links)


def test_a_photograph_keeps_its_dots_and_nearly_its_colours(tmp_path):
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0:200, 0:300]
    smooth = 120 + 60 * np.sin(rows / 23)[..., None] * np.cos(columns / 31)[..., None]
    dots = (smooth + rng.normal(0, 4, (200, 300, 3))).clip(0, 255).astype(np.uint8)
    Image.fromarray(dots).save(tmp_path / "it.png")
    assert light_pictures.lighter(tmp_path / "it.png", tmp_path / "it.webp")
    shown = np.asarray(Image.open(tmp_path / "it.webp").convert("RGB")).astype(float)
    assert shown.shape == dots.shape and np.sqrt(((shown - dots) ** 2).mean()) < 4
    assert (tmp_path / "it.webp").stat().st_size < (tmp_path / "it.png").stat().st_size / 2


def test_a_picture_that_would_not_get_lighter_stays_as_it_is(tmp_path):
    Image.new("L", (1, 1)).save(tmp_path / "it.png")
    heavy = (tmp_path / "it.png").stat().st_size
    changed = light_pictures.lighter(tmp_path / "it.png", tmp_path / "it.webp")
    assert changed == (tmp_path / "it.webp").exists()
    assert not changed or (tmp_path / "it.webp").stat().st_size < heavy
    assert not list(tmp_path.glob("*.draft"))


SHEET = """@charset "utf-8"; /* {.gone} */ :root { --a: url(data:x;y) }
.kept > a:not(.gone), .gone .kept { color: red; content: "}" } .gone{color:blue}
.made-by-script:hover { top: 0 } :is(.gone, p) { left: 0 }
@media print { .gone { top: 1px } @supports (top: 0) { .kept { top: 2px } } }
@media screen { .gone { top: 3px } } @font-face { font-family: X; src: url("x.woff") }
[data-x=".gone"] { top: 4px } .sd\\:col { top: 5px }"""


def test_of_a_style_sheet_the_rules_stay_that_something_on_the_site_needs(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/x.js").write_text('node.className = "made-by-" + what')
    (tmp_path / "a.html").write_text('<p class="kept other">')
    known = used_styles.classes(tmp_path)
    assert known("kept") and known("made-by-script") and not known("gone")
    said = used_styles.used(SHEET, known)
    assert said.startswith('@charset "utf-8";:root{--a: url(data:x;y)}')
    assert '.kept > a:not(.gone){color: red; content: "}"}' in said
    assert "@media print{@supports (top: 0){.kept{top: 2px}}}" in said and "3px" not in said
    assert "blue" not in said and ".gone .kept" not in said
    for kept in (".made-by-script:hover", ":is(.gone, p)", "@font-face", '[data-x=".gone"]', "5px"):
        assert kept in said, kept


WRONG = [
    ("# X\n\n:::{chapter}\n**No question.**\n\n- a\n- b\n:::", "has no question mark"),
    ("# X\n\n:::{chapter}\n**Why?**\n:::", "in a list of two to four"),
    ("# X\n\n:::{predict}\nWhich?\n\n- only one\n:::", "two to four choices, not 1"),
    ("# X\n\nIt is {n}`t: a`.", "no measured number 't: a'; there: none"),
]
STOPS = [
    ("# X\n\n:::{answer}\nYes.\n:::", "an answer follows a prediction"),
    ("# X\n\n:::{summary}\n:::", "a summary needs result boxes"),
    (
        "# X\n\n:::{predict}\nWhich?\n\n- a\n- b\n:::\n\n:::{answer}\n<!-- right: 3 -->\nB.\n:::",
        "right is one of 2, not 3",
    ),
    (
        "# X\n\n:::{chapter}\n:picture: fig-x\n\n**Why?**\n\n- a\n- b\n:::",
        "the opening's picture fig-x is no figure",
    ),
]


def test_what_is_wrong_is_said_while_building(tmp_path):
    pages = {f"0{n}-x": [words("title", source)] for n, (source, _) in enumerate(WRONG)}
    warnings = build(tmp_path, pages)
    for _, said in WRONG:
        assert said in warnings


def test_an_opening_repeats_a_plot_with_ids_of_its_own(tmp_path):
    plot = '<div class="drawing plot"><svg id="p0123abcdw"><g id="p0123abcdw0"></g></svg></div>'
    opening = "# X\n\n:::{chapter}\n:picture: fig-x\n\n**Why?**\n\n- a\n- b\n:::"
    cell = code("it", "plot()", "plot", data={"text/html": plot}, figure="fig-x")
    build(tmp_path, {"01-x": [words("title", opening), cell]})
    page = BeautifulSoup((tmp_path / "html/book/01-x.html").read_text(), "html.parser")
    assert page.select_one(".opening .picture .plot svg") and len(page.select("svg")) == 2
    ids = [node["id"] for node in page.select("svg, g")]
    assert len(set(ids)) == 4


def test_a_title_is_not_cut_at_a_hyphen(tmp_path):
    build(tmp_path, {"01-x": [words("title", "# Multi-head attention *pre-trained* here")]})
    page = BeautifulSoup((tmp_path / "html/book/01-x.html").read_text(), "html.parser")
    assert [word.text for word in page.select("h1 .whole")] == ["Multi-head", "pre-trained"]
    assert "Multi-head attention pre-trained here" in page.select_one("h1").text
    assert "Multi-head attention" in page.title.text


@pytest.mark.parametrize(("source", "said"), STOPS)
def test_what_is_missing_stops_the_build(tmp_path, source, said):
    with pytest.raises(ExtensionError, match=said):
        build(tmp_path, {"01-x": [words("title", source)]})


def test_a_name_is_used_by_one_table(tmp_path):
    cell = code("numbers", "measured()", data=html_of(measured({"a": 1}, name="t")))
    with pytest.raises(ExtensionError, match="both have a table called 't'"):
        build(tmp_path, {"01-x": [cell], "02-x": [cell]})
    again = code("again", cell.source, data=html_of(measured({"a": 1}, name="t")))
    nbformat.write(new_notebook(cells=[cell, again]), tmp_path / "two.ipynb")
    with pytest.raises(ValueError, match="two tables are called 't'"):
        measured_tables.tables(tmp_path / "two.ipynb")


@pytest.mark.parametrize("path", sorted(ROOT.glob("book/[01]*.ipynb")), ids=lambda path: path.stem)
def test_each_chapter_has_an_opening_set_up_and_no_old_box(path):
    cells = normal_form.read(path).cells
    sources = [cell.source for cell in cells if cell.cell_type == "markdown"]
    if "deeper" not in path.stem:
        assert sources[0].startswith("# ") and ":::{chapter}" in sources[0]
    assert not [s for s in sources if "{admonition} Predict" in s]
    for cell in cells:
        if cell.cell_type == "code" and re.match(r"(# @title.*\n)?(import|from) ", cell.source):
            assert {"set-up", "remove-cell"} & set(cell.metadata.tags), cell.id
