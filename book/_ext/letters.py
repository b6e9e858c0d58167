"""{letters}: in which chapters a capital letter stands in a formula, made from the notebooks.

What each letter means is written by hand on the page; `tests/book/test_letters.py` asks for it.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

BOOK = Path(__file__).parents[1]
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+?)\$", re.DOTALL)
WORDS = re.compile(r"\\(?:text|mathrm|operatorname|mathbb|mathcal|tag|label)\*?\s*\{[^{}]*\}")
COMMAND = re.compile(r"\\[A-Za-z]+")
LETTER = re.compile(r"(?<![A-Za-z])[A-Z](?![A-Za-z])")


def letters_of(text: str) -> set[str]:
    """Capital letters of the formulas in some Markdown; names of operators are no letters."""
    found: set[str] = set()
    for display, inline in FORMULA.findall(text):
        bare = COMMAND.sub(" ", WORDS.sub(" ", display or inline))
        spread = re.sub(r"(?<=[A-Z])(?=[A-Z])", " ", bare)
        found |= set(LETTER.findall(spread))
    return found


def chapters() -> dict[int, set[str]]:
    """The capital letters of each chapter and of its deeper pages."""
    found: dict[int, set[str]] = {}
    for path in sorted(BOOK.glob("[0-9][0-9]-*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        found.setdefault(int(path.name[:2]), set()).update(letters_of(text))
    return found


class Letters(SphinxDirective):
    """{letters}: a row for each letter, a column for each chapter."""

    def run(self) -> list[nodes.Node]:
        found = chapters()
        for path in BOOK.glob("[0-9][0-9]-*.ipynb"):
            self.env.note_dependency(str(path))
        head = "".join(f"<th scope='col'>{n}</th>" for n in found)
        rows = []
        for letter in sorted(set().union(*found.values())):
            cells = "".join(f"<td>{'•' if letter in found[n] else ''}</td>" for n in found)
            rows.append(f"<tr><th scope='row'><em>{letter}</em></th>{cells}</tr>")
        html = (
            "<div style='overflow-x: auto' tabindex='0' role='region' "
            "aria-label='letters and chapters'>"
            "<table class='table letters'><thead><tr>"
            f"<th scope='col'>letter</th>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("letters", Letters)
    return {"parallel_read_safe": True}
