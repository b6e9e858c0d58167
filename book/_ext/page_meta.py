"""What a page says of itself to others: cards for those who share it, a line for those who cite it.

Every page has `og:` tags with its question and its card (`make cards`), chapters a fold *Cite this
page*. `sitemap.xml`, `robots.txt` and `404.html` are written when the site is built. Addresses are
made from the repository's in `_config.yml`, unless `html_baseurl` says otherwise.
"""

import re
from html import escape
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import yaml
from docutils import nodes
from front_door import chapter_number, chapters
from section_search import plain
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.domains.std import StandardDomain
from sphinx.errors import ExtensionError
from topic_index import CHAPTER, in_order

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "book/_static/cards"
LENGTH = 200  # of a description


def base(config: Config) -> str:
    """The address of the website, with a slash at its end."""
    if config.html_baseurl:
        return config.html_baseurl.rstrip("/") + "/"
    repository = config.html_theme_options["repository_url"]
    owner, _, name = repository.removeprefix("https://github.com/").rstrip("/").partition("/")
    pages = f"{owner.lower()}.github.io"
    return f"https://{pages}/" if name.lower() == pages else f"https://{pages}/{name}/"


def address(app: Sphinx, page: str) -> str:
    """The full address of a page; that of the first page is the site's."""
    return base(app.config) + ("" if page in ("index", app.config.root_doc) else f"{page}.html")


def own_links(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Links to the book's own website, as labs have them for Colab, stay inside a copy of it.

    A label is followed to wherever it is now; what is not there is an error of the build.
    """
    root, domain = base(app.config), cast(StandardDomain, app.env.get_domain("std"))
    for link in doctree.findall(nodes.reference):
        if not link.get("refuri", "").lower().startswith(f"{root}book/".lower()):
            continue
        other, _, target = link["refuri"][len(root) :].partition("#")
        other = other.removesuffix(".html")
        if target:
            found = domain.anonlabels.get(target) or domain.labels.get(target)
            if not found:
                raise ExtensionError(f"{page}: {link['refuri']} leads to no section")
            other = found[0]
        elif other not in app.env.all_docs:
            raise ExtensionError(f"{page}: {link['refuri']} leads to no page")
        link["refuri"] = app.builder.get_relative_uri(page, other) + (
            f"#{target}" if target else ""
        )
        link["internal"] = True


def description(app: Sphinx, page: str, doctree: nodes.document) -> str:
    """The chapter's question, or how the page begins."""
    question = app.env.metadata.get(page, {}).get("question")
    if question:
        return question
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        text = " ".join(re.sub("\0.*?\0", "", plain(paragraph)).split())
        if len(text) > 40:
            return text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0] + " …"
    return ""


def card(app: Sphinx, page: str) -> str | None:
    """The address of the picture to share; a page without one has the book's."""
    stem, chapter = Path(page).name, CHAPTER.match(page)
    for name in (stem, f"{chapter[1]}-" if chapter else stem, "index"):
        found = sorted(CARDS.glob(f"{name}*.png"))
        if found:
            return f"{base(app.config)}_static/cards/{found[0].name}"
    return None


