"""{n}`table: row`: a measured number, read from a notebook's stored output when the site is built.

`table` is the `name` of a `measured(…)` table of any notebook of the book, `row` one of its rows.
What stands there is the mean; {n}`table: row | seeds` gives the number of each seed, `| min` and
`| max` the ends, `| 0` the first seed's. What is not there is an error of the build.
"""

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from measured_tables import Table, tables

TABLES: dict[str, tuple[Path, Table]] = {}  # name: the notebook, and the rows; by `read_all`


def shown(numbers: list[tuple[str, float]], what: str) -> str:
    """The text for a row's numbers: mean first, then each seed."""
    mean, *seeds = numbers
    seeds = seeds or [mean]
    if not what:
        return mean[0]
    if what == "seeds":
        texts = [text for text, _ in seeds]
        return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
    if what in ("min", "max"):
        return {"min": min, "max": max}[what](seeds, key=lambda pair: pair[1])[0]
    return seeds[int(what)][0]


class Number(SphinxRole):
    """{n}`table: row | what`."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name, _, rest = self.text.partition(":")
        row, _, what = (part.strip() for part in rest.partition("|"))
        path, rows = TABLES.get(name.strip(), (None, {}))
        if path:
            self.env.note_dependency(str(path))
        try:
            return [nodes.inline("", shown(rows[row], what), classes=["m"])], []
        except (KeyError, IndexError, ValueError):
            there = ", ".join(rows) if rows else ", ".join(TABLES) or "none"
            message = f"no measured number {self.text!r}; there: {there}"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]


def read_all(app: Sphinx) -> None:
    """All tables of all notebooks; a name that two of them use is an error."""
    TABLES.clear()
    for path in sorted(Path(app.srcdir, "book").glob("*.ipynb")):
        for name, rows in tables(path).items():
            if name in TABLES:
                other = TABLES[name][0].name
                raise ValueError(f"{path.name} and {other} both have a table called {name!r}")
            TABLES[name] = path, rows


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", read_all)
    app.add_role("n", Number())
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
