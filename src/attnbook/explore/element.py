"""Explorables: pictures that a reader moves in the browser, with no Python behind them.

An explorable is one custom element. Its numbers travel as JSON in an attribute, its script is
inlined once, its picture lives in a shadow root so that no page style leaks in or out. What it
computes is computed in Python too (`still`), and a test compares the two in a real browser.
"""

import html
import json
from functools import cache
from importlib import resources


@cache
def script(name: str) -> str:
    """The JavaScript of one element, with what all of them share in front, as one closed scope."""
    parts = [resources.files(__package__).joinpath(f"{part}.js") for part in ("shared", name)]
    return "(() => {\n" + "\n".join(part.read_text(encoding="utf-8") for part in parts) + "})();"


class Explorable:
    """Base class: a subclass names its element (`tag`, also its script) and fills two methods.

    `numbers()` returns what the script needs, as JSON can hold it; `still()` returns the SVG that
    is seen where scripts are switched off, drawn from Python's own arithmetic.
    """

    tag = ""

    def _repr_html_(self) -> str:
        data = html.escape(json.dumps(self.numbers(), ensure_ascii=False), quote=True)
        element = f'<attn-{self.tag} data-numbers="{data}">{self.still()}</attn-{self.tag}>'
        return f"{element}\n<script>{script(self.tag)}</script>"

    def __repr__(self) -> str:
        return f"{type(self).__name__}: move it in the browser"
