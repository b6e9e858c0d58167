"""{n}`table: row`: a measured number, read from a notebook's stored output when the site is built.

`table` is the `name` of a `measured(…)` table of any notebook of the book, `row` one of its rows.
What stands there is the mean; {n}`table: row | seeds` gives the number of each seed, `| min` and
`| max` the ends, `| 0` the first seed's, `| interval` where the mean lies. What is not there is an
error of the build.
`{declared-studies}` lists the runs that were declared, and each table links to the page about that.
"""

import json
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from measured_tables import Table, intervals, tables

TABLES: dict[str, tuple[Path, Table]] = {}  # name: the notebook, and the rows; by `read_all`
INTERVALS: dict[str, dict[str, str]] = {}


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
            ends = INTERVALS.get(name.strip(), {}).get(row, "")
            if what == "interval" and not ends:
                raise KeyError(row)
            text = ends if what == "interval" else shown(rows[row], what)
            return [nodes.inline("", text, classes=["m"])], []
        except (KeyError, IndexError, ValueError):
            there = ", ".join(rows) if rows else ", ".join(TABLES) or "none"
            message = f"no measured number {self.text!r}; there: {there}"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]


RUNS = Path(__file__).parents[2] / "src/bookkit/runs"
HOW = "book/how-we-measure"  # the page that every table of measurements links to


def link_tables(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Below each table of measurements, a link to the page that says how to read it."""
    if app.builder.format != "html" or HOW not in app.env.found_docs:
        return
    address = app.builder.get_relative_uri(page, HOW)
    for raw in doctree.findall(nodes.raw):
        if '<table class="measured"' in raw.astext():
            link = f'<p class="how"><a href="{address}">How we measure</a></p>'
            raw.children = [nodes.Text(raw.astext() + link)]
            raw.rawsource = raw.astext()


def declared() -> list[tuple[str, dict[str, Any]]]:
    """Name and declaration of each stored run that was declared before it was run."""
    found = []
    for path in sorted(RUNS.rglob("*.json")):
        run = json.loads(path.read_text("utf-8"))
        if isinstance(run, dict) and "no_gain" in run.get("study", {}):
            found.append((path.relative_to(RUNS).with_suffix("").as_posix(), run["study"]))
    return found


class DeclaredStudies(SphinxDirective):
    """{declared-studies}: each declared study with its question, budget, and what is no gain."""

    def run(self) -> list[nodes.Node]:
        rows = nodes.bullet_list()
        for name, study in declared():
            words = f" {study['question']} Budget: {study['budget']}. No gain: {study['no_gain']}."
            rows += nodes.list_item("", nodes.paragraph("", "", nodes.literal(name, name)))
            rows[-1][0] += nodes.Text(words)
        return [rows]


def read_all(app: Sphinx) -> None:
    """All tables of all notebooks; a name that two of them use is an error."""
    TABLES.clear()
    INTERVALS.clear()
    for path in sorted(Path(app.srcdir, "book").glob("*.ipynb")):
        for name, rows in tables(path).items():
            if name in TABLES:
                other = TABLES[name][0].name
                raise ValueError(f"{path.name} and {other} both have a table called {name!r}")
            TABLES[name] = path, rows
        INTERVALS.update(intervals(path))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("declared-studies", DeclaredStudies)
    app.add_role("n", Number())
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
