"""The search by section: an index of our own for Sphinx's search page.

Every section, definition of the module and entry of the glossary is a place to land on. Words are
collected while pages are read; `_static/sections.js` is written when the site is built, and only
`search.html` loads it, as a script, so that a copy on a disk can be searched as well. What a word
is worth at a place is computed here; `search.js` adds up and sorts.
"""

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, cast

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.environment import BuildEnvironment
from sphinx.search.en import SearchEnglish
from topic_index import anchor, in_order, kept, number, own_number, terms, titled

WORD = re.compile(r"[^\W_]+(?:[-–‑][^\W_]+)*")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
SKIPPED = (nodes.raw, nodes.image, nodes.comment, nodes.system_message, addnodes.index)
SIGNS = str.maketrans(
    {"√": " sqrt ", "×": "x", "∞": " infinity ", "−": "-", "’": "'", "ᵀ": " transpose "}
)
# Worth of a word in a title, in an index entry, in the text; of a place by the kind of its page.
TITLE, TERM, BODY = 4.0, 5.0, 1.6
WORTH = {
    "section": 1.0,
    "glossary": 0.55,
    "name": 0.5,
    "lab": 0.45,
    "aside": 0.5,
    "module": 0.3,
    "proof": 0.75,
}
ASIDES = {"book/lectures-checked", "book/lectures-map", "book/your-run", "book/conventions"}
ASIDES |= {"book/notation", "book/teaching", "book/references", "book/reference", "book/index"}
HALF, MEAN = 1.2, 260  # how often a word occurs until it counts half, in a text of how many words
EXCERPT = 150
FREQUENT, FAINT = 40, 5  # in how many places a word occurs; a worth of half a point
english = SearchEnglish({})


@cache
def stem(word: str) -> str:
    """As `search.js` does it: British and American spelling are one."""
    word = re.sub(r"iz(?=[eia])", "is", word).replace("our", "or")
    return word if len(word) < 3 else re.sub(r"(log|bl)i$", r"\1", english.stem(word))


@cache
def parted(word: str) -> tuple[str, list[str]]:
    """A word in lower case, and its parts (of `pre-norm`, `RMSNorm`)."""
    pieces = [part for piece in re.split("[-–‑]", word) for part in CAMEL.split(piece)]
    parts = [part.lower() for part in pieces]
    return "".join(parts), parts


def written(text: str) -> list[str]:
    """The words of a text; `pre-norm` is one."""
    return WORD.findall(unicodedata.normalize("NFKC", text.translate(SIGNS)).replace("'", ""))


@cache
def stems(word: str) -> tuple[str, ...]:
    """The stems of a word: of a compound its parts and the whole."""
    whole, parts = parted(word)
    found = [stem(part) for part in parts if part not in english.stopwords]
    return (*found, stem(whole)) if len(parts) > 1 else tuple(found)


def words(text: str) -> Iterator[str]:
    """The stems of a text."""
    return chain.from_iterable(map(stems, written(text)))


def phrase(text: str) -> str:
    """What makes two titles or entries the same: their stems, a compound as one."""
    wholes = {parted(word)[0] for word in written(text)}
    found = {stem(whole) for whole in wholes if whole not in english.stopwords}
    return " ".join(sorted(found))


class Place:
    """Where a search can land."""

    def __init__(self, kind: str, title: str, anchor: str) -> None:
        self.kind, self.title, self.anchor = kind, title, anchor
        self.entries: list[str] = []
        self.text: list[str] = []
        self.code: list[str] = []
        self.first = ""

    def read(self, node: nodes.Node) -> None:
        """Take the words of a node that belongs here."""
        if isinstance(node, SKIPPED):
            if isinstance(node, addnodes.index):
                self.entries += [entry[1] for entry in node["entries"] if entry[0] == "single"]
            return
        if isinstance(node, nodes.literal_block):
            self.code.append(node.astext())
            return
        if "cell_output" in node.get("classes", []):
            return
        if is_exercise(node):
            self.code.append(plain(node))
            return
        if isinstance(node, nodes.TextElement):
            text = plain(node)
            self.text.append(text)
            if not self.first and isinstance(node, nodes.paragraph) and len(text) > 30:
                self.first = text
            return
        for child in node.children:
            if not lands(child):
                self.read(child)