def tags(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """The tags that others read."""
    if doctree is None and page != app.config.root_doc:
        return
    title = app.env.titles[page].astext() if page in app.env.titles else app.config.html_title
    said = {
        "og:type": "book" if page == app.config.root_doc else "article",
        "og:site_name": app.config.html_title,
        "og:title": title,
        "og:description": description(app, page, doctree),
        "og:url": address(app, page),
    }
    image = card(app, page)
    if image:
        said |= {"og:image": image, "og:image:width": "1200", "og:image:height": "630"}
        said |= {"og:image:alt": f"{title}: a drawing", "twitter:card": "summary_large_image"}
    lines = [
        f'<meta property="{key}" content="{escape(text)}"/>' for key, text in said.items() if text
    ]
    lines += [f'<meta name="description" content="{escape(said["og:description"])}"/>']
    lines += [f'<link rel="canonical" href="{escape(said["og:url"])}"/>']
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def cite(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """A fold with the lines for a list of references, at the end of a chapter."""
    if doctree is None or not CHAPTER.match(page):
        return
    work = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    authors = " and ".join(author(each) for each in work["authors"])
    top = page if page in chapters(app.env) else None
    at = f"Chapter {chapter_number(app.env, page)}: " if top else ""
    title = at + app.env.titles[page].astext()
    year = str(app.config.copyright)[:4]
    key = f"attnbook{year}-{Path(page).name}"
    entry = (
        f"@incollection{{{key},\n  author    = {{{authors}}},\n  title     = {{{title}}},\n"
        f"  booktitle = {{{work['title']}}},\n  edition   = {{{work['version']}}},\n"
        f"  year      = {{{year}}},\n  url       = {{{address(app, page)}}}\n}}"
    )
    line = f"{names(work)} ({year}). {title}. In: {work['title']}. {address(app, page)}"
    context["body"] += (
        '<details class="cite no-slide"><summary>Cite this page</summary>'
        f'<p>{escape(line)}</p><div class="highlight"><pre>{escape(entry)}</pre></div></details>'
    )


def author(each: dict[str, str]) -> str:
    """As BibTeX wants it: a group in braces of its own."""
    if "family-names" in each:
        return f"{each['family-names']}, {each['given-names']}"
    return f"{{{each['name']}}}"


def names(work: dict[str, Any]) -> str:
    return ", ".join(
        each.get("name") or f"{each['given-names']} {each['family-names']}"
        for each in work["authors"]
    )


NOT_FOUND = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>
<title>Not here · {title}</title><meta name="robots" content="noindex"/><style>
body {{ font: 1.1rem/1.6 system-ui, sans-serif; margin: 12vh auto; padding: 0 1rem }}
body {{ max-width: 36rem }}
body {{ color: #222; background: #fff }}
a {{ color: #0b5c8a }} li {{ margin: .3rem 0 }}
@media (prefers-color-scheme: dark) {{
  body {{ color: #ddd; background: #14181e }}
  a {{ color: #8ac8f0 }}
}}
</style></head><body><main><h1>This page is not here</h1>
<p>It may have another name by now. <span id="guess"></span></p>
<ul><li><a href="{root}">{title}</a>, with all chapters</li>
<li><a href="{root}genindex.html">Index</a> of terms</li>
<li><a id="search" href="{root}search.html">Search</a></li></ul>
<ol>{chapters}</ol>
<script>
const words = decodeURIComponent(location.pathname).split("/").pop().replace(/\\.html?$/, "")
  .split(/[^\\p{{L}}\\p{{N}}]+/u).filter((word) => word && !/^\\d+$/.test(word)).join(" ");
const search = document.getElementById("search");
if (words) {{
  search.setAttribute("href", search.getAttribute("href") + "?q=" + encodeURIComponent(words));
  search.textContent = "Search for “" + words + "”";
}}
</script></main></body></html>
"""


def write(app: Sphinx, error: Exception | None) -> None:
    """The files that nobody links to."""
    if error or app.builder.format != "html":
        return
    out, root = Path(app.outdir), base(app.config)
    pages = [page for page in in_order(app.env) if page != app.config.root_doc]
    urls = "".join(
        f"<url><loc>{escape(address(app, page))}</loc></url>\n"
        for page in ["index", *pages, "genindex"]
    )
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    sitemap = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n{urls}</urlset>\n'
    (out / "sitemap.xml").write_text(sitemap, encoding="utf-8")
    (out / "robots.txt").write_text(f"User-agent: *\nAllow: /\nSitemap: {root}sitemap.xml\n")
    path = urlsplit(root).path  # the page stands at any depth: its links begin at the root
    listed = "".join(
        f'<li><a href="{path}{page}.html">{escape(app.env.titles[page].astext())}</a></li>'
        for page in chapters(app.env)
    )
    text = NOT_FOUND.format(title=escape(app.config.html_title), root=path, chapters=listed)
    (out / "404.html").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
