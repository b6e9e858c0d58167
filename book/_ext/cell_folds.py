"""How the cells of a notebook are folded on the site; what the tags mean is in `tools/folds.py`.

A folded cell is a `<details>`: it works without script, the browser's search opens it. Solutions,
and admonitions of the class `dropdown`, are folded in the same way.
"""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxTranslator
from sphinx_exercise.nodes import (
    depart_exercise_enumerable_node,
    exercise_enumerable_node,
    exercise_node,
    solution_node,
    visit_exercise_enumerable_node,
)

TITLE = re.compile(r"# @title [^\n]*\n?")
SEEN = 12  # lines of a listing
STARS = re.compile(r"stars-([1-3])$")
MINUTES = re.compile(r"minutes-(\d+)$")


class fold(nodes.General, nodes.Element):
    """A `<details>` whose first child is its summary."""


class summary(nodes.Part, nodes.TextElement):
    """The line that opens a fold."""


class clip(nodes.General, nodes.Element):
    """A listing of which the first lines are seen; `lines` are all that it has."""


def cells(doctree: nodes.document) -> Iterator[tuple[nodes.Element, set[str]]]:
    """The code cells of a page, with the tags of each."""
    for node in doctree.findall(nodes.container):
        if node.get("nb_element") == "cell_code":
            yield node, {name.removeprefix("tag_") for name in node["classes"]}


def prepare(app: Sphinx, doctree: nodes.document) -> None:
    """Take Colab's titles out of the code, clip long listings, fold what is a dropdown."""
    for cell, _ in cells(doctree):
        for part in cell.children:
            if part.get("nb_element") == "cell_code_source":
                without_title(part)
            else:
                clip_listings(part)
    join_set_up(doctree)
    for box in list(doctree.findall(nodes.admonition)):
        if "dropdown" in box["classes"]:
            fold_admonition(box)


def without_title(part: nodes.Element) -> None:
    for block in part.findall(nodes.literal_block):
        text = block.astext()
        if TITLE.match(text):
            block.rawsource = TITLE.sub("", text, count=1)
            block[:] = [nodes.Text(block.rawsource)]


def clip_listings(part: nodes.Element) -> None:
    """Of a listing of the module, which is Markdown in an output, the first lines are seen."""
    shown = [n for n in part.findall(nodes.container) if n.get("mime_type") == "text/markdown"]
    for block in [block for each in shown for block in each.findall(nodes.literal_block)]:
        lines = block.astext().rstrip().count("\n") + 1
        if lines > SEEN + 4:
            holder = clip("", lines=lines)
            block.replace_self(holder)
            holder += block


def join_set_up(doctree: nodes.document) -> None:
    """Neighbouring cells of set-up are one fold, what they print inside it."""
    holder = None
    for cell, tags in list(cells(doctree)):
        if "set-up" not in tags:
            continue
        siblings = cell.parent.children
        before = siblings.index(cell) - 1
        if holder is None or before < 0 or siblings[before] is not holder:
            holder = fold("", classes=["fold", "code", "set-up"])
            holder += summary("", "Set-up")
            cell.parent.replace(cell, holder)
        else:
            cell.parent.remove(cell)
        cell.attributes.pop("hide_mode", None)
        holder += cell


def fold_admonition(box: nodes.Element) -> None:
    """An admonition with the class `dropdown` as a fold with its title as the summary."""
    title = box.next_node(nodes.title)
    classes = [name for name in box["classes"] if name not in ("dropdown", "admonition")]
    holder = fold("", ids=box["ids"], names=box["names"], classes=["fold", "box", *classes])
    holder += summary("", "", *title.children)
    holder += [child for child in box.children if child is not title]
    box.parent.replace(box, holder)


def visit_fold(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "details"))


def depart_fold(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</details>\n")


def visit_summary(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("<summary>")


def depart_summary(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</summary>\n")


def visit_clip(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append('<div class="clip">')


def depart_clip(self: SphinxTranslator, node: nodes.Element) -> None:
    words = f"Whole listing ({node['lines']} lines)"
    self.body.append(f'<label class="more"><input type="checkbox"/>{words}</label></div>\n')


def visit_cell(self: SphinxTranslator, node: nodes.Element) -> None:
    """The fold of a cell's code; of a figure's only a small sign is seen."""
    self.body.append('<details class="fold code">\n<summary>')
    if "tag_plot" in node.parent["classes"]:
        self.body.append('<span aria-hidden="true">&lt;/&gt;</span>')
        self.body.append('<span class="visually-hidden">Code of this figure</span>')
    else:
        parts = re.split("`([^`]*)`", node["prompt_show"])
        parts[::2] = map(self.encode, parts[::2])
        parts[1::2] = [f"<code>{self.encode(part)}</code>" for part in parts[1::2]]
        self.body += parts
    self.body.append("</summary>\n")


def depart_cell(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</details>\n")


def visit_solution(self: SphinxTranslator, node: nodes.Element) -> None:
    """The title that sphinx-exercise has made becomes the summary."""
    title = node.next_node(nodes.title)
    title.replace_self(summary("", "", nodes.Text("Solution")))
    node["classes"] = ["fold", "solution"]
    self.body.append(self.starttag(node, "details"))


def visit_exercise(self: SphinxTranslator, node: nodes.Element) -> None:
    """Difficulty and time, from the classes `stars-2` and `minutes-15`, stand in the title."""
    title = node.next_node(nodes.title)
    for name in node["classes"]:
        if found := STARS.match(name):
            words = f"difficulty {found[1]} of 3"
            stars = "★" * int(found[1]) + "☆" * (3 - int(found[1]))
            html = f' <span class="stars" role="img" aria-label="{words}">{stars}</span>'
            title += nodes.raw("", html, format="html")
        if found := MINUTES.match(name):
            title += nodes.raw("", f' <span class="minutes">{found[1]} min</span>', format="html")
    visit_exercise_enumerable_node(self, node)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_node(fold, html=(visit_fold, depart_fold))
    app.add_node(summary, html=(visit_summary, depart_summary))
    app.add_node(clip, html=(visit_clip, depart_clip))
    app.add_node(HideCodeCellNode, override=True, html=(visit_cell, depart_cell))
    app.add_node(solution_node, override=True, html=(visit_solution, depart_fold))
    exercise = visit_exercise, depart_exercise_enumerable_node
    app.add_node(exercise_node, override=True, html=exercise)
    app.add_node(exercise_enumerable_node, override=True, html=exercise)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
