"""{open-models}: src/bookkit/runs/open_models.json as a table that can be sorted and filtered.

A model takes two lines, so that all columns are seen; on a phone a cell has its column's name.
Without scripts it is a plain table; where each cell was read is in the page, shown on demand.
"""

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

STORED = Path(__file__).parents[2] / "src/bookkit/runs/open_models.json"
SCRIPTS = Path(__file__).parent / "scripts"
Cells = dict[str, dict[str, str]]
# What rows can be chosen by: the words of the choice, and whether a row has it.
PARTS: dict[str, Callable[[Cells], bool]] = {
    "shared or latent keys": lambda c: not c["Attention"]["says"].startswith("MHA"),
    "layers of two kinds": lambda c: "+" in c["Layers"]["says"],
    "norm of queries and keys": lambda c: c["Norm of queries and keys"]["says"] != "no",
    "experts": lambda c: c["Experts"]["says"] != "dense",
    "balanced by a bias": lambda c: "bias" in c["Experts"]["says"],
    "layers without positions": lambda c: "none" in c["Positions"]["says"],
    "part of the channels rotated": lambda c: "%" in c["Positions"]["says"],
    "a norm after the sublayer": lambda c: "after" in c["Norms"]["says"],
    "sink or gate": lambda c: re.search("sink|gate", c["Further"]["says"]) is not None,
}

EVIDENCE = {
    "release": "released file",
    "kin": "released file of a later version",
    "makers": "its makers' own code or card",
    "quoted": "quoted by others",
}


def key(says: str) -> str:
    """What a column is sorted by: the number that a cell begins with, else its text."""
    found = re.match(r"([\d.,]+) ?(B|T|kB)?\b", says)
    if not found:
        return says.lower()
    return str(float(found[1].replace(",", "")) * (1000 if found[2] == "T" else 1))


def cell(column: str, says: str, source: str) -> str:
    about = f'role="cell" data-column="{escape(column)}" data-key="{escape(key(says))}"'
    return f"<td {about}>{escape(says)}<small>{escape(source)}</small></td>"


def row(model: dict[str, Any]) -> str:
    cells: Cells = model["cells"]
    has = " ".join(str(n) for n, there in enumerate(PARTS.values()) if there(cells))
    head = f'<th role="rowheader" scope="row">{escape(model["name"])}</th>'
    rest = "".join(cell(column, **each) for column, each in cells.items())
    month = cell("Month", model["month"], "as announced; not in the code")
    return f'<tr role="row" data-has="{has}">{head}{month}{rest}{evidence(model["source"])}</tr>'


def evidence(source: dict[str, str]) -> str:
    """What the settings were read in; its address, day and hash on demand."""
    address = f"{source['repository']}/{source['path']} at {source['commit'][:12]}"
    seen = f"{source['what']}: {address}, {source['date'] or 'day not known'}"
    seen += f", SHA-256 {source['sha256']}" if source["sha256"] else ", no hash"
    return cell("Evidence", EVIDENCE[source["kind"]], seen)


def choices(models: list[dict[str, Any]]) -> str:
    """A box to tick for each part, with the number of models that have it."""
    boxes = []
    for n, (words, there) in enumerate(PARTS.items()):
        count = sum(there(model["cells"]) for model in models)
        box = f'<input type="checkbox" value="{n}">'
        boxes.append(f"<label>{box} {words} <span>{count}</span></label>")
    return "".join(boxes)


class OpenModels(SphinxDirective):
    """{open-models}: the whole table."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(STORED))
        models = json.loads(STORED.read_text("utf-8"))["models"]
        names = ["Model", "Month", *models[0]["cells"], "Evidence"]
        head = "".join(
            f'<th role="columnheader" scope="col"><button type="button">{name}</button></th>'
            for name in names
        )
        style, script = (
            (SCRIPTS / f"open_models.{end}").read_text("utf-8") for end in ("css", "js")
        )
        html = (
            f'<style>{style}</style><div class="open-models">'
            f"<fieldset><legend>Only models with</legend>{choices(models)}</fieldset>"
            '<p class="line"><label>Find <input type="search" placeholder="MLA"></label>'
            '<label><input type="checkbox" class="from"> show where each cell was read</label>'
            f'<output aria-live="polite">{len(models)} of {len(models)} models</output></p>'
            '<div class="wide" tabindex="0" role="region" aria-label="Table of open models">'
            f'<table role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
            f'<tbody role="rowgroup">{"".join(map(row, models))}</tbody></table>'
            f"</div></div><script>{script}</script>"
        )
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("open-models", OpenModels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
