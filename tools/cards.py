"""The pictures that a shared link shows: python tools/cards.py [PAGE...]

1,200 × 630 with the title, the question and the first picture of a chapter, drawn by Chromium from
the built website and stored in book/_static/cards, each with at most 60 kB.
"""

import argparse
import base64
import io
import re
from html import escape
from pathlib import Path

from bs4 import BeautifulSoup
from chromium import browser, say, site_of
from PIL import Image
from playwright.sync_api import Page
from toc import pages

from attnbook import files

ROOT = Path(__file__).parents[1]
SIZE, HEAVIEST = (1200, 630), 60_000
PICTURE = "article :is(.opening .picture :is(figure, .repeated), figure, .front-explorable)"
HIDDEN = "figcaption, details.fold.code { display: none !important }"
STYLE = """
body { margin: 0; width: 1200px; height: 630px; background: #fff; color: #1b2733; }
body { overflow: hidden; }
body { font-family: system-ui, "DejaVu Sans", sans-serif; }
main { display: grid; grid-template-columns: 30rem 1fr; height: 100%; }
div.words { padding: 3.2rem 1rem 2.4rem 3.2rem; display: flex; flex-direction: column; }
h1 { font-size: 2.9rem; line-height: 1.15; margin: 0 0 1.4rem; }
p.question { font-size: 1.65rem; line-height: 1.35; margin: 0; color: #33455a; }
p.book { margin: auto 0 0; font-size: 1.2rem; color: #5b6b7c; }
div.picture { display: flex; align-items: center; justify-content: center; padding: 1.5rem; }
div.picture img { max-width: 100%; max-height: 560px; }
header { height: .6rem; background: #14467a; }
"""


def card(page: Page, site: Path, name: str, words: dict[str, str]) -> bytes:
    """PNG of a page's card."""
    page.set_viewport_size({"width": 900, "height": 900})
    page.goto(f"{(site / name).as_uri()}.html")
    page.wait_for_load_state("load")
    inside = first_picture(page)
    page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    page.set_content(
        f"<style>{STYLE}</style><header></header><main><div class='words'>"
        f"<h1>{escape(words['title'])}</h1><p class='question'>{escape(words['question'])}</p>"
        f"<p class='book'>{escape(words['book'])}</p></div>"
        f"<div class='picture'>{inside}</div></main>"
    )
    page.wait_for_load_state("load")
    return small(page.screenshot(), name)


def first_picture(page: Page) -> str:
    """The page's first picture as an element; "" where it has none."""
    picture = page.locator(PICTURE).first
    if not picture.count():
        return ""
    picture.scroll_into_view_if_needed()
    page.evaluate("async () => { await document.fonts.ready }")
    page.add_style_tag(content=HIDDEN)
    shot = base64.b64encode(picture.screenshot(animations="disabled")).decode()
    return f'<img src="data:image/png;base64,{shot}"/>'


def small(png: bytes, name: str) -> bytes:
    """The picture in as many colours as its file may have bytes for."""
    drawn = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in (128, 64, 32, 16, 8):
        out = io.BytesIO()
        drawn.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= HEAVIEST:
            return out.getvalue()
    raise SystemExit(f"{name}: the card has more than {HEAVIEST:,} bytes even with 8 colours")


def words_of(site: Path, name: str) -> dict[str, str]:
    """Title and question, from the built page."""
    soup = BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser")
    told = {str(tag["property"]): str(tag["content"]) for tag in soup.select("meta[property^=og]")}
    number = soup.select_one("article h1 .section-number")
    title = (
        told["og:title"] if not number else f"{number.get_text().strip(' .')} · {told['og:title']}"
    )
    question = told.get("og:description", "")
    if name == "book/index":
        title, question = (
            told["og:site_name"],
            "A book that you can run: every number comes from a cell.",
        )
    return {"title": title, "question": question[:140], "book": told["og:site_name"]}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw the cards of pages.")
    parser.add_argument("--site", type=Path, default=ROOT / "_build/html")
    parser.add_argument("--to", type=Path, default=ROOT / "book/_static/cards")
    parser.add_argument("pages", nargs="*", help="such as book/05-multi-head-attention")
    options = parser.parse_args(arguments)
    known = [p for p in pages(ROOT) if p == "book/index" or re.match(r"book/\d\d-(?!deeper)", p)]
    chosen = [name.removesuffix(".ipynb") for name in options.pages] or known
    for name in chosen:
        if name not in known:
            raise SystemExit(f"{name} has no card; {known[1]} has one")
    site = site_of(options.site)
    options.to.mkdir(parents=True, exist_ok=True)
    with browser() as opened:
        page = opened.new_page(color_scheme="light")
        for name in chosen:
            data = card(page, site, name, words_of(site, name))
            target = options.to / f"{name.rpartition('/')[2]}.png"
            files.store(target, data)
            say(f"{target.name}: {len(data) / 1000:.0f} kB", last=True)


if __name__ == "__main__":
    main()
