"""The slides of a chapter as one file that needs nothing else: python tools/slides.py [PAGE...]

What *Present* shows on the website, with formulas set, pictures and styles inside, explorables
alive: to be carried on a stick or sent. `--pdf` prints one slide on each page as well.
"""

import argparse
import base64
import mimetypes
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from bs4 import BeautifulSoup, Tag
from chromium import browser, say, site_of
from playwright.sync_api import Page
from toc import pages

from attnbook import files

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "book/_ext/scripts"
URL = re.compile(r"url\(\s*['\"]?([^'\")]+)['\"]?\s*\)")
FACE = re.compile(r"@font-face\s*{[^}]*}")
SET = "async () => { await window.MathJax?.startup?.promise; await document.fonts.ready }"
LOADED = "() => Promise.all([...document.images].map((image) => image.decode().catch(() => 0)))"
# Fonts of formulas that are used here; the others' rules only make the file heavy.
FONTS = "[...document.fonts].filter(font => font.status == 'loaded').map(font => font.family)"


def data_uri(path: Path) -> str:
    """A file as an address that holds it."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def style(text: str, address: str, used: Collection[str] | None = None) -> str:
    """A style sheet with its pictures and fonts inside; fonts that are not `used` go."""

    def face(found: re.Match[str]) -> str:
        family = re.search(r"font-family:\s*['\"]?([^;'\"]+)", found[0])
        return found[0] if used is None or (family and family[1].strip() in used) else ""

    def inside(found: re.Match[str]) -> str:
        target = urljoin(address, found[1])
        if not target.startswith("file:"):
            return found[0]
        path = Path(unquote(urlsplit(target).path))
        return f"url({data_uri(path)})" if path.exists() else "url(data:,)"

    return URL.sub(inside, FACE.sub(face, text))


def local(href: str, address: str) -> Path:
    """The file that a link of the page at `address` leads to."""
    return Path(unquote(urlsplit(urljoin(address, href)).path))


def sheets_of(soup: BeautifulSoup, address: str, used: Collection[str]) -> Iterator[str]:
    """The page's style sheets and that of slides, each by itself."""
    for node in soup.select('head link[rel="stylesheet"], head style'):
        if node.name == "style":
            yield style(node.get_text(), address, used)
        else:
            href = str(node["href"])
            text = local(href, address).read_text("utf-8")
            yield style(text, urljoin(address, href), used)
    yield (SCRIPTS / "present.css").read_text("utf-8")


def article_of(soup: BeautifulSoup, address: str) -> Tag:
    """The page's article, changed in place: its pictures inside, no link out of the file."""
    article = soup.select_one("article.bd-article")
    if article is None:
        raise ValueError(f"{address} has no article")
    for script in article.select("script[src], .copybtn, details.cite, .solution"):
        script.decompose()
    for image in article.select("img[src]"):
        if not str(image["src"]).startswith("data:"):
            image["src"] = data_uri(local(str(image["src"]), address))
        image.attrs.pop("loading", None)
    for link in article.select("a[href]"):  # what is not in this file cannot be followed from it
        if not str(link["href"]).startswith(("http", "#")):
            del link["href"]
    return article


def alone(html: str, address: str, used: Collection[str]) -> str:
    """The page as one file, in the state in which it begins as slides."""
    soup = BeautifulSoup(html, "html.parser")
    article, sheets = article_of(soup, address), sheets_of(soup, address, used)
    title = soup.title.get_text() if soup.title else ""
    mode = soup.html.get("data-mode", "auto") if soup.html else "auto"
    script = (SCRIPTS / "present.js").read_text("utf-8")
    theme = {"lang": "en", "data-theme": "light", "data-mode": mode}
    attributes = " ".join(f'{name}="{value}"' for name, value in theme.items())
    styles = "\n".join(sheets).replace("</style", "<\\/style")
    return (
        f'<!DOCTYPE html><html {attributes}><head><meta charset="utf-8"/>'
        f'<meta name="viewport" content="width=device-width"/><title>{title}</title>'
        f"<style>{styles}</style></head><body>{article}"
        f"<script>{script}\naddEventListener('load', () => window.attnPresent());</script>"
        f"</body></html>"
    )


def make(page: Page, site: Path, name: str, folder: Path) -> Path:
    """Write the file of a chapter; returns its path."""
    address = f"{(site / name).as_uri()}.html"
    page.goto(address, wait_until="load")
    page.evaluate(SET)
    html = alone(page.content(), address, set(page.evaluate(FONTS)))
    path = folder / f"{name.rpartition('/')[2]}.html"
    files.store(path, html)
    return path


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write the slides of chapters, each as one file.")
    parser.add_argument("--site", type=Path, default=ROOT / "_build/html")
    parser.add_argument("--to", type=Path, default=ROOT / "_build/slides")
    parser.add_argument("--pdf", action="store_true", help="one slide on each page as well")
    parser.add_argument("pages", nargs="*", help="such as book/05-multi-head-attention")
    options = parser.parse_args(arguments)
    known = [page for page in pages(ROOT) if re.match(r"book/\d\d-", page)]
    chosen = [name.removesuffix(".ipynb") for name in options.pages] or known
    for name in chosen:
        if name not in known:
            raise SystemExit(f"{name} is not a chapter; one is {known[0]}")
    site, start = site_of(options.site), time.time()
    options.to.mkdir(parents=True, exist_ok=True)
    with browser() as opened:
        page = opened.new_page(viewport={"width": 1366, "height": 768})
        for at, name in enumerate(chosen, start=1):
            say(f"slides {at} of {len(chosen)}: {name}")
            path = make(page, site, name, options.to)
            if options.pdf:
                page.goto(path.resolve().as_uri())
                page.locator(".present-count").wait_for()
                page.evaluate(LOADED)
                page.pdf(
                    path=path.with_suffix(".pdf"), prefer_css_page_size=True, print_background=True
                )
    say(f"{len(chosen)} files in {options.to}, {time.time() - start:.0f} s", last=True)


if __name__ == "__main__":
    main()
