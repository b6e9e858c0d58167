"""The book as one PDF: python tools/pdf.py [--site _build/html] [--output FILE] [PAGE...]

Chromium prints one document joined from the built website: a title page, contents with page
numbers, chapters with what is below them, appendices, glossary and index. It is printed twice: the
first copy says on which page each heading stands. Named pages alone make a selection.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from datetime import date
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from bs4 import Tag
from chromium import browser, say, site_of
from join import joined
from paper import Paper
from toc import pages as all_pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
STYLES = (
    "pygments.css",
    "mystnb.*.css",
    "exercise.css",
    "sphinx-design.min.css",
    "style.css",
    "page.css",
    "find.css",
)
APPENDICES = (
    "derivations",
    "lectures-checked",
    "conventions",
    "notation",
    "glossary",
    "references",
)
FEW = 4096  # colours of what is drawn; a photograph has more
READY = "async () => { await MathJax.startup.promise; await document.fonts.ready }"
FILL = """at => document.querySelectorAll(".contents .at").forEach(node => {
    node.textContent = at[node.dataset.of] ?? "000"
})"""
COUNT = "document.querySelectorAll('mjx-container').length"
Heading = tuple[int, str, str]  # level, id, text


def book(root: Path = ROOT) -> list[str]:
    """The pages of the printed book, in order."""
    found = all_pages(root)
    chapters = [page for page in found if re.match(r"book/\d\d-", page)]
    return (
        chapters + [f"book/{name}" for name in APPENDICES if f"book/{name}" in found] + ["genindex"]
    )


def headings(body: Tag) -> Iterator[Heading]:
    """(level, id, text) of the headings that the contents list: of the page, and its sections."""
    for node in body.select("h1, section > section > h2"):
        section = node.find_parent("section")  # it may begin at the end of the page before
        node["id"] = at = f"{section['id'] if section else body['id']}--heading"
        yield int(node.name[1]), at, " ".join(node.get_text(" ", strip=True).split())


def cover(words: dict[str, str]) -> str:
    """The title page."""
    sys.path.insert(0, str(ROOT / "book/_ext"))
    from glyphs import GLYPHS, glyph

    pictures = "".join(glyph(number) for number in GLYPHS)
    return (
        f'<section class="cover"><h1>{escape(words["title"])}</h1><p>An executable book</p>'
        f'<div class="glyphs">{pictures}</div><p>{escape(words["author"])}</p>'
        f"<p>Edition {escape(words['version'])} · {words['date']}</p>"
        f'<p><a href="{words["home"]}">{words["home"]}</a></p></section>'
    )


def contents(listed: list[Heading]) -> str:
    """The list of contents, with room for the number of each page."""
    lines = []
    for level, target, text in listed:
        kind = "chapter" if level == 1 else "section"
        lines.append(
            f'<li class="{kind}"><a href="#{target}">{escape(text)}</a><span class="dots"></span>'
            f'<span class="at" data-of="{escape(target)}">000</span></li>'
        )
    return f'<section class="contents"><h1>Contents</h1><ol>{"".join(lines)}</ol></section>'


def document(site: Path, bodies: list[str], listed: list[Heading], words: dict[str, str]) -> str:
    """The whole as HTML."""
    sheets = [file for name in STYLES for file in sorted((site / "_static").glob(name))]
    styles = [*sorted((site / "_static/styles").glob("*.css")), *sheets, ROOT / "tools/print.css"]
    links = "".join(f'<link rel="stylesheet" href="{path.as_uri()}"/>' for path in styles)
    mathjax = (site / "_static/mathjax/startup.js").as_uri()
    kinds = "tex2jax_process|mathjax_process|math|output_area"
    parts = {"load": ["core", "input/tex", "output/chtml"]}
    options = json.dumps({"options": {"processHtmlClass": kinds}, "loader": parts})
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head>'
        f'<meta charset="utf-8"/>'
        f"<title>{escape(words['title'])}</title>"
        f'<meta name="author" content="{escape(words["author"])}"/>{links}'
        f"<script>window.MathJax = {options}</script></head><body>"
        f"{cover(words)}{contents(listed)}{''.join(bodies)}"
        f'<script src="{mathjax}"></script></body></html>'
    )


def printable(bodies: list[Tag], folder: Path) -> None:
    """Each plot with all its dots, as the PNG or, a photograph, the JPEG that a PDF can hold."""
    from PIL import Image

    known: dict[Path, Path] = {}
    how: dict[str, Any]
    for body in bodies:
        for image in body.select('img[src$=".webp"]'):
            path = Path(str(image["src"]).removeprefix("file://"))
            if path not in known:
                with Image.open(path) as opened:
                    paper = Image.new("RGBA", opened.size, "white")
                    paper.alpha_composite(opened.convert("RGBA"))
                    plain = paper.convert("RGB")
                    photograph = plain.getcolors(FEW) is None
                    kind, how = (".jpg", {"quality": 92}) if photograph else (".png", {})
                    known[path] = folder / f"{len(known)}-{path.stem}{kind}"
                    plain.save(known[path], **how)
            image["src"] = known[path].as_uri()


def long_code(bodies: list[Tag]) -> None:
    """Code that may be cut by the end of a page; short code may not."""
    for body in bodies:
        for code in body.select(".cell_input"):
            if len(code.get_text().strip().splitlines()) >= 20:
                code["class"] = " ".join([*code.get_attribute_list("class"), "long"])


def opened_at(page: "Page", html: str, path: Path) -> None:
    """Open the document and set its formulas."""
    path.write_text(html, encoding="utf-8")
    page.goto(path.as_uri(), wait_until="load", timeout=0)
    page.evaluate(READY)
    say(f"{page.evaluate(COUNT)} formulas set")


def printed(page: "Page", at: dict[str, int]) -> tuple[bytes, dict[str, int], int]:
    """The PDF of the document, with these numbers of pages in its contents."""
    page.evaluate(FILL, at)
    data = page.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
    paper = Paper(data)
    return data, paper.places, len(paper.pages)


def words_of(root: Path = ROOT) -> dict[str, str]:
    """What the title page says, from the citation file and the configuration."""
    work = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    config = yaml.safe_load((root / "_config.yml").read_text("utf-8"))
    authors = ", ".join(
        each.get("name") or f"{each['given-names']} {each['family-names']}"
        for each in work["authors"]
    )
    home = work["url"].rstrip("/") + "/"
    day = date.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    return {
        "title": config["title"],
        "author": authors,
        "version": work["version"],
        "date": f"{day:%B %Y}",
        "home": home,
    }


def make(site: Path, chosen: list[str], output: Path, opened: "Browser | None" = None) -> int:
    """Print the chosen pages, with a browser that is open if there is one; returns the count."""
    words, bodies = words_of(), []
    for number, name in enumerate(chosen, start=1):
        say(f"page {number} of {len(chosen)}: {name}")
        bodies.append(joined(site, name, set(chosen), words["home"]))
    if "genindex" in chosen:
        for node in bodies[chosen.index("genindex")].select(
            "[id$=--topics], [id$=--names], p.jump"
        ):
            node.decompose()
    listed = [heading for body in bodies for heading in headings(body)]
    folder = output.parent / f".{output.stem}"
    folder.mkdir(parents=True, exist_ok=True)
    printable(bodies, folder)
    long_code(bodies)
    texts = [str(body) for body in bodies]
    with nullcontext(opened) if opened else browser() as opened:
        at: dict[str, int] = {}
        data, count = b"", 0
        for turn in (1, 2, 3):  # the numbers themselves move nothing as a rule: then two are enough
            say(f"printing, {'once' if turn == 1 else 'again, with page numbers'}")
            # Always a new tab: printed twice, one and the same lays some pages out in another way.
            with closing(opened.new_page()) as page:
                page.set_default_timeout(0)
                page.emulate_media(media="print", color_scheme="light")
                opened_at(page, document(site, texts, listed, words), folder / "book.html")
                data, found, count = printed(page, at)
            if found == at:
                break
            at = found
        else:
            raise SystemExit("the pages of the headings do not settle; please report this")
    draft = output.with_suffix(".draft")
    draft.write_bytes(data)
    os.replace(draft, output)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Print the built website as one PDF.")
    parser.add_argument("--site", type=Path, default=ROOT / "_build/html")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "_build/attention-and-transformers.pdf"
    )
    parser.add_argument(
        "pages", nargs="*", help="such as book/05-multi-head-attention; all without"
    )
    options = parser.parse_args(arguments)
    chosen, known = options.pages or book(), [*all_pages(ROOT), "genindex"]
    for name in chosen:
        if name not in known:
            raise SystemExit(f"there is no page {name}; one of them is {known[1]}")
    start, output = time.time(), options.output.resolve()
    count = make(site_of(options.site), chosen, output)
    size = output.stat().st_size / 1e6
    say(f"{output}: {count} pages, {size:.1f} MB, {time.time() - start:.0f} s", last=True)


if __name__ == "__main__":
    main()
