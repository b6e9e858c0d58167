"""Each entry of the glossary leads to where its term is taught: → 5.3 Heads.

That is the section of a chapter that has the term among its index entries (`topic_index`), with
another of its names if need be, or else the one that uses it first. `_static/terms.js` has the
first sentence of each entry, which `find.js` shows beside a term that somebody points at.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from section_search import phrase, plain, variants
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from topic_index import (
    CHAPTER,
    CHINESE,
    GLOSSARY,
    anchor,
    headings,
    in_order,
    kept,
    number,
    terms,
    titled,
)

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\u4e00-\u9fff])")


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the sections in which a page uses each term, and the glossary's entries."""
    env, page = app.env, app.env.docname
    used: dict[str, str] = {}
    kept(env, "attn_used")[page] = used
    for section, _ in titled(doctree):
        for child in section.children:
            if isinstance(child, nodes.section):
                continue
            for link in child.findall(addnodes.pending_xref):
                if link.get("reftype") == "term":
                    used.setdefault(link["reftarget"].lower(), anchor(section))
    if page == GLOSSARY:
        kept(env, "attn_said").clear()
        for names, definition in entries(doctree):
            said = [name.astext().strip() for name in names]
            first = definition.next_node(nodes.paragraph)
            text = re.sub(r"\s+", " ", spoken(first))
            kept(env, "attn_said")[names[0]["ids"][-1]] = (said, SENTENCE.split(text)[0])


def spoken(node: nodes.Node) -> str:
    """The text of a paragraph; formulas stay as MathJax takes them, citations are left out."""
    if isinstance(node, nodes.math):
        return rf"\({node.astext()}\)"
    if isinstance(node, addnodes.pending_xref) and node.get("refdomain") == "cite":
        return plain(node) if "cite:t" in node.rawsource or node.get("reftype") == "t" else ""
    if isinstance(node, nodes.Text):
        return str(node)
    return "".join(spoken(child) for child in node.children)


def entries(doctree: nodes.document) -> Iterator[tuple[list[nodes.Element], nodes.Element]]:
    """The terms and the definition of each entry."""
    for item in doctree.findall(nodes.definition_list_item):
        names = [node for node in item.children if isinstance(node, nodes.term) and node["ids"]]
        if names:
            yield names, item.next_node(nodes.definition)


def purge(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    kept(env, "attn_used").pop(page, None)


def merge(app: Sphinx, env: BuildEnvironment, pages: set[str], other: BuildEnvironment) -> None:
    kept(env, "attn_used").update(kept(other, "attn_used"))
    said = dict(kept(other, "attn_said")) or dict(kept(env, "attn_said"))
    kept(env, "attn_said").clear()
    kept(env, "attn_said").update(said)


def again(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The glossary depends on every page."""
    return [GLOSSARY] if GLOSSARY in env.all_docs else []


def taught(env: BuildEnvironment) -> dict[str, tuple[str, str]]:
    """{phrase: (page, anchor)}: the first section that has it among its entries, word for word."""
    exact: dict[str, tuple[str, str]] = {}
    loose: dict[str, tuple[str, str]] = {}
    for term, page, target in terms(env):
        if CHAPTER.match(page) or page == "book/derivations":
            exact.setdefault(phrase(term), (page, target))
            for each in variants(term):
                loose.setdefault(phrase(each), (page, target))
    return {**loose, **exact}


def first_use(env: BuildEnvironment, names: list[str]) -> tuple[str, str] | None:
    for page in in_order(env):
        if CHAPTER.match(page):
            used = kept(env, "attn_used").get(page, {})
            for name in names:
                if name.lower() in used:
                    return page, used[name.lower()]
    return None


def places(env: BuildEnvironment) -> dict[str, tuple[str, str] | None]:
    """{id of an entry: (page, anchor)}; an entry that no chapter uses has none."""
    known, found = taught(env), {}
    for node, (names, _) in kept(env, "attn_said").items():
        english = [name for name in names if not CHINESE.match(name)]
        said = [each for name in english for each in variants(name)]
        place = next((known[phrase(each)] for each in said if phrase(each) in known), None)
        found[node] = place or first_use(env, names)
    return found


def lead(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Put the arrow at the end of each definition."""
    if page != GLOSSARY:
        return
    found = places(app.env)
    for names, definition in entries(doctree):
        place = found.get(names[0]["ids"][-1])
        if place is None:
            continue
        other, target = place
        words = f"{number(app.env, other, target)} {headings(app.env, other)[target]}".strip()
        uri = f"{app.builder.get_relative_uri(page, other)}#{target}"
        link = nodes.reference("", words, refuri=uri, internal=True)
        definition += nodes.paragraph("", "", nodes.Text("→ "), link, classes=["taught"])


def write(app: Sphinx, error: Exception | None) -> None:
    """Write `terms.js`."""
    if error or app.builder.format != "html":
        return
    said = {node: sentence for node, (_, sentence) in kept(app.env, "attn_said").items()}
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    Path(app.outdir, "_static/terms.js").write_text(f"attnTerms({text})\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
