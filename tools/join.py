"""Pages of the built website as one document: no two ids alike, no reference lost.

An id `x` of the page book/05-… becomes `05-…--x`; links between pages that are in the document
lead to the place in it, links to other pages of the site to the website.
"""

import re
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag

AWAY = (
    ".headerlink", ".d-print-none", ".copybtn", ".prev-next-area", ".solution", ".buttons",
    "details.cite",
    ".deeper-pages", "details.fold.code", "#jb-print-docs-body", ".onlyprint", "template",
)  # fmt: skip
NAMED = ("for", "aria-labelledby", "aria-describedby", "aria-controls", "headers")
INSIDE = re.compile(r"url\(['\"]?#([^)'\"]+)['\"]?\)")


def slug(page: str) -> str:
    """What the ids of a page begin with."""
    return page.rpartition("/")[2]


def article(site: Path, page: str) -> Tag:
    """The article of a page, without what is of no use on paper."""
    soup = BeautifulSoup((site / f"{page}.html").read_text("utf-8"), "html.parser")
    body = soup.select_one("article.bd-article")
    if body is None:
        raise ValueError(f"{page}.html has no article")
    for selector in AWAY:
        for node in body.select(selector):
            node.decompose()
    for fold in body.select("details"):
        fold["open"] = ""
    return body


def joined(site: Path, page: str, pages: Collection[str], home: str) -> Tag:
    """The article of a page with its ids and links as they are in the document."""
    body, here = article(site, page), slug(page)
    for node in body.select("[id]"):
        node["id"] = f"{here}--{node['id']}"
    for node in body.find_all(True):
        for name in NAMED:
            if node.get(name):
                stands = node[name]
                names = stands.split() if isinstance(stands, str) else stands
                node[name] = " ".join(f"{here}--{each}" for each in names)
        for name, value in node.attrs.items():
            if isinstance(value, str) and "url(#" in value.replace("'", "").replace('"', ""):
                node[name] = INSIDE.sub(lambda found: f"url(#{here}--{found[1]})", value)
    for node in body.select("[href]"):
        node["href"] = link(str(node["href"]), page, pages, home)
    for node in body.select("img[src]"):
        node["src"] = (
            (site / f"{page}.html").parent.joinpath(unquote(str(node["src"]))).resolve().as_uri()
        )
        node.attrs.pop("loading", None)
    body["id"], body.name = here, "article"
    body["class"] = "bd-article page"
    return body


def link(href: str, page: str, pages: Collection[str], home: str) -> str:
    """Where a link leads from within the document."""
    parts = urlsplit(href)
    if parts.scheme or parts.netloc:
        return href
    target = (
        f"{page}.html" if not parts.path else str(normal(Path(page).parent / unquote(parts.path)))
    )
    other = target.removesuffix(".html")
    if other in pages:
        return f"#{slug(other)}" + (f"--{unquote(parts.fragment)}" if parts.fragment else "")
    return f"{home}{target}" + (f"#{parts.fragment}" if parts.fragment else "")


def normal(path: Path) -> Path:
    """Without `..`."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts)
