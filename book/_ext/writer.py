"""The book's language model in the page: loaded when a reader asks for it, and not before.

    :::{writer} KING HENRY:
    What to say where there is no script: JupyterLab, Colab, paper.
    :::

The argument is how the text begins. `scripts/model.js` computes; the weights become one script,
`_static/find/book-lm.js`, because a page on a disk may load a script and nothing else.
"""

import base64
import gzip
import json
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxTranslator

FOLDER = Path(__file__).parents[2] / "src/attnbook/weights/book-lm"
TO = "_static/find/book-lm.js"
# How it goes on, for readers who have not loaded it: always the likeliest token. A test compares.
FIRST = {
    "KING HENRY:": "Then, my lord, I'll bear you to the king.\n\nKING HENRY VI:\n"
    "I'll bear you to the king"
}


@cache
def model_script() -> str:
    """Sizes, tokens, merges and weights of the model as the call of a function `attnModel`."""
    card = json.loads((FOLDER / "card.json").read_text("utf-8"))
    bpe = json.loads((FOLDER / "tokenizer.json").read_text("utf-8"))["model"]
    parts = {
        "sizes": card["sizes"],
        "context": card["context"],
        "tokens": sorted(bpe["vocab"], key=bpe["vocab"].get),
        "merges": [" ".join(pair) for pair in bpe["merges"]],
        "weights": base64.b64encode((FOLDER / "weights.safetensors").read_bytes()).decode(),
    }
    return f"attnModel({json.dumps(parts, separators=(',', ':'))});\n"


@cache
def megabytes() -> str:
    """What travels, compressed as a server does it, and what lies on a disk."""
    script = model_script().encode()
    return f"{len(gzip.compress(script, 6)) / 1e6:.1f} MB ({len(script) / 1e6:.1f} on a disk)"


class writer(nodes.General, nodes.Element):
    """The element `<attn-writer>`."""


class Writer(SphinxDirective):
    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = writer("", prompt=self.arguments[0], up="../" * self.env.docname.count("/"))
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


def visit_html(translator: SphinxTranslator, node: writer) -> None:
    prompt, up = escape(node["prompt"] + "\n"), node["up"]
    first = escape(FIRST.get(node["prompt"], ""))
    translator.body.append(
        f'<attn-writer data-prompt="{prompt}" data-first="{first}" data-model="{up}{TO}">'
        f"<button hidden>Load the model, {megabytes()}</button>"
    )


def depart_html(translator: SphinxTranslator, node: writer) -> None:
    scripts = (f"{node['up']}_static/find/{name}.js" for name in ("model", "writer"))
    tags = "".join(f'<script defer src="{script}"></script>' for script in scripts)
    translator.body.append(f"</attn-writer>{tags}")


def visit_other(translator: SphinxTranslator, node: writer) -> None:
    """On paper it is its words."""


def store_model(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    target = Path(app.outdir, TO)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(model_script(), "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_node(writer, html=(visit_html, depart_html), latex=(visit_other, visit_other))
    app.add_directive("writer", Writer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