def is_exercise(node: nodes.Node) -> set[str]:
    return {"exercise", "solution"} & set(node.get("classes", []))


def lands(node: nodes.Node) -> bool:
    """Whether a node has places of its own."""
    return isinstance(node, nodes.section | addnodes.desc | addnodes.glossary)


def plain(node: nodes.Node) -> str:
    """The text of a node; references that are not resolved yet stand as \\0target\\0."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, (*SKIPPED, nodes.math_block)):
        return ""
    if isinstance(node, nodes.math):
        return unlatex(node.astext())
    if isinstance(node, addnodes.pending_xref):
        if node.get("refdomain") == "cite":
            return ", ".join(author(key) for key in node["reftarget"].split(","))
        if node.get("reftype") in ("ref", "numref", "myst", "eq") and not node.get("refexplicit"):
            return f"\0{node['reftarget']}\0"
    return "".join(plain(child) for child in node.children)


def author(key: str) -> str:
    found = re.match(r"([a-z]+)(\d{4})", key.strip())
    return f"{found[1].capitalize()} {found[2]}" if found else key


LATEX = {
    r"\\(?:text|mathrm|operatorname|mathbf)\{([^{}]*)\}": r"\1",
    r"\\sqrt\{?(\w+)\}?": r"√\1",
    r"\\cdot": "·",
    r"\\times": "×",
    r"\\infty": "∞",
    r"\\top": "ᵀ",
    r"\\(?:dots|ldots|cdots)": "…",
    r"\\le\b": "≤",
    r"\\ge\b": "≥",
    r"\\[,;! ]": " ",
    r"\\([a-zA-Z]+)": r"\1",
    r"[{}\\]": "",
}


def unlatex(formula: str) -> str:
    """A formula in a line of text, near enough to be read in an excerpt."""
    for pattern, to in LATEX.items():
        formula = re.sub(pattern, to, formula)
    return formula


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Store the places of a page with the environment; Sphinx's own index, which no page loads, is
    not to have it."""
    page = app.env.docname
    app.env.metadata[page]["nosearch"] = True
    found: list[Place] = []
    kept(app.env, "attn_places")[page] = found
    for section, title in titled(doctree):
        if any(is_exercise(above) for above in ancestors(section)):
            continue
        kind = "lab" if page.startswith("labs/") else "aside" if page in ASIDES else "section"
        if page.startswith("book/reference/"):
            kind = "module"
        if page == "book/derivations":
            kind = "proof"
        place = Place(kind, plain(title), anchor(section) if section.parent is not doctree else "")
        for child in section.children:
            if child is not title and not lands(child):
                place.read(child)
        found.append(place)
    for term in doctree.findall(nodes.definition_list_item):
        names = [node for node in term.children if isinstance(node, nodes.term) and node["ids"]]
        if names and page == "book/glossary":
            place = Place(
                "glossary", " · ".join(plain(n).strip() for n in names), names[0]["ids"][-1]
            )
            place.entries = [plain(n).strip() for n in names]
            for child in term.children[len(names) :]:
                place.read(child)
            found.append(place)
    for desc in doctree.findall(addnodes.desc):
        signature = desc.next_node(addnodes.desc_signature)
        if signature is not None and signature["ids"]:
            place = Place("name", signature["ids"][0], signature["ids"][0])
            first = desc.next_node(nodes.paragraph)  # what is said of it in one line
            if first is not None:
                place.read(first)
            found.append(place)


def ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    while node := node.parent:
        yield node


