"""The index: which section to open for a term of the field.

    ## Residual connections
    <!-- index: residual connections (skip connections); residual stream -->

A comment below a heading, which no reader of the notebook sees, names the terms of its section,
separated by semicolons. Sphinx's own `{index}` does the same, in the open. The page `genindex`
lists them by topic and from A to Z, then the Chinese terms; the
search (`section_search`) and the glossary (`glossary_links`) rely on them.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from html import escape
from typing import Any, cast

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.index import IndexDomain
from sphinx.domains.std import StandardDomain
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

COMMENT = re.compile(r"\s*<!--\s*index:\s*(.*?)\s*-->\s*", re.DOTALL)
CHAPTER = re.compile(r"book/(\d\d)-")
GLOSSARY = "book/glossary"
REFERENCE = "book/reference"
CHINESE = re.compile(r"[\u4e00-\u9fff]")


class IndexComments(SphinxTransform):
    """Make index entries of the comments; each leads to its section."""

    default_priority = 300  # when labels have become ids, before Sphinx collects the entries

    def apply(self, **options: Any) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            found = COMMENT.fullmatch(raw.astext())
            if not found:
                continue
            where = f"{self.env.docname}, line {raw.line}"
            section = raw.parent
            if not isinstance(section, nodes.section):
                raise ExtensionError(f"{where}: an index comment stands below a heading")
            terms = [" ".join(term.split()) for term in found[1].split(";")]
            if not all(terms):
                raise ExtensionError(f"{where}: an index entry is empty: {found[1]!r}")
            target = anchor(section)
            entries = [("single", term, target, "", None) for term in terms]
            raw.replace_self(addnodes.index("", entries=entries))


def anchor(section: nodes.Element) -> str:
    """The label of a section, which stays when it is retitled, or else the id of its title."""
    return section["ids"][-1]


def terms(env: BuildEnvironment) -> Iterator[tuple[str, str, str]]:
    """All entries but those of glossary and module: (term, page, anchor), in reading order."""
    entries = cast(IndexDomain, env.get_domain("index")).entries
    for page in in_order(env):
        if page != GLOSSARY and not page.startswith("book/reference"):
            for _, term, target, *_ in entries.get(page, []):
                yield term, page, target


def in_order(env: BuildEnvironment) -> list[str]:
    """The pages as the table of contents has them."""

    def below(page: str) -> Iterator[str]:
        yield page
        for other in env.toctree_includes.get(page, []):
            yield from below(other)

    return list(dict.fromkeys(below(env.config.root_doc)))


def number(env: BuildEnvironment, page: str, target: str = "") -> str:
    """The number of a section, such as 5.3, or of the one around it; an empty text without any."""
    if not target:
        return joined(env.toc_secnumbers.get(page, {}).get(""))
    numbers = (own_number(env, page, each) for each in slugs(env, page).get(target, [target]))
    return next(filter(None, numbers), "")


def own_number(env: BuildEnvironment, page: str, target: str) -> str:
    """The number of a section itself; deep ones have none."""
    if not target:
        return number(env, page)
    slug = slugs(env, page).get(target, [target])[0]
    return joined(env.toc_secnumbers.get(page, {}).get(f"#{slug}"))


def joined(found: Any) -> str:
    return ".".join(map(str, found or ()))


def kept(env: BuildEnvironment, name: str) -> dict[str, Any]:
    """What is remembered under this name: an attribute, so it is stored with the rest."""
    return vars(env).setdefault(name, {})


def slugs(env: BuildEnvironment, page: str) -> dict[str, list[str]]:
    """{label: ids under which the section and those around it are numbered}, from `remember`."""
    return kept(env, "attn_slugs").get(page, {})


def headings(env: BuildEnvironment, page: str) -> dict[str, str]:
    """{anchor: heading} of a page."""
    return kept(env, "attn_headings").get(page, {})


def remember(app: Sphinx, doctree: nodes.document) -> None:
    """Keep, for each section, its ids and its heading."""
    ids: dict[str, list[str]] = {}
    said: dict[str, str] = {}
    for section, title in titled(doctree):
        for each in section["ids"]:
            ids[each] = [node["ids"][0] for node in lineage(section) if node["ids"]]
            said[each] = title.astext()
    kept(app.env, "attn_slugs")[app.env.docname] = ids
    kept(app.env, "attn_headings")[app.env.docname] = said


def lineage(section: nodes.Element) -> Iterator[nodes.Element]:
    """A section and those around it."""
    while isinstance(section, nodes.section):
        yield section
        section = section.parent


def titled(doctree: nodes.document) -> Iterator[tuple[nodes.Element, nodes.Node]]:
    """The sections of a page with their titles; an exercise is a section without one."""
    for section in doctree.findall(nodes.section):
        if section.children and isinstance(section[0], nodes.title):
            yield section, section[0]


def forget(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    for name in ("attn_slugs", "attn_headings"):
        kept(env, name).pop(page, None)


def merge(app: Sphinx, env: BuildEnvironment, pages: set[str], other: BuildEnvironment) -> None:
    for name in ("attn_slugs", "attn_headings"):
        kept(env, name).update(kept(other, name))


def by_topic(env: BuildEnvironment) -> Iterator[tuple[str, Any]]:
    """[(heading, {term: [(page, anchor)]})]: a chapter, with what is below it, is a topic."""
    above = {}
    for page in in_order(env):
        for other in env.toctree_includes.get(page, []):
            above[other] = page
    topics: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for term, page, target in terms(env):
        top = page
        while CHAPTER.match(above.get(top, "")):
            top = above[top]
        topics.setdefault(top, defaultdict(list))[term].append((page, target))
    for top, found in topics.items():
        numbers = env.toc_secnumbers.get(top, {}).get("", ())
        title = " ".join([*map(str, numbers), env.titles[top].astext()])
        yield title, found


def letter(term: str) -> str:
    """Under which heading of A to Z a term stands: signs and digits come first."""
    first = unicodedata.normalize("NFKD", term.lstrip("([−≈ε√"))[:1].upper()
    return first if "A" <= first <= "Z" else "0–9"


def sort_key(term: str) -> str:
    return re.sub(r"[^\w ]", "", unicodedata.normalize("NFKD", term)).casefold()


def glossary_terms(env: BuildEnvironment) -> dict[str, str]:
    """{term: anchor}, those in Chinese included."""
    objects = cast(StandardDomain, env.get_domain("std")).objects.items()
    return {name: found[1] for (kind, name), found in objects if kind == "term"}


def short(page: str, title: str) -> str:
    """How a place without a number is called: those below a chapter by its number."""
    chapter = CHAPTER.match(page)
    return f"{int(chapter[1])} deeper" if chapter else title


def listed(app: Sphinx, found: Any, titles: bool = False) -> str:
    """A list of terms; behind each the numbers of the sections, which are links."""
    lines = []
    for term, places in found:
        links = []
        for page, target in dict.fromkeys(places):
            uri = app.builder.get_relative_uri("genindex", page) + (f"#{target}" if target else "")
            if page == GLOSSARY:
                shown, title = "glossary", f"Glossary: {term}"
            else:
                title = headings(app.env, page).get(target) or app.env.titles[page].astext()
                shown = number(app.env, page, target) or short(page, title)
            about = f' title="{escape(title)}"' if titles and title != shown else ""
            links.append(f'<a href="{escape(uri)}"{about}>{escape(shown)}</a>')
        lines.append(f"<li>{escape(term)} {', '.join(links)}</li>")
    return f'<ul class="terms">{"".join(lines)}</ul>'


def build(app: Sphinx) -> str:
    """The page's body."""
    env = app.env
    alphabet: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for term, page, target in terms(env):
        alphabet[letter(term)][term].append((page, target))
    chinese = {}
    for term, target in glossary_terms(env).items():
        if CHINESE.search(term):
            chinese[term] = [(GLOSSARY, target)]
        else:
            alphabet[letter(term)][term].append((GLOSSARY, target))
    letters = sorted(alphabet)
    jump = [f'<a href="#{anchor_of(each)}">{each}</a>' for each in letters]
    jump += ['<a href="#chinese" lang="zh-Hans">中文</a>']
    parts = [
        '<section id="index"><h1>Index</h1>',
        "<p>Terms of the field, and the sections where they are taught: by topic, then from "
        "A to Z. The numbers are links.</p>",
        f'<p class="jump">{" ".join(jump)}</p>',
        '<section id="topics"><h2>By topic</h2>',
    ]
    for title, found in by_topic(env):
        parts.append(f"<h3>{escape(title)}</h3>{listed(app, found.items(), titles=True)}")
    parts.append('</section><section id="a-to-z"><h2>A to Z</h2>')
    for each in letters:
        found = sorted(alphabet[each].items(), key=lambda item: sort_key(item[0]))
        parts.append(f'<h3 id="{anchor_of(each)}">{each}</h3>{listed(app, found)}')
    parts.append('</section><section id="chinese"><h2>Chinese terms</h2>')
    parts.append(f'<div lang="zh-Hans">{listed(app, sorted(chinese.items()))}</div>')
    module = app.builder.get_relative_uri("genindex", REFERENCE)
    parts.append(
        f'</section><p>The names of the module are in its <a href="{module}">reference</a>, '
        "and the search finds each of them.</p></section>"
    )
    return "\n".join(parts)


def anchor_of(each: str) -> str:
    return f"index-{'signs' if each == '0–9' else each}"


def page(
    app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: nodes.document
) -> str | None:
    """Show our own index under the name of Sphinx's."""
    if name == "genindex":
        context["body"] = build(app)
        context["title"] = "Index"
        context["meta"] = {"html_theme.sidebar_secondary.remove": "true"}
        return "page.html"
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_transform(IndexComments)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
