"""The first screen of a chapter: question, picture, what one will be able to do, time, buttons.

    :::{chapter}
    **Why look several times at once?**

    You will be able to

    - split a layer into heads and test that it is right
    - say when one head is enough
    - read a head's map

    Needs [3](03-queries-keys-values.ipynb) and [4](04-order-and-masks.ipynb)
    :::

The picture is the next cell with the tag `remove-input` (cells of set-up may come before it), or,
with `:picture: fig-bank`, a repetition of that figure of the page. Words, figures and explorables
are counted for the time to read; the time to run is that of `results/notebooks/`. Every other
notebook gets its buttons, too, under its title. `env.metadata[page]` keeps question and times.
"""

import json
import re
from pathlib import Path
from typing import Any, ClassVar

from boxes import said
from cell_folds import MINUTES, fold
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective, SphinxTranslator
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import is_extension_node

PLOT_ID = re.compile(r"\b([dp][0-9a-f]{8}[a-z]\w*)")
ROOT = Path(__file__).parents[2]
WORDS_A_MINUTE, SECONDS_A_FIGURE, SECONDS_AN_EXPLORABLE = 220, 20, 40


class opening(nodes.General, nodes.Element):
    """All of the first screen below the title."""


class picture(nodes.General, nodes.Element):
    """Where the figure `of` is repeated, or the next cell's picture goes."""


class facts(nodes.General, nodes.TextElement):
    """The line with times and needs; `needs` are its children."""


class buttons(nodes.General, nodes.Element):
    """Run on Colab, Download, Present, for the notebook of this page."""


class Chapter(SphinxDirective):
    """{chapter}: the first screen."""

    has_content = True
    option_spec: ClassVar = {"picture": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        read = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, read)
        question, able, needs = self.parts(read.children)
        self.env.metadata[self.env.docname]["question"] = question.astext()
        node = opening("", classes=["opening"])
        self.set_source_info(node)
        question["classes"] = ["question"]
        able["classes"] = ["able"]
        said = nodes.paragraph("", "You will be able to", classes=["able-title"])
        node += [question, picture("", of=self.options.get("picture"))]
        node += [nodes.container("", said, able, classes=["abilities"])]
        node += [facts("", "", *needs), buttons("")]
        return [node]

    def parts(
        self, children: list[nodes.Node]
    ) -> tuple[nodes.Element, nodes.Element, list[nodes.Node]]:
        """Question, list and needs; an error says which of them is missing."""
        if not children or not isinstance(children[0], nodes.paragraph):
            raise self.error("a chapter begins with its question, a paragraph")
        question = children[0]
        inside = said(question)
        if len(inside) == 1 and isinstance(inside[0], nodes.strong):
            question = nodes.paragraph("", "", *inside[0].children)
        if not question.astext().endswith("?"):
            raise self.error(f"the chapter's question has no question mark: {question.astext()!r}")
        (able,) = [n for n in children if isinstance(n, nodes.bullet_list)] or [None]
        if able is None or not 2 <= len(able) <= 4:
            raise self.error("a chapter says in a list of two to four what one will be able to do")
        after = children[children.index(able) + 1 :]
        needs = after[0].children if after else []
        return question, able, [n.deepcopy() for n in needs]


def arrange(app: Sphinx, doctree: nodes.document) -> None:
    """Put the picture in its place, set-up behind it; give other notebooks their buttons."""
    name = app.env.docname
    first = next(doctree.findall(opening), None)
    path = Path(app.env.doc2path(name))
    if first is None:
        title = doctree.next_node(nodes.title)
        if path.suffix == ".ipynb" and title is not None:
            title.parent.insert(title.parent.index(title) + 1, buttons(""))
    else:
        place_picture(first)
        app.env.metadata[name]["seconds"] = run_seconds(app, path)
    app.env.metadata[name]["minutes"] = minutes(doctree)
    app.env.metadata[name]["exercise_minutes"] = exercise_minutes(doctree)


def place_picture(first: nodes.Element) -> None:
    """The first cell with a picture after the opening moves into it; set-up may stand between."""
    (place,) = first.findall(picture)
    if place["of"]:
        return
    siblings = first.parent.children
    for each in siblings[siblings.index(first) + 1 :]:
        tags = set(each.get("classes", []))
        if "tag_remove-input" in tags:
            each.parent.remove(each)
            place += each
            return
        if "set-up" not in tags and "tag_set-up" not in tags:
            break
    first.remove(place)


def run_seconds(app: Sphinx, path: Path) -> float | None:
    """Seconds on one core, from the stored run; None where none is stored."""
    found = ROOT / f"results/notebooks/{path.stem}.cpu.json"
    if not found.exists():
        return None
    app.env.note_dependency(str(found))
    return json.loads(found.read_text("utf-8"))["cpu_seconds"]


def exercise_minutes(doctree: nodes.document) -> int:
    """What the page's exercises say that they take, together: their classes `minutes-15`."""
    said = [name for node in doctree.findall(nodes.Element) for name in node.get("classes", [])]
    return sum(int(found[1]) for found in map(MINUTES.match, said) if found)


