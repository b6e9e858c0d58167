"""The landing page: an explorable, buttons, the map of the chapters, what is proved, the roads.

    ```{chapters}
    01-recurrent-networks: How does a network read a sequence, and why does it forget?
    ```

is the map of the chapters, each with its picture, small, and its question; the question of a
chapter's own opening comes first.
`{explorable} 03-queries-keys-values` shows the first explorable of a notebook, as it is stored
there, `{explorable} 02-bahdanau-attention machines` the one of that kind. All counts are made when
the site is built.
"""

import io
import json
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image, ImageChops
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from topic_index import CHAPTER, in_order

ROOT = Path(__file__).parents[2]
EXPLORABLE = re.compile(r"<attn-[a-z-]+")
FIRST_READING = 7  # chapters
CARDS, BESIDE = ROOT / "book/_static/cards", (490, 40, 1190, 620)  # of a card: where its picture is
SMALL = (400, 240)  # twice as fine as it is shown
PHOTO = ("08",)  # a chapter whose picture is a photograph


class late(nodes.General, nodes.Element):
    """What can be written only when all pages are read: `make(app, page, node)` gives the HTML."""


class StoredExplorable(SphinxDirective):
    """{explorable} notebook: its first one, or the first of the kind that is named behind it."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = ROOT / f"book/{self.arguments[0]}.ipynb"
        self.env.note_dependency(str(path))
        kind = self.arguments[1] if len(self.arguments) > 1 else ""
        for html in stored_html(path):
            if f"<attn-{kind}" in html if kind else EXPLORABLE.search(html):
                return [nodes.raw("", f'<div class="front-explorable">{html}</div>', format="html")]
        raise self.error(f"{path.name} has no explorable {kind}")


def stored_html(path: Path) -> Iterator[str]:
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            yield "".join(output.get("data", {}).get("text/html", ""))


class Late(SphinxDirective):
    """A directive whose HTML is made at the end."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        node = late("", kind=self.name)
        if self.name == "chapters":
            node["questions"] = dict(self.question(line) for line in self.content if line.strip())
        return [node]

    def question(self, line: str) -> tuple[str, str]:
        name, colon, question = line.partition(": ")
        if not colon or not (ROOT / f"book/{name}.ipynb").exists():
            raise self.error(f"not of the form `notebook: question`: {line!r}")
        return f"book/{name}", question.strip()


def chapters(env: BuildEnvironment) -> list[str]:
    """The chapters in their order, without what is below them."""
    found = [page for page in in_order(env) if CHAPTER.match(page)]
    below = {other for page in found for other in env.toctree_includes.get(page, [])}
    return [page for page in found if page not in below]


def chapter_number(env: BuildEnvironment, page: str) -> str:
    return str(env.toc_secnumbers[page][""][0])


def title(env: BuildEnvironment, page: str) -> str:
    return env.titles[page].astext()


def minutes(env: BuildEnvironment, page: str) -> int:
    return env.metadata[page].get("minutes", 0)


def chapter_map(app: Sphinx, page: str, node: nodes.Element) -> str:
    """For each chapter its picture, its question, its name and the minutes to read it."""
    env, stops = app.env, []
    if list(node["questions"]) != chapters(env):
        raise ExtensionError(f"{page}: the chapters are {chapters(env)}")
    up = "../" * page.count("/")
    for chapter, question in node["questions"].items():
        question = env.metadata[chapter].get("question", question)
        link, at = app.builder.get_relative_uri(page, chapter), chapter_number(env, chapter)
        name = Path(chapter).name
        picture = ""
        if (CARDS / f"{name}.png").exists():
            width, height = Image.open(io.BytesIO(miniature(name))).size
            look = ' class="photo"' if name[:2] in PHOTO else ""
            picture = (
                f'<img src="{up}_static/miniatures/{name}.webp" alt="" loading="lazy"{look} '
                f'width="{width // 2}" height="{height // 2}"/>'
            )
        stops.append(
            f'<li><a href="{link}"><span class="frame">{picture}</span>'
            f"<b>{at} {escape(title(env, chapter))}</b><span>{escape(question)}</span>"
            f"<small>{minutes(env, chapter)} min</small></a></li>"
        )
    return f'<nav class="stops" aria-label="Chapters"><ol>{"".join(stops)}</ol></nav>'


@cache
def miniature(name: str) -> bytes:
    """A chapter's first picture, from its card, without the white around it, as WebP."""
    picture = Image.open(CARDS / f"{name}.png").convert("RGB").crop(BESIDE)
    white = Image.new("RGB", picture.size, "white")
    picture = picture.crop(ImageChops.difference(picture, white).getbbox())
    picture.thumbnail(SMALL, Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=60, method=6)
    return out.getvalue()


