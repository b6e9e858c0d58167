"""The built page: words for buttons, sizes on images, what comes next, where an anchor has gone."""

import json
import re
import struct
from html import escape
from pathlib import Path
from typing import Any, cast

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.domains.std import StandardDomain

DOTS_A_PIXEL = 128  # a figure of 128 dots per inch is shown as it is, one of 256 at half its size
# So docutils writes a size that is stored with an output: no style sheet could scale its height.
DEEPER = re.compile(r"(>\s*(?:[\d.]+\s)?)Deeper: (\w)")  # a title in the bar at the left
FIXED = re.compile(r' style="width: (\d+)px; height: (\d+)px;"')
IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^"]+\.png)"[^>]*?>')


def header(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """The header keeps the repository, search and theme; the rest is buttons under the title."""
    kept = [b for b in context.get("header_buttons", []) if "repository" in b.get("label", "")]
    for button in kept:
        button.update(icon=None, text="GitHub")
        button.pop("tooltip", None)
    show = {"type": "javascript", "javascript": "", "text": "Show all code", "label": "show-code"}
    if 'class="fold code' in context.get("body", ""):
        kept.insert(0, show | {"classes": "pst-js-only"})
    context["header_buttons"] = kept


# What a script is there for: a page that has nothing of it does without.
ONLY_FOR = {
    "mathjax": 'class="math',  # 160 kB
    "design-tabs": "sd-tab-set",
    "copybutton": 'class="highlight',
    "clipboard": 'class="highlight',
}
AT_ONCE = "documentation_options"  # scripts in the page stand on it


def scripts(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Scripts only where they are needed, and none that the first paint waits for."""
    kept = []
    for file in context.get("script_files", []):
        name = str(getattr(file, "filename", None) or file).lower()
        sign = next((sign for part, sign in ONLY_FOR.items() if part in name), "")
        if sign in context.get("body", ""):
            kept.append(file)
            if name.endswith(".js") and AT_ONCE not in name:
                file.attributes["defer"] = "defer"
    context["script_files"] = kept


STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
EMPTY = re.compile(r'<th(?: scope="col"| class="head")?>(?:<p></p>)?</th>')  # heads nothing
SAME = re.compile(r' id="(?:exercise|solution)-content"')  # which every exercise has


def once(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Each drawing and explorable brings its styles, for Jupyter: a page needs them once."""
    seen: set[str] = set()

    def first(found: re.Match[str]) -> str:
        if found[0] in seen:
            return ""
        seen.add(found[0])
        return found[0]

    if "body" in context:
        context["body"] = SAME.sub("", EMPTY.sub("<td></td>", STYLE.sub(first, context["body"])))


def sized_images(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Width and height on every stored figure: the text below it does not jump when it comes.

    As attributes, not as a style: where the window is narrow the height then follows the width.
    """
    if doctree is None or "body" not in context:
        return
    sources = {name: path for path, name in app.builder.images.items()}
    tags: list[str] = []

    def sized(tag: re.Match[str]) -> str:
        path = sources.get(Path(tag[1]).name)
        bare = FIXED.sub("", tag[0])
        if not path or " width=" in bare or " style=" in bare:
            return tag[0]
        given = FIXED.search(tag[0])
        width, height = given.groups() if given else size(Path(app.srcdir, path))
        about = f'width="{width}" height="{height}"'
        # All but the first come late; the first is scaled by the height of the screen, too.
        about += ' loading="lazy"' if tags else f' style="--width: {width}; --height: {height}"'
        tags.append(path)
        return bare.replace("<img", f"<img {about}", 1)

    context["body"] = IMAGE.sub(sized, context["body"])


def size(path: Path) -> tuple[int, int]:
    """A PNG's size in CSS pixels: its own, divided by how finely it was drawn."""
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    place = data.find(b"pHYs", 0, 4096)
    scale = 1.0
    if place > 0:
        dots = struct.unpack(">I", data[place + 4 : place + 8])[0] * 0.0254
        scale = max(1.0, round(2 * dots / DOTS_A_PIXEL) / 2)
    return round(width / scale), round(height / scale)


def is_chapter(page: str | None) -> bool:
    return bool(re.match(r"book/\d\d-", page or ""))


def relations(app: Sphinx) -> dict[str, list[str | None]]:
    """[the page above, the one before, the one after] of each page: what makes HTML knows them."""
    return cast(StandaloneHTMLBuilder, app.builder).relations


def is_deeper(app: Sphinx, page: str) -> bool:
    """Whether a page stands below a chapter."""
    return is_chapter(relations(app).get(page, [None])[0])


def main_road(app: Sphinx, page: str, step: int) -> str | None:
    """The neighbour of a page, 1 for before and 2 for after, deeper pages left out."""
    other = relations(app)[page][step]
    while other and is_deeper(app, other):
        other = relations(app)[other][step]
    return other


def neighbours(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Chapters lead to chapters; what is below one is listed at its end, in order."""
    if doctree is None or page not in relations(app):
        return
    if not is_deeper(app, page):
        for name, step in (("prev", 1), ("next", 2)):
            if context.get(name):
                other = main_road(app, page, step)
                context[name] = None if other is None else link(app, page, other)
    below = [each for each in app.env.toctree_includes.get(page, []) if is_deeper(app, each)]
    if is_chapter(page) and below:
        links = [link(app, page, each) for each in below]
        names = [said_once(each["title"]) for each in links]
        items = "".join(
            f'<li><a href="{each["link"]}">{name}</a></li>'
            for each, name in zip(links, names, strict=True)
        )
        words = f"Deeper: {len(below)} page{'s' * (len(below) > 1)}"
        context["body"] += (
            f'<nav class="deeper-pages" aria-label="Deeper"><p>{words}</p><ul>{items}</ul></nav>'
        )


def shorter_bar(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """In the bar at the left the indent says what is deeper: the word is left out there."""
    make = context.get("generate_toctree_html")
    if make is None:
        return

    def shorter(kind: str, *given: Any, **named: Any) -> Any:
        found = make(kind, *given, **named)
        if kind != "sidebar":
            return found
        return DEEPER.sub(lambda part: part[1] + part[2].upper(), str(found))

    context["generate_toctree_html"] = shorter


def said_once(title: str) -> str:
    """A title without its "Deeper: ", for a list that is headed so."""
    return re.sub(r"\bDeeper: (\w)", lambda found: found[1].upper(), title, count=1)


def link(app: Sphinx, page: str, other: str) -> dict[str, str]:
    """What the theme's template wants to know of a neighbour."""
    numbers = app.env.toc_secnumbers.get(other, {}).get("", ())
    number = ".".join(map(str, numbers)) + ". " if numbers else ""
    title = escape(number + app.env.titles[other].astext())
    return {"link": app.builder.get_relative_uri(page, other), "title": title}


def write_moved(app: Sphinx, error: Exception | None) -> None:
    """Where an anchor stands that is not, or no longer, on the page of an old address.

    Sections and figures that moved from a chapter to a page below it keep their anchor; all
    labels of the book lead to where they are now. The file is loaded only when one is missing.
    """
    if error or app.builder.format != "html":
        return
    moved = {}
    domain = cast(StandardDomain, app.env.get_domain("std"))
    for page, anchor, *_ in [*domain.labels.values(), *domain.anonlabels.values()]:
        if anchor and page.startswith("book/"):
            moved[anchor] = page
    for page, (above, *_) in relations(app).items():
        if is_chapter(above):
            text = Path(app.outdir, f"{page}.html").read_text("utf-8")
            for anchor in re.findall(r'<(?:section|figure|span|div)\b[^>]*? id="([^"]+)"', text):
                moved[f"{above}#{anchor}"] = page
    target = Path(app.outdir, "_static/moved.js")
    target.write_text(f"attnMoved({json.dumps(moved, sort_keys=True)})\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