def minutes(doctree: nodes.document) -> int:
    """The time to read the page, without exercises: words, pictures, explorables."""
    words = pictures = explorables = 0
    for node in doctree.findall(lambda n: isinstance(n, nodes.TextElement | nodes.raw)):
        if isinstance(node, nodes.paragraph | nodes.title | nodes.caption) and not aside(node):
            words += len(node.astext().split())
        elif isinstance(node, nodes.raw) and "<attn-" in node.astext():
            explorables += 1
    pictures = sum(1 for _ in doctree.findall(nodes.figure))
    seconds = SECONDS_A_FIGURE * pictures + SECONDS_AN_EXPLORABLE * explorables
    return max(1, round(words / WORDS_A_MINUTE + seconds / 60))


def aside(node: nodes.Element) -> bool:
    while node := node.parent:
        if is_extension_node(node) or isinstance(node, fold):
            return True
    return False


class RepeatPicture(SphinxPostTransform):
    """Copy the image of the figure that the opening names."""

    default_priority = 10  # when the image of an output has been chosen
    formats = ("html",)

    def run(self, **options: Any) -> None:
        for place in list(self.document.findall(picture)):
            if not place["of"]:
                continue
            figures = [f for f in self.document.findall(nodes.figure) if place["of"] in f["ids"]]
            images = [image for figure in figures for image in figure.findall(nodes.image)]
            drawn = [raw for figure in figures for raw in figure.findall(nodes.raw)]
            drawn = [raw for raw in drawn if '<div class="drawing' in raw.astext()]
            if drawn and not images:  # a plot or a drawing: the same with ids of its own
                again = PLOT_ID.sub(r"\1again", drawn[0].astext())
                place += nodes.container("", nodes.raw("", again, format="html"))
                continue
            if not images:
                name = self.env.docname
                raise ExtensionError(
                    f"{name}: the opening's picture {place['of']} is no figure here"
                )
            link = nodes.reference("", "", refid=place["of"], internal=True)
            link += images[0].deepcopy()
            photo = ["photo"] * is_photo(images[0])
            place += nodes.container("", link, classes=["repeated", *photo])


class KeepWhole(SphinxPostTransform):
    """A short word with a hyphen in a page's title is not cut there: Multi-head, pre-training."""

    default_priority = 10
    formats = ("html",)

    def run(self, **options: Any) -> None:
        title = self.document.next_node(nodes.title)
        for text in list(title.findall(nodes.Text)) if title else []:
            parts = re.split(r"(\b\w+-\w+\b)", text)
            text.parent.replace(
                text,
                [
                    nodes.inline("", part, classes=["whole"])
                    if "-" in part and len(part) < 15
                    else nodes.Text(part)
                    for part in filter(None, parts)
                ],
            )


def is_photo(node: nodes.Element) -> bool:
    """Whether a node is in a cell with the tag `photo`."""
    while node := node.parent:
        if "tag_photo" in node.get("classes", []):
            return True
    return False


def duration(seconds: float) -> str:
    """A time to run, in words: 64 s, 3 min."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def visit_facts(self: HTML5Translator, node: nodes.Element) -> None:
    found = self.builder.env.metadata[self.builder.current_docname]
    line = [f"{found['minutes']} min to read"]
    if found.get("seconds"):
        line.append(f"{duration(found['seconds'])} to run on one core")
    self.body.append(f'<p class="facts">{" · ".join(line)}')
    if node.children:
        self.body.append(" · ")


def depart_facts(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</p>\n")


def visit_buttons(self: HTML5Translator, node: nodes.Element) -> None:
    """Three links that look like buttons; the address for Colab is in `_config.yml`."""
    page = self.builder.current_docname
    up = "../" * page.count("/")
    theme = self.config.html_theme_options
    repository = theme["repository_url"].removeprefix("https://github.com/")
    colab = theme["launch_buttons"]["colab_url"]
    address = f"{colab}/github/{repository}/blob/{theme['repository_branch']}/{page}.ipynb"
    links = [
        f'<a class="button colab" href="{address}">Run on Colab</a>',
        f'<a class="button download" href="{up}_sources/{page}.ipynb" download>Download</a>',
    ]
    if page.startswith("book/"):
        links.append('<a class="button present" href="?present">Present</a>')
    self.body.append(f'<p class="buttons d-print-none">{" ".join(links)}</p>\n')


def visit_div(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "div", CLASS=type(node).__name__))


def depart_div(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</div>\n")


def nothing(self: SphinxTranslator, node: nodes.Element) -> None:
    pass


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("chapter", Chapter)
    app.add_node(opening, html=(visit_div, depart_div))
    app.add_node(picture, html=(visit_div, depart_div))
    app.add_node(facts, html=(visit_facts, depart_facts))
    app.add_node(buttons, html=(visit_buttons, nothing))
    app.add_post_transform(RepeatPicture)
    app.add_post_transform(KeepWhole)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