def write_miniatures(app: Sphinx, error: Exception | None) -> None:
    """The pictures of the map, beside the site's other files."""
    if error is None and app.builder.format == "html":
        folder = Path(app.outdir) / "_static/miniatures"
        folder.mkdir(parents=True, exist_ok=True)
        for chapter in chapters(app.env):
            if (CARDS / f"{Path(chapter).name}.png").exists():
                name = Path(chapter).name
                (folder / f"{name}.webp").write_bytes(miniature(name))


def buttons(app: Sphinx, page: str, node: nodes.Element) -> str:
    """Read, run, teach."""
    env, theme = app.env, app.config.html_theme_options
    repository = theme["repository_url"].removeprefix("https://github.com/")
    blob = f"github/{repository}/blob/{theme['repository_branch']}"
    colab = f"{theme['launch_buttons']['colab_url']}/{blob}"
    runs = "".join(
        f'<li><a href="{colab}/{chapter}.ipynb">{chapter_number(env, chapter)} '
        f"{escape(title(env, chapter))}</a></li>"
        for chapter in chapters(env)
    )
    first = app.builder.get_relative_uri(page, chapters(env)[0])
    teach = app.builder.get_relative_uri(page, "book/teaching")
    return (
        f'<div class="front-buttons"><a class="button" href="{first}">Read from the start</a>'
        f"<details><summary>Run a chapter on Colab</summary><ol>{runs}</ol></details>"
        f'<a class="button" href="{teach}">Teach with it</a></div>'
    )


def counts() -> dict[str, int]:
    """What the proof strip says."""
    tests = sum(
        len(re.findall(r"^ *def test_", path.read_text("utf-8"), re.MULTILINE))
        for path in ROOT.glob("tests/**/*.py")
    )
    cells = sum(
        sum(cell["cell_type"] == "code" for cell in json.loads(path.read_text("utf-8"))["cells"])
        for path in [*ROOT.glob("book/*.ipynb"), *ROOT.glob("labs/*.ipynb")]
    )
    runs = sum(
        "provenance" in json.loads(path.read_text("utf-8"))
        for folder in ["results/*", "src/bookkit/runs", "src/bookkit/runs/seeds"]
        for path in ROOT.glob(f"{folder}/*.json")
    )
    return {"tests": tests, "cells": cells, "runs": runs}


def proof(app: Sphinx, page: str, node: nodes.Element) -> str:
    """Why one may believe it."""
    found = {name: f"{value:,}" for name, value in counts().items()}
    uri = lambda other: app.builder.get_relative_uri(page, other)  # noqa: E731
    numbers = f'<a href="{uri("book/your-run")}">the numbers to expect</a>'
    said = [
        (f"{found['cells']} cells", "run again by the tests; every printed number is compared"),
        (f"{found['tests']} tests", "of the module, each a claim about what it does"),
        (f"{found['runs']} stored runs", f"with command, seeds and machine: {numbers}"),
    ]  # fmt: skip
    items = "".join(f"<li><b>{head}</b> {words}</li>" for head, words in said)
    return f'<ul class="proof">{items}</ul>'


def roads(app: Sphinx, page: str, node: nodes.Element) -> str:
    """The first reading, with its hours, and those of its exercises."""
    env = app.env
    road = chapters(env)[:FIRST_READING]
    hours = sum(minutes(env, chapter) for chapter in road) / 60
    more = sum(env.metadata[chapter].get("exercise_minutes", 0) for chapter in road) / 60
    links = " → ".join(
        f'<a href="{app.builder.get_relative_uri(page, chapter)}" '
        f'title="{escape(title(env, chapter))}">{chapter_number(env, chapter)}</a>'
        for chapter in road
    )
    return (
        f'<p class="road-first">First reading ({max(1, round(hours))} h to read, '
        f"{round(more)} h more with every exercise): {links}</p>"
    )


MAKERS = {"chapters": chapter_map, "front-buttons": buttons, "proof": proof, "roads": roads}


def fill(app: Sphinx, doctree: nodes.document, page: str) -> None:
    for node in list(doctree.findall(late)):
        html = MAKERS[node["kind"]](app, page, node)
        node.replace_self(nodes.raw("", html, format="html"))


def again(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The landing page depends on every chapter."""
    return [env.config.root_doc]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("explorable", StoredExplorable)
    for name in MAKERS:
        app.add_directive(name, Late)
    app.add_node(late)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
