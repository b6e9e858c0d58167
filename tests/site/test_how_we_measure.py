"""Each table of measurements leads to the page that says how to read it."""

import sys
from pathlib import Path
from types import SimpleNamespace

from docutils import nodes, utils

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book/_ext"))
import measured_numbers  # noqa: E402


def page(*texts):
    document = utils.new_document("page")
    for text in texts:
        document += nodes.raw("", text, format="html")
    return document


def site(name="html", pages=(measured_numbers.HOW,)):
    builder = SimpleNamespace(format=name, get_relative_uri=lambda a, b: f"../{b}.html")
    return SimpleNamespace(builder=builder, env=SimpleNamespace(found_docs=set(pages)))


def test_a_table_gets_a_link_and_nothing_else_does():
    document = page('<table class="measured"></table>', "<table></table>")
    measured_numbers.link_tables(site(), document, "book/01")
    table, other = (raw.astext() for raw in document.findall(nodes.raw))
    assert table.endswith('<a href="../book/how-we-measure.html">How we measure</a></p>')
    assert table.startswith('<table class="measured"></table>') and other == "<table></table>"


def test_without_the_page_or_outside_of_html_nothing_is_linked():
    for app in (site("latex"), site(pages=())):
        document = page('<table class="measured"></table>')
        measured_numbers.link_tables(app, document, "book/01")
        assert "How we measure" not in document.astext()


def test_the_page_is_in_the_contents_and_lists_every_declared_study():
    assert f"- file: {measured_numbers.HOW}\n" in (ROOT / "_toc.yml").read_text("utf-8")
    names = [name for name, _ in measured_numbers.declared()]
    assert {"latch", "painted", "circuit", "exponents"} <= set(names)
    (rows,) = measured_numbers.DeclaredStudies.run(SimpleNamespace())
    assert [row[0][0].astext() for row in rows] == names
    assert all("No gain: " in row.astext() for row in rows)
