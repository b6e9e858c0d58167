"""The slides of a chapter as one file that needs nothing else: python tools/slides.py [PAGE...]

What *Present* shows on the website, with formulas set, pictures and styles inside, explorables
alive: to be carried on a stick or sent. `--pdf` prints one slide on each page as well.
"""

import argparse
import base64
import mimetypes
import re
import time
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from bs4 import BeautifulSoup
from chromium import browser, say, site_of
from toc import pages

from attnbook import files

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "book/_ext/scripts"
URL = re.compile(r"url\(\s*['\"]?([^'\")]+)['\"]?\s*\)")
FACE = re.compile(r"@font-face\s*{[^}]*}")
SET = "async () => { await window.MathJax?.startup?.promise; await document.fonts.ready }"
# Fonts of formulas that are used here; the others' rules only make the file heavy.
FONTS = "[...document.fonts].filter(font => font.status == 'loaded').map(font => font.family)"


def data_uri(path):
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def style(text, address, used=None):
    """A style sheet with its pictures and fonts inside; fonts that are not `used` go."""

    def face(found):
        family = re.search(r"font-family:\s*['\"]?([^;'\"]+)", found[0])
        return found[0] if used is None or (family and family[1].strip() in used) else ""

    def inside(found):
        target = urljoin(address, found[1])
        if not target.startswith("file:"):
            return found[0]
        path = Path(unquote(urlsplit(target).path))
        return f"url({data_uri(path)})" if path.exists() else "url(data:,)"

    return URL.sub(inside, FACE.sub(face, text))


def alone(html, address, used):
    """The page as one file, in the state in which it begins as slides."""
    soup = BeautifulSoup(html, "html.parser")
    root = soup.html
    article = soup.select_one("article.bd-article")
    sheets = []
    for node in soup.select('head link[rel="stylesheet"], head style'):
        if node.name == "style":
            sheets.append(style(node.get_text(), address, used))
        else:
            target = urljoin(address, node["href"])
            text = Path(unquote(urlsplit(target).path)).read_text("utf-8")
            sheets.append(style(text, target, used))
    sheets.append((SCRIPTS / "present.css").read_text("utf-8"))
    for script in article.select("script[src], .copybtn, details.cite, .solution"):
        script.decompose()
    for image in article.select("img[src]"):
        if not image["src"].startswith("data:"):
            image["src"] = data_uri(Path(unquote(urlsplit(urljoin(address, image["src"])).path)))
        image.attrs.pop("loading", None)
    for link in article.select("a[href]"):  # what is not in this file cannot be followed from it
        if not link["href"].startswith(("http", "#")):
            del link["href"]
    title = soup.title.get_text()
    script = (SCRIPTS / "present.js").read_text("utf-8")
    theme = {"lang": "en", "data-theme": "light", "data-mode": root.get("data-mode", "auto")}
    attributes = " ".join(f'{name}="{value}"' for name, value in theme.items())
    styles = "\n".join(sheets).replace("</style", "<\\/style")
    return (
        f'<!DOCTYPE html><html {attributes}><head><meta charset="utf-8"/>'
        f'<meta name="viewport" content="width=device-width"/><title>{title}</title>'
        f"<style>{styles}</style></head><body>{article}"
        f"<script>{script}\naddEventListener('load', () => window.attnPresent());</script>"
        f"</body></html>"
    )


def make(page, site, name, folder):
    """Write the file of a chapter; returns its path."""
    address = f"{(site / name).as_uri()}.html"
    page.goto(address, wait_until="load")
    page.evaluate(SET)
    html = alone(page.content(), address, set(page.evaluate(FONTS)))
    path = folder / f"{name.rpartition('/')[2]}.html"
    files.store(path, html)
    return path


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Write the slides of chapters, each as one file.")
    parser.add_argument("--site", type=Path, default=ROOT / "_build/html")
    parser.add_argument("--to", type=Path, default=ROOT / "_build/slides")
    parser.add_argument("--pdf", action="store_true", help="one slide on each page as well")
    parser.add_argument("pages", nargs="*", help="such as book/05-multi-head-attention")
    options = parser.parse_args(arguments)
    known = [page for page in pages(ROOT) if re.match(r"book/\d\d-", page)]
    chosen = options.pages or known
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
                page.pdf(
                    path=path.with_suffix(".pdf"), prefer_css_page_size=True, print_background=True
                )
    say(f"{len(chosen)} files in {options.to}, {time.time() - start:.0f} s", last=True)


if __name__ == "__main__":
    main()