def purge(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    kept(env, "attn_places").pop(page, None)


def merge(app: Sphinx, env: BuildEnvironment, pages: set[str], other: BuildEnvironment) -> None:
    kept(env, "attn_places").update(kept(other, "attn_places"))


def weights(place: Place, entries: list[str]) -> dict[str, Any]:
    """{stem: worth} of a place."""
    title, tagged = set(words(place.title)), {w for entry in entries for w in words(entry)}
    text: dict[str, float] = defaultdict(float, Counter(words(" ".join(place.text))))
    for word, count in Counter(words(" ".join(place.code).replace("_", " "))).items():
        text[word] += count / 4
    length = sum(text.values()) / MEAN
    found = {}
    for word in title | tagged | set(text):
        times = text[word]
        worth = BODY * times / (times + HALF * (0.35 + 0.65 * length)) if times else 0.0
        worth += TITLE * (word in title) + TERM * (word in tagged)
        found[word] = worth * WORTH[place.kind]
    return found


def variants(entry: str) -> Iterator[str]:
    """What stands outside and inside the brackets of an entry, and what is before a comma."""
    outside = re.sub(r"\(.*?\)", " ", entry)
    yield from (entry, outside, *re.findall(r"\((.*?)\)", entry))
    if "(" in entry:  # top-p (nucleus) sampling: nucleus sampling
        yield re.sub(r"\S+ \((.*?)\)", r"\1", entry)
    yield from re.split("[,–]", outside) if "," in outside else ()


def dump(app: Sphinx) -> dict[str, Any]:
    """What `sections.js` holds."""
    env, tagged = app.env, defaultdict(list)
    for term, page, target in terms(env):
        tagged[page, target].append(term)
    places: list[list[Any]] = []
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    phrases: dict[str, list[int]] = defaultdict(list)
    pages, read = in_order(env), kept(env, "attn_places")
    order = {page: i for i, page in enumerate(pages)}
    for page in sorted(read, key=lambda p: order.get(p, 999)):
        if page not in order:
            continue
        for place in read[page]:
            entries = list(dict.fromkeys(place.entries + tagged.get((page, place.anchor), [])))
            me = len(places)
            places.append(shown(app, page, place, order[page]))
            for word, worth in weights(place, entries).items():
                if worth >= 0.05:
                    postings[word].append((me, round(10 * worth) or 1))
            title = place.title.rpartition(".")[2] if place.kind == "name" else place.title
            said = {phrase(each) for entry in [title, *entries] for each in variants(entry)}
            for each in said - {""}:
                phrases[each].append(me)
    heads = [[page, f"{number(env, page)} {env.titles[page].astext()}".strip()] for page in pages]
    flat = {word: delta(worth_telling(found)) for word, found in sorted(postings.items())}
    said_at = dict(sorted(phrases.items()))
    return {"pages": heads, "places": places, "words": flat, "phrases": said_at}


def worth_telling(found: list[Any]) -> list[Any]:
    """Of a frequent word only the places where it is more than mentioned."""
    return [each for each in found if each[1] > FAINT] if len(found) > FREQUENT else found


def delta(found: list[Any]) -> list[Any]:
    """[place, worth, steps to the next place, worth, …]."""
    line, last = [], 0
    for place, worth in found:
        line += [place - last, worth]
        last = place
    return line


def shown(app: Sphinx, page: str, place: Place, at: int) -> list[Any]:
    """[page, anchor, number, title, excerpt, kind] of a place."""
    found = own_number(app.env, page, place.anchor) if place.kind in ("section", "proof") else ""
    labels = cast(StandardDomain, app.env.get_domain("std")).labels

    def title(match: re.Match[str]) -> str:
        return str(labels.get(match[1], ("", "", ""))[2])  # Sphinx translates some late

    first = re.sub("\0(.*?)\0", title, place.first)
    first = re.sub(r"\s+", " ", first).strip()
    if len(first) > EXCERPT:
        first = first[:EXCERPT].rsplit(" ", 1)[0] + " …"
    if place.kind == "name":
        return [at, place.anchor, "", "", first, "name"]  # what it is called is its anchor
    heading = re.sub("\0(.*?)\0", title, place.title)
    return [at, place.anchor, found, heading, first, place.kind]


def write(app: Sphinx, error: Exception | None) -> None:
    """Write `sections.js`."""
    if error or app.builder.format != "html":
        return
    text = json.dumps(dump(app), ensure_ascii=False, separators=(",", ":"))
    Path(app.outdir, "_static/sections.js").write_text(f"attnSections({text})\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 2}
